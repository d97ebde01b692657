//! Saves of a session. One save of a session is under way at a time. Concurrent requests join the
//! next one (S4).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use storage_coalesce::{Coalescer, Group};
use storage_dirty::Refusal;
use storage_model::{Applied, Attempt, Change, Condition, Durability, Mutation, Outcome};
use tokio::time::{Instant, sleep};

use super::content::ContentCopy;
use super::hold::Hold;
use super::state::{HoldStatus, SessionFacts};
use crate::durability::at_once;
use crate::write::check_deadline;
use crate::{Ack, Error, Kind, Record, Result, Safety};

/// The wishes of a caller for a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SaveRequest {
    pub(crate) durability: Durability,
    /// The time for retries.
    pub(crate) within: Duration,
    /// Whether the session ends with it.
    pub(crate) ends: bool,
}

/// The durability of a save, and whether the session ends with it.
type Alike = (Durability, bool);

/// The waiting saves of a session, each with its time for retries. One is under way at a time.
pub(super) type Saves = Coalescer<Alike, Duration, Result<Ack>>;

/// A save without a version is under way until this is dropped.
struct SaveUnderWay<'a>(&'a Hold);

impl Drop for SaveUnderWay<'_> {
    fn drop(&mut self) {
        self.0.sending.store(false, Ordering::SeqCst);
    }
}

fn panicked() -> Error {
    Error::new(Kind::Invalid, "the object panicked while it was encoded")
}

/// Encodes the content of a session by code of the game, which may panic.
pub(super) fn guarded<T>(encode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(panicked()))
}

impl Hold {
    /// Saves all edits, together with all callers that wait for the same.
    pub(crate) async fn save(self: &Arc<Self>, wanted: SaveRequest) -> Result<Ack> {
        check_deadline(wanted.within).map_err(|error| error.of(&self.owner))?;
        let alike = (wanted.durability, wanted.ends);
        let (answer, carrier) = self.saves.join(alike, wanted.within);
        if let Some(carrier) = carrier {
            // At home. The runtime of a caller may end or stand still while others wait for the
            // save.
            let hold = Arc::clone(self);
            self.core.tiers.home().spawn(async move {
                let hold = &hold;
                let save = |batch| async move { hold.carry(batch).await };
                carrier.carry(save).await;
            });
        }
        let ended = || {
            Error::new(
                Kind::Closed,
                "the runtime of the storage ended before the save",
            )
            .with_outcome(Outcome::Unknown)
        };
        answer
            .await
            .unwrap_or_else(|_| Err(ended()))
            .map_err(|error| error.of(&self.owner))
    }

    async fn carry(&self, batch: Vec<Group<Alike, Duration, Result<Ack>>>) {
        for waiters in batch {
            let (durability, ends) = *waiters.key();
            let wanted = SaveRequest {
                durability,
                within: waiters.inputs().max().copied().unwrap_or_default(),
                ends,
            };
            let sent = AssertUnwindSafe(self.send(wanted)).catch_unwind().await;
            waiters.answer_all(
                sent.unwrap_or_else(|_| Err(panicked().with_outcome(Outcome::Unknown))),
            );
        }
    }

