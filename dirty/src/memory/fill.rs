//! The proof and the merge of rows (R7, R14, R15, R16).

use std::collections::{BTreeMap, BTreeSet};

use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Cell, Epoch, Field, Owner, Partition, Version};

use super::hash::OwnerHash;
use super::partition::current;
use super::read::select;
use super::room;
use super::state::{PartState, Present};
use crate::{Fields, Filled, HotError, HotRead, Load, Marker, PartitionRecord};

/// The state of an owner after a proved load.
#[derive(Debug, Clone)]
pub(super) struct MergedOwner {
    /// `None` if the owner has neither a row nor a version.
    pub(super) hash: Option<OwnerHash>,
    /// Whether the cold tier is now known to have no row.
    pub(super) absent: bool,
    /// The fields that must land, although no write has changed them (R16).
    unlanded: BTreeSet<Field>,
    /// Whether they land only with a version that no row has.
    renews: bool,
}

impl MergedOwner {
    fn of(hash: OwnerHash) -> Self {
        Self {
            hash: Some(hash),
            absent: false,
            unlanded: BTreeSet::new(),
            renews: false,
        }
    }

    /// Gives the hash a version of its own, if it needs one. A write has a version anyway.
    pub(super) fn renewed(mut self, record: &PartitionRecord) -> Self {
        if let Some(hash) = self.hash.as_mut().filter(|_| self.renews) {
            hash.version = record.source.max(hash.version).plus(1);
        }
        self
    }
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
pub(super) fn merge(state: &PartState, record: &PartitionRecord, load: &Load) -> MergedOwner {
    let newest = newest(load);
    let marker = state.marker(&load.owner);
    let (mut hash, is_new) = match state.hashes.get(&load.owner) {
        Some(hash) if hash.generation < record.generation => {
            return compare(state, record, load, hash.clone());
        }
        Some(hash) => (hash.clone(), false),
        None if load.rows.is_empty() && !(load.complete && matches!(marker, Marker::At(_))) => {
            return MergedOwner {
                hash: None,
                absent: load.complete && !matches!(marker, Marker::At(_)),
                unlanded: BTreeSet::new(),
                renews: false,
            };
        }
        None if newest == Version::ZERO => {
            (OwnerHash::new(marker.version(), record.generation), true)
        }
        None => (OwnerHash::new(newest, record.generation), true),
    };
    for (field, cell, _) in &load.rows {
        if keeps("R7-row-wins", hash.cell(field).is_none()) {
            hash.set(field.clone(), cell.clone());
        }
    }
    hash.complete |= load.complete;
    let unlanded = match is_new {
        true => reborn(state, &load.owner, &mut hash),
        false => BTreeSet::new(),
    };
    MergedOwner {
        renews: !unlanded.is_empty(),
        unlanded,
        ..MergedOwner::of(hash)
    }
}

fn newest(load: &Load) -> Version {
    let versions = load.rows.iter().map(|(.., version)| *version);
    versions.max().unwrap_or_default()
}

/// The fields of a new hash that must land, because a map names its owner: the former hash was lost
/// with its changes (R16). That is all of them, since a landing of the former hash may be under way.
/// A field that only the former hash had was never there.
pub(super) fn reborn(state: &PartState, owner: &Owner, hash: &mut OwnerHash) -> BTreeSet<Field> {
    if !state.marks.names(owner) || !is_kept("R16-reborn") {
        return BTreeSet::new();
    }
    let (named, _) = state.marks.links(owner);
    if hash.complete && is_kept("R16-buried") {
        for field in named {
            if hash.cell(&field).is_none() {
                hash.set(field, Cell::Purged);
            }
        }
    }
    hash.cells().map(|(field, _)| field.clone()).collect()
}

/// Compares a hash from before a rewind with its rows, all of them (R14). Rows and hash may be of
/// different histories of the owner, so one of them wins as a whole (R16).
fn compare(
    state: &PartState,
    record: &PartitionRecord,
    load: &Load,
    hash: OwnerHash,
) -> MergedOwner {
    if !load.complete {
        return MergedOwner::of(hash);
    }
    let mut merged = if newest(load) > hash.version {
        MergedOwner::of(replaced(state, load, hash))
    } else {
        outlived(state, load, hash)
    };
    if let Some(hash) = &mut merged.hash {
        hash.complete = true;
        hash.generation = record.generation;
    }
    merged
}

/// The hash if its rows are newer. Rejected fields without which their owner has landed keep their
/// values, since such rows are no state.
fn replaced(state: &PartState, load: &Load, mut hash: OwnerHash) -> OwnerHash {
    let torn = state.marks.torn(load, hash.version);
    let is_newer = |version| version > hash.version || is_kept("R16-replaced");
    let winners: Vec<_> = load
        .rows
        .iter()
        .filter(|(field, _, version)| is_newer(*version) && !torn.contains(field))
        .collect();
    if is_kept("R16-replaced") {
        hash.keep_only(&torn);
    }
    for (field, cell, _) in winners {
        hash.set(field.clone(), cell.clone());
    }
    hash.version = newest(load);
    hash
}

/// The hash if no row is newer. Fields that differ from their rows must land.
fn outlived(state: &PartState, load: &Load, mut hash: OwnerHash) -> MergedOwner {
    let rows: BTreeMap<&Field, (&Cell, Version)> = load
        .rows
        .iter()
        .map(|(field, cell, version)| (field, (cell, *version)))
        .collect();
    let mut differ = BTreeSet::new();
    for (field, (cell, _)) in &rows {
        match hash.cell(field) {
            Some(held) if held == *cell => {}
            Some(_) => drop(differ.insert((*field).clone())),
            // A whole hash knows that the field was never there.
            None if hash.complete && is_kept("R16-suspect") => {
                hash.set((*field).clone(), Cell::Purged);
                differ.extend((**cell != Cell::Purged).then(|| (*field).clone()));
            }
            None => hash.set((*field).clone(), (*cell).clone()),
        }
    }
    let without_row =
        |(field, cell): &(&Field, &Cell)| **cell != Cell::Purged && !rows.contains_key(field);
    let further = hash.cells().filter(without_row);
    differ.extend(further.map(|(field, _)| field.clone()));
    // The database ignores a row of the same version. And a field that a mark names lands anyway.
    let is_met = |field: &Field| rows.get(field).is_some_and(|(_, row)| *row >= hash.version);
    let renews = differ.iter().any(is_met);
    let named = state.marks.landing(&load.owner);
    if !renews && differ.is_subset(&named) || !is_kept("R16-suspect") {
        differ.clear();
    }
    MergedOwner {
        renews: renews && !differ.is_empty() && is_kept("R16-met"),
        unlanded: differ,
        ..MergedOwner::of(hash)
    }
}

/// Keeps the data of a proved load, and marks the fields that must land. A hash that no map names and
/// no session holds gets the time to live of landed data. A new hash gets a number: `number`, its
/// version if that is its own, or a new one.
pub(super) fn keep(
    state: &mut PartState,
    present: &Present,
    owner: &Owner,
    merged: MergedOwner,
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
                .or(merged.renews.then_some(hash.version))
                .or_else(|| state.draw_number())
                .filter(|_| is_kept("R7-refill") || !is_known);
            let number = drawn.unwrap_or_else(|| marker.version());
            state.number(present, owner, &mut hash, number);
        }
        if !merged.unlanded.is_empty() {
            let (version, now) = (hash.version, present.now);
            state.marks.mark(owner, merged.unlanded, version, now);
        }
        // Marks that have just been put aside keep no hash.
        let stays = state.keeps(owner) && is_kept("R2-filled");
        if stays {
            hash.expires = None;
        } else if hash.expires.is_none() {
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
    let merged = merge(state, record, load).renewed(record);
    let seen = whole(record.generation, &merged);
    if room::make(state, present, room::of_load(load), Some(&load.owner)) {
        keep(state, present, &load.owner, merged, None);
    }
    Ok(Filled::Accepted(seen))
}

/// The whole owner, the load included.
fn whole(generation: Epoch, merged: &MergedOwner) -> HotRead {
    match &merged.hash {
        Some(hash) => HotRead {
            header: Some(hash.header(generation)),
            cells: select(hash, &Fields::All),
        },
        None => HotRead::default(),
    }
}
