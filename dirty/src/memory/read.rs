//! Reading, observing, evicting and touching owners.

use bytes::Bytes;
use storage_model::sabotage::is_kept;
use storage_model::{Cell, Epoch, Field, Owner, Partition, Version};

use super::hash::OwnerHash;
use super::lock::holder;
use super::record::{current, in_epoch};
use super::state::{PartState, Present};
use crate::{Evicted, Fields, Header, HotError, HotRead, Observed, PartitionPeek};

/// The hash as it is.
#[must_use]
pub fn read(state: &PartState, owner: &Owner, fields: &Fields) -> HotRead {
    let cells = state
        .hashes
        .get(owner)
        .map(|hash| select(hash, fields))
        .unwrap_or_default();
    let tells = !matches!(fields, Fields::Live(_));
    let asked = |header: Header| {
        if tells {
            header
        } else {
            Header {
                born: Version::ZERO,
                ..header
            }
        }
    };
    let header = state.header(owner).map(asked);
    HotRead { header, cells }
}

pub(super) fn select(hash: &OwnerHash, fields: &Fields) -> Vec<(Field, Cell)> {
    let all = || {
        hash.cells()
            .map(|(field, cell)| (field.clone(), cell.clone()))
    };
    let some = |asked: &[Field]| {
        asked
            .iter()
            .filter_map(|field| hash.cell(field).map(|cell| (field.clone(), cell.clone())))
            .collect::<Vec<_>>()
    };
    match fields {
        Fields::Live(asked) => some(asked)
            .into_iter()
            .filter(|(_, cell)| cell.live().is_some())
            .collect(),
        Fields::Cells(asked) => some(asked),
        Fields::All => all().collect(),
        Fields::Names => all().map(|(field, cell)| (field, emptied(&cell))).collect(),
    }
}

fn emptied(cell: &Cell) -> Cell {
    match cell {
        Cell::Live(_) => Cell::Live(Bytes::new()),
        Cell::Removed(_) => Cell::Removed(Bytes::new()),
        Cell::Purged => Cell::Purged,
    }
}

/// The marker, whether there is a hash, and the epoch.
///
/// # Errors
/// `Unprepared`.
pub fn observe(
    state: &PartState,
    partition: Partition,
    owner: &Owner,
) -> Result<Observed, HotError> {
    Ok(with_hash(state, owner, note(state, partition, owner)?))
}

/// The epoch and the marker alone. Redis is asked for these before the hash.
///
/// # Errors
/// `Unprepared`.
pub fn note(state: &PartState, partition: Partition, owner: &Owner) -> Result<Observed, HotError> {
    let record = current(state, partition, "observe")?;
    Ok(Observed {
        present: false,
        ..state.observed(owner, record.epoch)
    })
}

/// The observation that was noted, and whether there is a hash now.
#[must_use]
pub fn with_hash(state: &PartState, owner: &Owner, noted: Observed) -> Observed {
    Observed {
        present: state.hashes.get(owner).is_some(),
        ..noted
    }
}

/// Whether a map names the owner.
///
/// # Errors
/// `Unprepared` or `EpochMoved`, if an epoch is given.
pub fn marked(
    state: &PartState,
    partition: Partition,
    owner: &Owner,
    epoch: Option<Epoch>,
) -> Result<bool, HotError> {
    if let Some(epoch) = epoch {
        in_epoch(state, partition, epoch, "marked")?;
    }
    Ok(state.marks.names(owner))
}

/// Drops the hash. A hash that must stay is dropped once no map names its owner and no session
/// holds it.
pub fn evict(state: &mut PartState, owner: &Owner) -> Evicted {
    if state.keeps(owner) && state.hashes.get(owner).is_some() && is_kept("R2-evicts") {
        state.marks.evict_later(owner);
        return Evicted::WhenLanded;
    }
    state.hashes.remove(owner);
    Evicted::Gone
}

/// Restores the full time to live of a hash that has one.
pub fn touch(state: &mut PartState, present: &Present, owner: &Owner) {
    let end = present.now.plus(present.hash_ttl);
    if state
        .hashes
        .get(owner)
        .is_some_and(|hash| hash.expires.is_some())
    {
        state.hashes.edit(owner, |hash| hash.expires = Some(end));
    }
}

/// Sizes, the oldest mark's age and the lock's holder.
#[must_use]
pub fn peek(state: &PartState, present: &Present) -> PartitionPeek {
    let [live, snapshot, errors] = state
        .marks
        .sizes()
        .map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let holder = holder(state, present.now).map(|lock| lock.holder.clone());
    let probation = state.marks.sizes_on_probation().iter().sum::<usize>();
    let [live_since, snapshot_since] = state.marks.since();
    PartitionPeek {
        live,
        snapshot,
        errors,
        probation: u64::try_from(probation).unwrap_or(u64::MAX),
        relive: state.marks.is_lost(),
        live_since,
        snapshot_since,
        holder,
    }
}