    async fn send(&self, wanted: SaveRequest) -> Result<Ack> {
        let until = Instant::now() + wanted.within;
        let mut closed = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let saved = match self.once_it_stands(left).await {
                Ok(saved) => saved,
                // The call below has ended the session, as was found out.
                Err(_) if closed && self.look(|known| known.standing == HoldStatus::Ended) => {
                    return Ok(self.saved_before());
                }
                Err(error) => return Err(error),
            };
            let Some(copy) = self.copy(saved, wanted)? else {
                if !wanted.ends || self.close(until).await? {
                    return Ok(self.saved_before());
                }
                closed = true;
                continue;
            };
            self.warn_if_large(&copy);
            let ends = wanted.ends && copy.only_sets();
            let may_have_ended = self.look(|known| known.ends_in_doubt);
            let answer = {
                self.sending.store(true, Ordering::SeqCst);
                let _sending = SaveUnderWay(self);
                // ORDER: `sending` is set before this look. The claim of a suspect session checks
                // in the opposite order, so one of the two sees the other.
                if self.is_suspect() {
                    continue;
                }
                self.write(&copy, Condition::None, ends, wanted.durability, left)
                    .await
            };
            match answer {
                Ok(_) if wanted.ends && !ends => {
                    self.change(|known| known.saved = known.saved.max(copy.edit))
                }
                Ok(ack) => {
                    if ends {
                        self.ended();
                    }
                    return Ok(ack);
                }
                Err(error)
                    if may_have_ended
                        && matches!(error.refusal(), Some(Refusal::Fenced(None)))
                        && self.has_ended().await? =>
                {
                    self.change(|known| known.saved = known.saved.max(copy.edit));
                    self.ended();
                    return Err(Error::new(
                        Kind::Closing,
                        "an earlier call has already ended the session",
                    )
                    .with_outcome(Outcome::Applied));
                }
                Err(error) => self.heed(error, may_have_ended)?,
            }
        }
    }

    /// The last saved edit, once the session is not suspect. An error if the session is over, or
    /// stays suspect for this time.
    async fn once_it_stands(&self, left: Duration) -> Result<u64> {
        let stands = |known: &SessionFacts| match known.standing {
            HoldStatus::Held => Some(Ok(known.saved)),
            HoldStatus::Suspect => None,
            HoldStatus::Lost(_) | HoldStatus::Ended => {
                Some(Err(known.refusal().unwrap_or_else(Error::forgotten)))
            }
        };
        if let Some(stands) = self.look(stands) {
            return stands;
        }
        if let Some(hold) = self.core.holder.open_one(self.fence.token) {
            let waits = async move {
                hold.until(|known| known.standing != HoldStatus::Suspect)
                    .await
            };
            if let Err(late) = self.core.within(left, waits).await {
                if let Some(trouble) = self.look(|known| known.trouble.clone()) {
                    return Err(trouble);
                }
                let why = "the hot tier was replaced or did not answer, and the session is not confirmed yet";
                return Err(Error::new(
                    Kind::Timeout,
                    format!("not saved {late}: {why}; its edits stay, save again later"),
                ));
            }
        }
        self.look(|known| stands(known).unwrap_or(Ok(known.saved)))
    }

    /// The copy to save. `None` if there is nothing to save.
    fn copy(&self, saved: u64, wanted: SaveRequest) -> Result<Option<ContentCopy>> {
        let encode = || match self.content.changed(saved)? {
            // Unedited content may have been saved less safely.
            None if !wanted.ends && wanted.durability != Durability::Cached => {
                self.content.whole(&Record::default()).map(Some)
            }
            changed => Ok(changed),
        };
        let copy = guarded(encode)?;
        Ok(copy.filter(|copy| !copy.changes.is_empty()))
    }

    /// The answer to a save that has nothing to save.
    fn saved_before(&self) -> Ack {
        let applied = Applied {
            version: self.look(|known| known.acked),
            changed: 0,
            counters: Vec::new(),
            position: None,
            also: Vec::new(),
        };
        Ack {
            applied,
            safety: Safety::Cached,
        }
    }

    /// Ends a session whose edits are all saved. Returns whether it has ended. If that is
    /// uncertain, the session becomes suspect.
    async fn close(&self, until: Instant) -> Result<bool> {
        let epoch = self.look(|known| known.epoch);
        let is_confirmed = || self.core.tiers.epoch(self.partition) == epoch;
        // S7: a replaced hot tier may have forgotten the session, or only its saves. In that case
        // the session saves them again.
        if is_confirmed() {
            self.change(|known| known.ends_in_doubt = true);
            let hot = self.core.tiers.hot();
            let was_there = self
                .core
                .ask_hot(until, || {
                    hot.sessions.close_session(&self.owner, self.fence)
                })
                .await?;
            if was_there && is_confirmed() {
                self.ended();
                return Ok(true);
            }
        }
        self.suspect();
        Ok(false)
    }

    /// Whether a call with a lost answer ended a session that the hot tier does not know.
    pub(super) async fn has_ended(&self) -> Result<bool> {
        if !self.look(|known| known.ends_in_doubt) || !self.is_dirty() {
            return Ok(self.look(|known| known.ends_in_doubt));
        }
        let stored = self.core.read_whole(&self.owner).await?;
        Ok(self.look(|known| {
            known
                .doubtful
                .last()
                .is_some_and(|left| left.is_in(&stored))
        }))
    }

    /// Sends a save, and notes its outcome.
    pub(super) async fn write(
        &self,
        copy: &ContentCopy,
        condition: Condition,
        ends: bool,
        durability: Durability,
        left: Duration,
    ) -> Result<Ack> {
        let left = self.core.backpressure.admit(left, false).await?;
        let mut save = Mutation::new(
            self.owner.clone(),
            Vec::new(),
            self.core.ids.next(),
            self.core.expiry(left),
        );
        save.changes = Arc::clone(&copy.changes);
        save.closes = ends;
        let save = save
            .as_attempt(Attempt::First)
            .by(self.fence)
            .when(condition)
            .as_safe_as(durability);
        // ORDER: before the save is sent. A look at the owner may find it before its answer
        // arrives.
        self.change(|known| {
            known.ends_in_doubt |= ends;
            known.send(&copy.left);
        });
        let (sent, epoch) = (Instant::now(), self.core.tiers.epoch(self.partition));
        let answer = self.core.write(save, left).await;
        if answer
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::Unknown)
        {
            // A copy of the save may be on its way until its deadline. The next save must come
            // after that.
            sleep(left.saturating_sub(sent.elapsed())).await;
        }
        let landed = at_once(durability).is_none();
        self.change(|known| match &answer {
            Ok(ack) => {
                known.acknowledge(ack.version(), copy.edit, epoch);
                if self.core.tiers.epoch(self.partition) != epoch {
                    // The save may belong to a later epoch. There the content of the owner
                    // identifies it.
                    known.send(&copy.left);
                }
                if landed {
                    known.landed = known.landed.max(ack.version());
                }
            }
            Err(error) if error.outcome() == Outcome::Applied => {
                known.saved = known.saved.max(copy.edit);
            }
            Err(error) if error.outcome() == Outcome::Unknown => {}
            Err(_) => known.refuse(&copy.left),
        });
        if ends
            && answer
                .as_ref()
                .is_err_and(|error| error.outcome() == Outcome::Applied)
        {
            self.ended();
        }
        answer
    }

    /// Draws conclusions from a failed save. An error if the save must not be sent again.
    fn heed(&self, error: Error, may_have_ended: bool) -> Result<()> {
        let epoch = self.look(|known| known.epoch);
        match error.refusal() {
            // S6: in the epoch of its confirmation, the hot tier has forgotten nothing.
            Some(Refusal::Fenced(other)) if self.core.tiers.epoch(self.partition) == epoch => {
                let outcome = if may_have_ended {
                    Outcome::Unknown
                } else {
                    error.outcome()
                };
                Err(self.lose_to(other.as_deref()).with_outcome(outcome))
            }
            Some(Refusal::Fenced(_) | Refusal::Grace(_) | Refusal::Unconfirmed(_)) => {
                self.suspect();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Warns once of a value that nearly exceeds its limit. One of the next saves could fail.
    fn warn_if_large(&self, copy: &ContentCopy) {
        let limit = self.core.limits.value_bytes_max;
        for (field, change) in copy.changes.iter() {
            let Change::Set(value) = change else { continue };
            if value.len() > limit / 5 * 4 && !self.warned.swap(true, Ordering::Relaxed) {
                let (owner, bytes) = (&self.owner, value.len());
                tracing::warn!(%owner, field = field.as_str(), bytes, limit, "a value nearly exceeds its limit");
            }
        }
    }
}
