//! The proof and the merge of rows (R7, R14, R15).

use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Epoch, Owner, Partition, Version};

use super::hash::OwnerHash;
use super::partition::current;
use super::read::select;
use super::room;
use super::state::{PartState, Present};
use crate::{Fields, Filled, HotError, HotRead, Load, Marker, PartitionRecord};

/// The state of an owner after a proved load.
#[derive(Debug, Clone)]
pub(super) struct Merged {
    /// `None` if the owner has neither a row nor a version.
    pub(super) hash: Option<OwnerHash>,
    /// Whether the cold tier is now known to have no row.
    pub(super) absent: bool,
}

/// Whether the load still holds: no later write can have made its rows stale.
pub(super) fn is_proved(state: &PartState, record: &PartitionRecord, load: &Load) -> bool {
    let now = state.observed(&load.owner, record.epoch);
    let seen = &load.observed;
    let vanished = matches!(now.marker, Marker::Missing(_)) && !is_kept("R7-absent");
    let same_hashes = keeps("R7-marker", now.marker == seen.marker) || vanished;
    let is_there = keeps("R7-presence", now.present == seen.present);
    same_hashes && is_there && keeps("R15-fill-epoch", now.epoch == seen.epoch)
}

/// Takes rows and hash together. The load must be proved.
pub(super) fn merge(state: &PartState, record: &PartitionRecord, load: &Load) -> Merged {
    let newest = load
        .rows
        .iter()
        .map(|(_, _, version)| *version)
        .max()
        .unwrap_or_default();
    let marker = state.marker(&load.owner);
    let mut hash = match state.hashes.get(&load.owner) {
        Some(hash) => hash.clone(),
        None if load.rows.is_empty() && !(load.complete && matches!(marker, Marker::At(_))) => {
            return Merged {
                hash: None,
                absent: load.complete && !matches!(marker, Marker::At(_)),
            };
        }
        None if newest == Version::ZERO => OwnerHash::new(marker.version(), record.generation),
        None => OwnerHash::new(newest, record.generation),
    };
    let suspect = hash.generation < record.generation;
    for (field, cell, version) in &load.rows {
        let newer = suspect && *version > hash.version;
        if keeps("R7-row-wins", hash.cell(field).is_none() || newer) {
            hash.set(field.clone(), cell.clone());
        }
    }
    hash.complete |= load.complete;
    if suspect && load.complete {
        hash.generation = record.generation;
        hash.version = hash.version.max(newest);
    }
    Merged {
        hash: Some(hash),
        absent: false,
    }
}

/// Keeps the data of a proved load. A hash that no map names and no session holds gets the time to
/// live of landed data. A new hash gets a number: `number`, or a new one.
pub(super) fn keep(
    state: &mut PartState,
    present: &Present,
    owner: &Owner,
    merged: Merged,
    number: Option<Version>,
) {
    if let Some(mut hash) = merged.hash {
        if let Some(record) = &mut state.record {
            record.source = record.source.max(hash.version);
        }
        if state.hashes.get(owner).is_none() {
            let marker = state.marker(owner);
            let is_known = matches!(marker, Marker::At(_));
            let drawn = number
                .or_else(|| state.draw_number())
                .filter(|_| is_kept("R7-refill") || !is_known);
            let number = drawn.unwrap_or_else(|| marker.version());
            state.number(present, owner, &mut hash, number);
        }
        // Marks that have just been put aside keep no hash.
        let stays = state.keeps(owner) && is_kept("R2-filled");
        if !stays && hash.expires.is_none() {
            hash.expires = Some(present.now.plus(present.hash_ttl));
        }
        state.hashes.put(owner.clone(), hash);
    } else if merged.absent {
        let number = state.marker(owner).number();
        let end = present.now.plus(present.absent_ttl);
        state.markers.set_absent(owner, number, end);
    }
}

/// Writes a load, if it can be proved and there is room. A proved load is answered with the whole
/// owner, also without room.
///
/// # Errors
/// `Unprepared`.
pub fn fill(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    load: &Load,
) -> Result<Filled, HotError> {
    let record = current(state, partition, "fill")?;
    if !is_proved(state, record, load) {
        return Ok(Filled::Refused);
    }
    let merged = merge(state, record, load);
    let seen = whole(record.generation, &merged);
    if room::make(state, present, room::of_load(load), Some(&load.owner)) {
        keep(state, present, &load.owner, merged, None);
    }
    Ok(Filled::Accepted(seen))
}

/// The whole owner, the load included.
fn whole(generation: Epoch, merged: &Merged) -> HotRead {
    match &merged.hash {
        Some(hash) => HotRead {
            header: Some(hash.header(generation)),
            cells: select(hash, &Fields::All),
        },
        None => HotRead::default(),
    }
}
