//! The sessions of owners.

use std::collections::BTreeMap;

use async_trait::async_trait;
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Condition, Epoch, Fence, Mutation, OpId, Owner, Partition, Version};

use super::partition::current;
use super::room;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use crate::session::one_word;
use crate::{
    ClaimSession, Claimed, HotError, OpenSession, Opened, PartitionRecord, Refusal, Session,
};

mod open;

pub use open::open;

#[async_trait]
impl crate::Sessions for MemoryStore {
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError> {
        let wanted = room::of_opening(open.load.as_ref());
        self.with_room(wanted, &open.owner, "open_session", |state, present, at| {
            self::open(state, present, at, open)
        })
    }

    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError> {
        self.run_for(&claim.owner, "claim_session", |state, _, partition| {
            self::claim(state, partition, claim)
        })?
    }

    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError> {
        self.run_for(owner, "close_session", |state, present, at| {
            close(state, present, at, owner, fence)
        })?
    }

    async fn ask_session(
        &self,
        owner: &Owner,
        fence: Fence,
        ask: OpId,
        by: &str,
    ) -> Result<bool, HotError> {
        self.run_for(owner, "ask_session", |state, _, at| {
            ask_for(state, at, owner, fence, OwnerRequest { ask, by })
        })?
    }

    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "sessions_of", |state, _, _| session_of(state, owner))
        };
        owners.iter().map(one).collect()
    }
}

/// The sessions of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Sessions {
    pub(super) held: BTreeMap<Owner, Session>,
    pub(super) beats: BTreeMap<OpId, u64>,
    /// The last request for each held owner.
    asks: BTreeMap<Owner, OpId>,
    /// The last epoch with an ended grace.
    pub(super) graced: Epoch,
    /// Where versions of the epoch begin.
    pub(super) begun: Version,
    /// Whether the partition has forgotten no session, because it is new in a process that nobody else
    /// shares. Until the first adoption.
    pub(super) blank: bool,
}

impl Sessions {
    /// The id of the last request for an owner.
    pub(super) fn ask_for(&self, owner: &Owner) -> OpId {
        let none = OpId::new([0; 16]);
        self.asks.get(owner).copied().unwrap_or(none)
    }

    pub(super) fn get(&self, owner: &Owner) -> Option<&Session> {
        self.held.get(owner)
    }

    /// The number of sessions and beats.
    pub(super) fn len(&self) -> usize {
        self.held.len().saturating_add(self.beats.len())
    }

    pub(super) fn select(&self, wanted: impl Fn(&Session) -> bool) -> Vec<(Owner, Fence)> {
        let sessions = self.held.iter().filter(|(_, session)| wanted(session));
        sessions
            .map(|(owner, session)| (owner.clone(), session.fence))
            .collect()
    }

    /// Gives the holder of a session a beat. So the holder is missed if it dies before it beats.
    fn expect_beats(&mut self, holder: OpId) {
        self.beats.entry(holder).or_default();
    }

    /// Whether a session keeps the owner's hash.
    pub(super) fn pins(&self, owner: &Owner) -> bool {
        self.held
            .get(owner)
            .is_some_and(|session| !session.is_lapsed())
    }

    /// Notes that the partition was adopted. Before the first adoption ever, which has epoch 1,
    /// there was no session. Later ones may have been forgotten, but not by memory that is new: nobody
    /// can claim a session that ended with another process.
    pub(super) fn adopted(&mut self, epoch: Epoch, source: Version) {
        self.begun = source;
        let is_blank = std::mem::take(&mut self.blank);
        if keeps("S8-grace", is_blank || epoch <= Epoch(1)) {
            self.graced = epoch;
        }
    }
}

/// Notes that a save was applied. It confirms its session, or ends it.
pub(super) fn saved(state: &mut PartState, present: &Present, mutation: &Mutation, epoch: Epoch) {
    let Some(fence) = mutation.fence else { return };
    if mutation.closes {
        end(state, present, &mutation.owner, fence);
    } else if let Some(session) = state.sessions.held.get_mut(&mutation.owner) {
        session.epoch = epoch;
        let holder = session.holder;
        state.sessions.expect_beats(holder);
        pin(state, &mutation.owner);
    }
}

/// Why the owner's session forbids a write.
pub(super) fn refusal(
    state: &PartState,
    record: &PartitionRecord,
    mutation: &Mutation,
) -> Option<Refusal> {
    let session = state.sessions.get(&mutation.owner);
    match mutation.fence {
        Some(fence) => {
            fenced(session, fence).or_else(|| unconfirmed(state, record, session?, mutation))
        }
        None => held(session),
    }
}

/// Rejects a plain write of an owner that a session holds (S1).
fn held(session: Option<&Session>) -> Option<Refusal> {
    let session = session.filter(|session| !session.is_lapsed() && is_kept("S1-plain"))?;
    Some(Refusal::Held(Box::new(session.clone())))
}

