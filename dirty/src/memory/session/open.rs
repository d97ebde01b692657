//! The opening of a session.

use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Fence, Owner, Partition, Version};

use super::super::fill::{MergedOwner, is_proved, keep, merge};
use super::super::partition::current;
use super::super::read::select;
use super::super::room;
use super::super::state::{PartState, Present};
use super::super::writes::next_version;
use crate::session::one_word;
use crate::{Fields, HotError, HotRead, OpenSession, Opened, PartitionRecord, Session};

const OPERATION: &str = "open_session";

/// Opens a session of a free owner, or replaces the session that is named.
///
/// # Errors
/// `Unprepared`, `OutOfMemory` if the session does not fit and nothing can be evicted, `Corrupt` if
/// versions ran out. Nothing changed.
pub fn open(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    open: &OpenSession,
) -> Result<Opened, HotError> {
    let record = current(state, partition, OPERATION)?.clone();
    if let Some(held) = of_holder(state, &record, open) {
        return Ok(held);
    }
    if let Some(refused) = refusal(state, present, &record, open) {
        return Ok(refused);
    }
    let load = open
        .load
        .as_ref()
        .filter(|load| load.owner == open.owner && is_proved(state, &record, load));
    let merged = load.map(|load| merge(state, &record, load).renewed(&record));
    if !keeps(
        "S2-part",
        is_whole(state, &record, &open.owner, merged.as_ref()),
    ) {
        state.claim(present, &open.owner);
        return Ok(Opened::Load(state.observed(&open.owner, record.epoch)));
    }
    let version = next_version(
        newest(state, &record, &open.owner, merged.as_ref()),
        present,
        OPERATION,
    )?;
    room::make_or_refuse(
        state,
        present,
        room::of_opening(load),
        &open.owner,
        OPERATION,
    )?;
    // Nothing fails from here on.
    if let Some(merged) = merged {
        keep(state, present, &open.owner, merged, None);
    }
    Ok(take(
        state,
        &record,
        open,
        Fence {
            version,
            token: open.token,
        },
    ))
}

/// The answer to an opening that the present session decides. It is the session's own answer again,
/// if that was lost, or `Held`. `None` if the owner is free, or if the opening names that session.
fn of_holder(state: &PartState, record: &PartitionRecord, open: &OpenSession) -> Option<Opened> {
    let session = state.sessions.get(&open.owner)?;
    if session.fence.token == open.token && session.epoch == record.epoch {
        return Some(opened(state, record, &open.owner, session.fence));
    }
    let is_named = open
        .takes
        .is_some_and(|fence| keeps("S2-any", fence == session.fence));
    (!is_named && !session.is_lapsed()).then(|| Opened::Held(session.clone()))
}

/// Why nothing is opened now, for any holder.
fn refusal(
    state: &PartState,
    present: &Present,
    record: &PartitionRecord,
    open: &OpenSession,
) -> Option<Opened> {
    if present.now >= open.deadline {
        return Some(Opened::Expired);
    }
    (state.sessions.graced != record.epoch).then_some(Opened::Grace(record.epoch))
}

/// Whether the whole owner is known: by a proved load, or else by hash and marker. A suspect hash
/// may lack landed data.
fn is_whole(
    state: &PartState,
    record: &PartitionRecord,
    owner: &Owner,
    merged: Option<&MergedOwner>,
) -> bool {
    let (hash, is_absent) = match merged {
        Some(merged) => (merged.hash.as_ref(), merged.absent),
        None => (state.hashes.get(owner), state.marker(owner).is_absent()),
    };
    hash.map_or(is_absent, |hash| {
        hash.complete && hash.generation >= record.generation
    })
}

/// The newest version that the fence must exceed: of the partition, of the owner's hash and of its
/// rows.
fn newest(
    state: &PartState,
    record: &PartitionRecord,
    owner: &Owner,
    merged: Option<&MergedOwner>,
) -> Version {
    let loaded = merged.and_then(|merged| merged.hash.as_ref());
    let hash = loaded.or_else(|| state.hashes.get(owner));
    record
        .source
        .max(hash.map(|hash| hash.version).unwrap_or_default())
}

/// Makes the session, which holds the owner from now on.
fn take(
    state: &mut PartState,
    record: &PartitionRecord,
    open: &OpenSession,
    fence: Fence,
) -> Opened {
    if let Some(record) = &mut state.record {
        record.source = record.source.max(fence.version);
    }
    let session = Session {
        fence,
        holder: open.holder,
        name: one_word(&open.name),
        epoch: record.epoch,
        asked: None,
    };
    state.sessions.held.insert(open.owner.clone(), session);
    state.sessions.expect_beats(open.holder);
    if is_kept("S2-unpinned") {
        state.hashes.edit(&open.owner, |hash| hash.expires = None);
    }
    opened(state, record, &open.owner, fence)
}

/// The answer: the fence, and the whole owner.
fn opened(state: &PartState, record: &PartitionRecord, owner: &Owner, fence: Fence) -> Opened {
    let read = match state.hashes.get(owner) {
        Some(hash) => HotRead {
            header: Some(hash.header(record.generation)),
            cells: select(hash, &Fields::All),
        },
        None => HotRead::default(),
    };
    Opened::Open {
        fence,
        epoch: record.epoch,
        read,
    }
}
