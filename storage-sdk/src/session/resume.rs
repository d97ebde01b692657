//! Claims a session again that the hot tier may have forgotten, and continues it where it was (S6
//! to S8).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage_dirty::{ClaimSession, Claimed};
use storage_model::{Change, Condition, Durability, Epoch, Field, Outcome, Version};
use tokio::time::Instant;

use super::hold::Hold;
use super::save::guarded;
use super::state::{HoldStatus, LossReason};
use crate::{Error, Kind, Record, Result};

impl Hold {
    /// Claims the session. Once the grace has ended, saves all of its content and continues. Until
    /// then the session stays suspect.
    ///
    /// # Errors
    /// A tier is away, or rejects the call. The claim is tried again.
    pub(super) async fn resume(&self) -> Result<()> {
        let known = self.known();
        if known.standing != HoldStatus::Suspect {
            return Ok(());
        }
        let (core, hot) = (&self.core, self.core.tiers.hot());
        let claim = ClaimSession {
            owner: self.owner.clone(),
            fence: self.fence,
            holder: core.holder.id,
            name: core.holder.name.clone(),
            epoch: known.epoch,
            acked: known.acked,
        };
        let until = Instant::now() + core.deadline;
        let (epoch, begun) = match core
            .ask_hot(until, || hot.sessions.claim_session(&claim))
            .await?
        {
            Claimed::Yes {
                epoch,
                graced: true,
                begun,
            } => (epoch, begun),
            Claimed::Yes { graced: false, .. } => return Ok(()),
            Claimed::No(None) if self.has_ended().await? => {
                self.ended();
                return Ok(());
            }
            Claimed::No(other) => {
                let error = self.lose_to(other.as_ref());
                tracing::warn!(%error, "a session is lost");
                return Ok(());
            }
        };
        // ORDER: after a save under way, which could overwrite a later one. It ends by its
        // deadline.
        if self.sending.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stored = core.read_whole(&self.owner).await?;
        if !self.knows_of(&stored, (epoch, begun)) {
            // ORDER: given back first, so that the owner is free once the loss is known.
            self.give_back().await;
            let error = self.lose(LossReason::Changed);
            tracing::warn!(%error, "a session is lost");
            return Ok(());
        }
        self.confirm(&stored, epoch, until).await
    }

    /// Whether the owner is as the session left it, or older. Then no other writer has changed it.
    /// If the session has no acknowledgement in an epoch, another writer made all writes of that
    /// epoch. This holds even for versions below the last known one, because a clock may have been
    /// set back.
    fn knows_of(&self, stored: &Record, (epoch, begun): (Epoch, Version)) -> bool {
        let (known, version) = (self.known(), stored.version());
        let is_of_the_epoch = version > begun && known.acked_in != epoch;
        version <= known.acked && !is_of_the_epoch
            || known.doubtful.iter().any(|left| left.is_in(stored))
    }

    /// Saves all of the session's content, if the owner still is as it was read.
    async fn confirm(&self, stored: &Record, epoch: Epoch, until: Instant) -> Result<()> {
        let mut copy = match guarded(|| self.content.whole(stored)) {
            Ok(copy) => copy,
            Err(error) => return Err(self.in_trouble(error)),
        };
        if copy.changes.is_empty() {
            // A change without effect confirms an owner without fields.
            copy.changes = Arc::from([(Field::new("none").map_err(Error::from)?, Change::Remove)]);
        }
        let left = until.saturating_duration_since(Instant::now());
        let answer = self
            .write(
                &copy,
                Condition::Version(stored.version()),
                false,
                Durability::Cached,
                left,
            )
            .await;
        match answer {
            Ok(_) => {
                self.change(|known| {
                    if known.standing == HoldStatus::Suspect {
                        (known.standing, known.epoch, known.trouble) =
                            (HoldStatus::Held, epoch, None);
                    }
                });
                tracing::info!(owner = %self.owner, "a session goes on");
                Ok(())
            }
            // Another write or a new epoch came in between. The session is claimed and compared
            // again.
            Err(error) if error.kind() == Kind::Conflict || error.refusal().is_some() => Ok(()),
            Err(error) if error.outcome() == Outcome::Unknown => Ok(()),
            Err(error) if error.kind() == Kind::Invalid => Err(self.in_trouble(error)),
            Err(error) => Err(error),
        }
    }

    /// Ends a session in the hot tier that was just claimed and has lost its owner. If this fails,
    /// a later sweep ends it.
    async fn give_back(&self) {
        if let Err(error) = self
            .core
            .tiers
            .hot()
            .sessions
            .close_session(&self.owner, self.fence)
            .await
        {
            tracing::debug!(%error, owner = %self.owner, "a lost session could not be given back yet");
        }
    }

    /// The content of the session can't be saved, and the callers of a save learn that. The session
    /// continues once an edit makes the content fit.
    fn in_trouble(&self, error: Error) -> Error {
        self.change(|known| known.trouble = Some(error.clone()));
        error
    }
}