/// Rejects a write of a session that does not hold the owner, or no longer does (S1).
fn fenced(session: Option<&Session>, fence: Fence) -> Option<Refusal> {
    let is_same = session.is_some_and(|session| session.fence == fence);
    if keeps("S1-unfenced", is_same) {
        return None;
    }
    Some(Refusal::Fenced(session.cloned().map(Box::new)))
}

/// Rejects a write of a session that lapsed, or that was neither opened nor confirmed in this
/// epoch. After the grace, a write on condition of the known version passes and confirms its
/// session (S7).
fn unconfirmed(
    state: &PartState,
    record: &PartitionRecord,
    session: &Session,
    mutation: &Mutation,
) -> Option<Refusal> {
    if session.epoch == record.epoch {
        return None;
    }
    if state.sessions.graced != record.epoch {
        return Some(Refusal::Grace(record.epoch));
    }
    let confirms = matches!(mutation.condition, Condition::Version(_));
    if keeps("S7-unconditional", confirms) {
        return None;
    }
    Some(Refusal::Unconfirmed(record.epoch))
}

/// The session of an owner.
#[must_use]
pub fn session_of(state: &PartState, owner: &Owner) -> Option<Session> {
    state.sessions.get(owner).cloned()
}

/// Claims a session after a change of the epoch. The greatest fence wins, over any session that was
/// neither opened nor confirmed since. Versions go on above those that the session knows, even if
/// the clock was set back.
///
/// # Errors
/// `Unprepared`. Nothing changed.
pub fn claim(
    state: &mut PartState,
    partition: Partition,
    claim: &ClaimSession,
) -> Result<Claimed, HotError> {
    let epoch = current(state, partition, "claim_session")?.epoch;
    let graced = state.sessions.graced == epoch;
    match state.sessions.get(&claim.owner) {
        Some(session) if session.fence == claim.fence => {}
        Some(session)
            if session.epoch == epoch || session.fence > claim.fence && is_kept("S8-greatest") =>
        {
            return Ok(Claimed::No(Some(session.clone())));
        }
        // The session was ended in this very epoch, so nothing was forgotten.
        None if claim.epoch == epoch => return Ok(Claimed::No(None)),
        // Another session may have come and gone since the grace.
        None if graced && is_kept("S8-late") => return Ok(Claimed::No(None)),
        _ => {
            let session = Session {
                fence: claim.fence,
                holder: claim.holder,
                name: one_word(&claim.name),
                epoch: claim.epoch,
                asked: None,
            };
            state.sessions.held.insert(claim.owner.clone(), session);
            state.sessions.expect_beats(claim.holder);
        }
    }
    if let Some(record) = state.record.as_mut().filter(|_| is_kept("S1-below")) {
        record.source = record.source.max(claim.fence.version).max(claim.acked);
    }
    pin(state, &claim.owner);
    Ok(Claimed::Yes {
        epoch,
        graced,
        begun: state.sessions.begun,
    })
}

/// Keeps the hash of a claimed owner until the claim is decided.
fn pin(state: &mut PartState, owner: &Owner) {
    if state.sessions.pins(owner) {
        state.hashes.edit(owner, |hash| hash.expires = None);
    }
}

/// Ends a session without a save. Returns whether it was there.
///
/// # Errors
/// `Unprepared`. Nothing changed.
pub fn close(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    owner: &Owner,
    fence: Fence,
) -> Result<bool, HotError> {
    let epoch = current(state, partition, "close_session")?.epoch;
    // The session may be the only trace of a steal that the hot tier has forgotten (S8).
    if !keeps("S8-ended", state.sessions.graced == epoch) {
        return Ok(false);
    }
    Ok(end(state, present, owner, fence))
}

/// Ends a session, if it holds the owner. Returns whether it did.
fn end(state: &mut PartState, present: &Present, owner: &Owner, fence: Fence) -> bool {
    if state
        .sessions
        .get(owner)
        .is_none_or(|session| session.fence != fence)
    {
        return false;
    }
    state.sessions.held.remove(owner);
    state.release(present, owner);
    true
}

/// A request for an owner that another holder has.
#[derive(Debug, Clone, Copy)]
pub struct OwnerRequest<'a> {
    /// The id of the request.
    pub ask: OpId,
    /// The name of the server that asks.
    pub by: &'a str,
}

/// Asks the holder of a session for the owner. Returns whether that session still holds the owner.
/// A lapsed session has no holder to ask, and its owner is free.
///
/// # Errors
/// `Unprepared`. Nothing changed.
pub fn ask_for(
    state: &mut PartState,
    partition: Partition,
    owner: &Owner,
    fence: Fence,
    request: OwnerRequest<'_>,
) -> Result<bool, HotError> {
    current(state, partition, "ask_session")?;
    let Sessions { held, asks, .. } = &mut state.sessions;
    let Some(session) = held
        .get_mut(owner)
        .filter(|session| session.fence == fence && !session.is_lapsed())
    else {
        return Ok(false);
    };
    session.asked = Some(one_word(request.by));
    asks.retain(|owner, _| held.contains_key(owner));
    asks.insert(owner.clone(), request.ask);
    Ok(true)
}
