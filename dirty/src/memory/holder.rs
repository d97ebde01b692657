//! The processes that hold sessions.

use async_trait::async_trait;
use storage_model::{Epoch, Fence, OpId, Owner, Partition, Timestamp};

use super::partition::current;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use crate::{Adoption, Asked, Beats, Holders, HotError, Session};

#[async_trait]
impl Holders for MemoryStore {
    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        let one = |at: &Partition| {
            self.run(*at, "beat", |state, _| beat(state, *at, raise))
                .flatten()
        };
        partitions.iter().map(one).collect()
    }

    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>> {
        let one = |at: &Partition| self.run(*at, "asked", |state, _| asked(state, holder));
        partitions.iter().map(one).collect()
    }

    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.run(partition, "held_by", |state, _| held_by(state, holder))
    }

    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError> {
        self.run(partition, "lapse", |state, present| {
            lapse(state, present, partition, holder, beat)
        })?
    }

    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.run(partition, "lapsed", |state, _| lapsed(state))
    }

    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError> {
        self.run(partition, "forget_lapsed", |state, _| {
            forget_lapsed(state, partition, sessions)
        })?
    }

    async fn end_grace(&self, partition: Partition, adoption: Adoption) -> Result<bool, HotError> {
        self.run(partition, "end_grace", |state, _| {
            end_grace(state, partition, adoption)
        })?
    }
}

/// Raises a holder's beat, if `raise` is greater than its last one. Returns the beats of all
/// holders.
///
/// # Errors
/// `Unprepared`.
pub fn beat(
    state: &mut PartState,
    partition: Partition,
    raise: Option<(OpId, u64)>,
) -> Result<Beats, HotError> {
    let adoption = adoption(state, partition, "beat")?;
    if let Some((holder, beat)) = raise {
        let last = state.sessions.beats.entry(holder).or_insert(beat);
        if *last < beat {
            *last = beat;
        }
    }
    let beats = state
        .sessions
        .beats
        .iter()
        .map(|(holder, beat)| (*holder, *beat))
        .collect();
    Ok(Beats {
        beats,
        adoption,
        graced: state.sessions.graced == adoption.epoch,
    })
}

/// The sessions of a holder that others ask for.
#[must_use]
pub fn asked(state: &PartState, holder: OpId) -> Vec<Asked> {
    let mut all = Vec::new();
    for (owner, session) in &state.sessions.held {
        if let Some(by) = session.asked.clone().filter(|_| session.holder == holder) {
            all.push(Asked {
                owner: owner.clone(),
                fence: session.fence,
                ask: state.sessions.ask_for(owner),
                by,
            });
        }
    }
    all
}

/// The sessions of a holder that have not lapsed.
#[must_use]
pub fn held_by(state: &PartState, holder: OpId) -> Vec<(Owner, Fence)> {
    state
        .sessions
        .select(|session| session.holder == holder && !session.is_lapsed())
}

/// Declares a holder gone, if its beat is still this one. Its sessions lapse. Returns how many.
///
/// # Errors
/// `Unprepared`. Nothing changed.
pub fn lapse(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    holder: OpId,
    beat: u64,
) -> Result<u32, HotError> {
    current(state, partition, "lapse")?;
    if state
        .sessions
        .beats
        .get(&holder)
        .copied()
        .unwrap_or_default()
        != beat
    {
        return Ok(0);
    }
    state.sessions.beats.remove(&holder);
    let sessions = held_by(state, holder);
    for (owner, _) in &sessions {
        if let Some(session) = state.sessions.held.get_mut(owner) {
            (session.epoch, session.asked) = (Epoch(0), None);
        }
        state.release(present, owner);
    }
    Ok(u32::try_from(sessions.len()).unwrap_or(u32::MAX))
}

/// The sessions that have lapsed and that nobody took since.
#[must_use]
pub fn lapsed(state: &PartState) -> Vec<(Owner, Fence)> {
    state.sessions.select(Session::is_lapsed)
}

/// Forgets sessions that are still lapsed. Returns how many.
///
/// # Errors
/// `Unprepared`.
pub fn forget_lapsed(
    state: &mut PartState,
    partition: Partition,
    sessions: &[(Owner, Fence)],
) -> Result<u32, HotError> {
    current(state, partition, "forget_lapsed")?;
    let mut forgotten = 0;
    for (owner, fence) in sessions {
        let session = state.sessions.get(owner);
        if session.is_some_and(|session| session.is_lapsed() && session.fence == *fence) {
            state.sessions.held.remove(owner);
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// The last adoption. No call of this engine has a late copy, so where the versions began tells
/// adoptions apart.
///
/// # Errors
/// `Unprepared`.
pub fn adoption(
    state: &PartState,
    partition: Partition,
    what: &'static str,
) -> Result<Adoption, HotError> {
    let epoch = current(state, partition, what)?.epoch;
    let at = Timestamp(state.sessions.begun.get());
    Ok(Adoption { epoch, at })
}

/// Ends the grace of an epoch. The caller must have seen this adoption for longer than a lease.
/// Returns whether it is still the last one.
///
/// # Errors
/// `Unprepared`.
pub fn end_grace(
    state: &mut PartState,
    partition: Partition,
    seen: Adoption,
) -> Result<bool, HotError> {
    let is_same = adoption(state, partition, "end_grace")? == seen;
    if is_same {
        state.sessions.graced = seen.epoch;
    }
    Ok(is_same)
}
