//! One session that this process holds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use storage_dirty::{Asked, Session as Stored};
use storage_model::{Durability, Epoch, Fence, Owner, Partition, Version};
use tokio::sync::watch;
use tokio::time::Instant;

use super::content::Content;
use super::save::Saves;
use super::state::{HoldStatus, LossReason, SessionFacts, SessionState};
use crate::core::Core;
use crate::{Error, Result};

/// A session that this process holds or held. Its handle shares it with the tasks that save and
/// claim it.
pub(crate) struct Hold {
    pub(super) core: Arc<Core>,
    pub(super) owner: Owner,
    pub(super) partition: Partition,
    pub(super) fence: Fence,
    pub(super) content: Arc<dyn Content>,
    /// The durability of saves that set none.
    pub(super) durability: Durability,
    pub(super) autosave: Option<Duration>,
    pub(super) saves: Saves,
    /// Whether a save without a version is under way.
    pub(super) sending: AtomicBool,
    /// Whether the log already warns that a value nearly exceeds its limit.
    pub(super) warned: AtomicBool,
    known: watch::Sender<SessionFacts>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("owner", &self.owner)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // No caller can end it any more. If the hot tier still has it, a later sweep ends it.
        self.core.holder.forget(self.fence.token);
    }
}

/// The data of an opened session.
#[derive(Debug)]
pub(super) struct SessionStart {
    pub(super) owner: Owner,
    pub(super) fence: Fence,
    pub(super) epoch: Epoch,
    pub(super) version: Version,
    pub(super) durability: Durability,
    pub(super) autosave: Option<Duration>,
}

impl Hold {
    pub(super) fn new(
        core: &Arc<Core>,
        begun: SessionStart,
        content: Arc<dyn Content>,
    ) -> Arc<Self> {
        let SessionStart {
            owner,
            fence,
            epoch,
            version,
            durability,
            autosave,
        } = begun;
        let known = SessionFacts {
            epoch,
            acked_in: epoch,
            acked: version,
            ..SessionFacts::default()
        };
        let partition = owner.partition(core.tiers.hot().partitions.partition_count());
        Arc::new(Self {
            core: Arc::clone(core),
            owner,
            partition,
            fence,
            content,
            durability,
            autosave,
            saves: Saves::new(1, 1),
            sending: AtomicBool::new(false),
            warned: AtomicBool::new(false),
            known: watch::Sender::new(known),
        })
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn known(&self) -> SessionFacts {
        self.known.borrow().clone()
    }

    /// Looks at the knowledge without a copy.
    pub(super) fn look<R>(&self, look: impl FnOnce(&SessionFacts) -> R) -> R {
        look(&self.known.borrow())
    }

    pub(crate) fn state(&self) -> SessionState {
        self.known.borrow().state()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.known.borrow().is_over()
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.known.borrow().standing == HoldStatus::Suspect
    }

    /// Whether there are unsaved edits.
    pub(crate) fn is_dirty(&self) -> bool {
        self.content.edit() > self.known.borrow().saved
    }

    /// Rejects an edit of a session that is over or ending.
    pub(super) fn check_editable(&self) -> Result<()> {
        self.known
            .borrow()
            .refusal()
            .map_or(Ok(()), |error| Err(error.of(&self.owner)))
    }

    pub(super) fn change<R: Default>(&self, change: impl FnOnce(&mut SessionFacts) -> R) -> R {
        let mut answer = R::default();
        self.known.send_modify(|known| answer = change(known));
        answer
    }

    /// Waits until a condition holds.
    pub(super) async fn until(&self, holds: impl FnMut(&SessionFacts) -> bool) -> SessionFacts {
        let mut known = self.known.subscribe();
        // This session owns the sender, so the sender exists.
        known
            .wait_for(holds)
            .await
            .map(|known| known.clone())
            .unwrap_or_default()
    }

    /// The session may not hold the owner any more. Saves wait until it is claimed.
    pub(super) fn suspect(&self) {
        let begins = self.change(|known| {
            let begins = known.standing == HoldStatus::Held;
            if begins {
                known.standing = HoldStatus::Suspect;
            }
            begins
        });
        if begins {
            self.core.holder.claim_soon();
        }
    }

    /// The session is lost, unless it is already over.
    pub(super) fn lose(&self, why: LossReason) -> Error {
        let (error, is_new) = self.change(|known| {
            let is_new = !known.is_over();
            if is_new {
                known.standing = HoldStatus::Lost(why);
            }
            (known.refusal(), is_new)
        });
        self.core.holder.forget(self.fence.token);
        if is_new {
            self.core.holder.lost();
        }
        error.unwrap_or_else(Error::forgotten).of(&self.owner)
    }

    /// The other session took its place, or no session did.
    pub(super) fn lose_to(&self, other: Option<&Stored>) -> Error {
        self.lose(match other {
            Some(other) => LossReason::Stolen {
                by: other.name.clone(),
            },
            None => LossReason::Forgotten,
        })
    }

    /// This process ended the session, and the hot tier does not know it any more.
    pub(super) fn ended(&self) {
        self.change(|known| known.standing = HoldStatus::Ended);
        self.core.holder.forget(self.fence.token);
    }

    /// Another server asks for the owner, or none does any more. Returns whether one does. A server
    /// that waits asks again under another id. One that gave up or died leaves its last request.
    pub(super) fn asked(&self, asked: Option<Asked>) -> bool {
        let (before, now) = (self.look(|known| known.heard), Instant::now());
        let heard = asked.as_ref().map(|asked| match before {
            Some((ask, since)) if ask == asked.ask => (ask, since),
            _ => (asked.ask, now),
        });
        let stands =
            heard.is_some_and(|(_, since)| now.duration_since(since) < self.core.holder.lease);
        let by = asked.map(|asked| asked.by).filter(|_| stands);
        if self.look(|known| known.heard != heard || known.asked != by) {
            self.change(|known| (known.heard, known.asked) = (heard, by));
        }
        stands
    }
}
