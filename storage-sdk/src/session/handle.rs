//! What all kinds of sessions offer their callers.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Durability, Version};

use super::hold::Hold;
use super::save::Wanted;
use super::state::{LossReason, SessionState, Standing};
use crate::{Ack, Result};

/// The handle of a session. Dropped without an end, the session ends in the background.
#[derive(Debug)]
pub(super) struct Handle(Arc<Hold>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A save of a session that is sent when it is awaited. Saves that are awaited at once are one.
///
/// # Errors
/// - `Fenced`: the session is lost, and nothing was written.
/// - `Invalid`: the object can't be encoded, or has outgrown a limit. Nothing was written, and the
///   session goes on: make it smaller, and save again.
/// - `Timeout`: with the outcome `NotApplied`, the session could not be confirmed in time after the
///   hot tier was replaced. Its edits stay.
/// - else as [`Write`](crate::Write).
///
/// # Cancel safety
/// A dropped save goes on; the session learns what becomes of it.
#[must_use = "a save is sent when it is awaited"]
#[derive(Debug)]
pub struct SaveSession {
    hold: Arc<Hold>,
    wanted: Wanted,
}

impl SaveSession {
    /// How safe the save must be before it is acknowledged. Default: that of the owner's logic
    /// type; see [`Write::durability`](crate::Write::durability).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.wanted.durability = durability;
        self
    }

    /// For how long it is tried. Default: `hot.operation_deadline`, 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.wanted.within = deadline;
        self
    }
}

impl IntoFuture for SaveSession {
    type Output = Result<Ack>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Ack>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.hold.save(self.wanted).await })
    }
}

impl Handle {
    pub(super) fn new(hold: Arc<Hold>) -> Self {
        Self(hold)
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.0
    }

    pub(super) fn save(&self) -> SaveSession {
        let wanted = Wanted {
            durability: self.0.durability,
            within: self.0.core.deadline,
            ends: false,
        };
        SaveSession {
            hold: Arc::clone(&self.0),
            wanted,
        }
    }

    pub(super) fn saved(&self) -> Version {
        self.0.known().acked
    }

    pub(super) fn landed(&self) -> Version {
        self.0.known().landed
    }

    pub(super) async fn wait_landed(&self, within: Duration) -> Result<Version> {
        let hold = &self.0;
        let (version, epoch) = hold.look(|known| (known.acked, known.acked_in));
        hold.core.land(&hold.owner, version, epoch, within).await?;
        Ok(hold.change(|known| {
            known.landed = known.landed.max(version);
            known.landed
        }))
    }

    pub(super) fn state(&self) -> SessionState {
        self.0.state()
    }

    pub(super) async fn lost(&self) -> LossReason {
        let lost = |standing: &Standing| {
            if let Standing::Lost(why) = standing {
                Some(why.clone())
            } else {
                None
            }
        };
        match lost(
            &self
                .0
                .until(|known| lost(&known.standing).is_some())
                .await
                .standing,
        ) {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn asked(&self) -> String {
        match self.0.until(|known| known.asked.is_some()).await.asked {
            Some(by) => by,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn end(&self, within: Duration) -> Result<Ack> {
        self.0.end(within).await
    }
}

/// Writes the methods that all kinds of sessions share.
macro_rules! shared_by_sessions {
    ($session:ty $(where $($bound:tt)+)?) => {
        impl $(<$($bound)+>)? $session {
            /// Saves what was edited, if anything was. The last edit before the call is in it.
            ///
            /// # Errors
            /// As [`SaveSession`](super::SaveSession).
            ///
            /// # Cancel safety
            /// As [`SaveSession`](super::SaveSession).
            pub fn save(&self) -> super::SaveSession {
                self.handle.save()
            }

            /// The version of the last acknowledged save; of the owner as it was found, if nothing
            /// was saved yet.
            #[must_use]
            pub fn saved(&self) -> Version {
                self.handle.saved()
            }

            /// The greatest version that this session knows to be in the database: of a save that
            /// waited for it, or of `wait_landed`. A purchase is confirmed when the version that
            /// holds it has landed.
            #[must_use]
            pub fn landed(&self) -> Version {
                self.handle.landed()
            }

            /// Waits until what has been saved is in the database; answers that version. It lands
            /// by itself: this makes it sooner.
            ///
            /// # Errors
            /// As [`ByteOwner::flush`](crate::ByteOwner::flush). With the outcome `Unknown` if the
            /// hot tier was replaced since the save: save again, and wait again.
            ///
            /// # Cancel safety
            /// As [`ByteOwner::flush`](crate::ByteOwner::flush).
            pub async fn wait_landed(&self, within: Duration) -> Result<Version> {
                self.handle.wait_landed(within).await
            }

            /// What tells this session from others of the owner.
            #[doc(hidden)]
            #[must_use]
            pub fn fence(&self) -> storage_model::Fence {
                self.handle.hold().fence
            }

            /// How the session stands, as this process knows it. Asks nobody.
            #[must_use]
            pub fn state(&self) -> SessionState {
                self.handle.state()
            }

            /// Ready once the session is lost; never, if it ends well.
            ///
            /// # Cancel safety
            /// It only waits.
            pub async fn lost(&self) -> LossReason {
                self.handle.lost().await
            }

            /// Ready once another server asks for the owner, with that server's name. What was
            /// edited until then is saved at once. The game should end the session; see
            /// [`OnConflict::Ask`](super::OnConflict::Ask) for what happens if it does not.
            ///
            /// # Cancel safety
            /// It only waits.
            pub async fn asked(&self) -> String {
                self.handle.asked().await
            }

            /// Saves what is left and ends the session in the same step: whoever opens the owner
            /// next finds the last edit. Nothing can be edited from the moment of the call on. It
            /// is tried for `hot.operation_deadline`. A call that fails may be repeated.
            ///
            /// # Errors
            /// As [`SaveSession`](super::SaveSession); `Closing` if the session had ended before.
            ///
            /// # Cancel safety
            /// A dropped call goes on.
            pub async fn end(&self) -> Result<Ack> {
                self.handle.end(self.handle.hold().core.deadline).await
            }
        }
    };
}

pub(super) use shared_by_sessions;
