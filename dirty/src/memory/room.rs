//! Eviction of landed data when memory is short.

use storage_model::{Change, Mutation, Owner, Partition};

use super::hash::{HASH_OVERHEAD_BYTES, cell_bytes};
use super::state::{PartState, Present, SMALL_BYTES};
use super::store::MemoryStore;
use crate::{HotError, HotKind, Load};

impl MemoryStore {
    /// Runs a transition on the partition of an owner. If landed data of that partition does not
    /// make enough room, landed data of the other partitions is evicted next.
    pub(super) fn with_room<T>(
        &self,
        wanted: usize,
        owner: &Owner,
        operation: &'static str,
        transition: impl Fn(&mut PartState, &Present, Partition) -> Result<T, HotError>,
    ) -> Result<T, HotError> {
        let once = || self.run_for(owner, operation, &transition)?;
        match once() {
            Err(error) if error.kind == HotKind::OutOfMemory => {
                self.make_room(wanted);
                once()
            }
            reply => reply,
        }
    }

    /// Evicts landed data of all partitions until `wanted` more bytes fit. A partition without
    /// landed data of its own needs this.
    fn make_room(&self, wanted: usize) {
        for partition in (0..self.partitions()).map(Partition) {
            let made = self.run(partition, "evict", |state, present| {
                make(state, present, wanted, None)
            });
            if made == Ok(true) {
                return;
            }
        }
    }
}

/// Drops landed hashes, the least recently used first, until `wanted` more bytes fit. Never drops
/// the hash of `but`. Returns whether they fit.
pub(super) fn make(
    state: &mut PartState,
    present: &Present,
    wanted: usize,
    but: Option<&Owner>,
) -> bool {
    while state.bytes().saturating_add(wanted) > present.bytes_max {
        let Some(owner) = state.hashes.coldest(but) else {
            return false;
        };
        state.hashes.remove(&owner);
    }
    true
}

/// Makes room for the bytes that a transition adds to an owner.
///
/// # Errors
/// `OutOfMemory` if it does not fit and nothing is left to evict.
pub(super) fn make_or_refuse(
    state: &mut PartState,
    present: &Present,
    wanted: usize,
    owner: &Owner,
    operation: &'static str,
) -> Result<(), HotError> {
    if make(state, present, wanted, Some(owner)) {
        return Ok(());
    }
    let message = format!(
        "{} bytes are the limit, and no landed data is left to evict",
        present.bytes_max
    );
    Err(HotError::not_applied(
        HotKind::OutOfMemory,
        operation,
        message,
    ))
}

/// The most bytes that the opening of a session may add: the session, the owner's marker and the
/// load.
pub(super) fn of_opening(load: Option<&Load>) -> usize {
    load.map(of_load)
        .unwrap_or_default()
        .saturating_add(2 * SMALL_BYTES)
}

/// The most bytes that a mutation may add, with the loads that it builds on.
pub(super) fn of_mutation(mutation: &Mutation, loads: &[Load]) -> usize {
    let parts = mutation.parts().map(of_part);
    parts
        .chain(loads.iter().map(of_load))
        .fold(0, usize::saturating_add)
}

/// The most bytes that one owner's part of a mutation may add.
fn of_part(part: &Mutation) -> usize {
    const MARK_AND_REPLY_BYTES: usize = 512;
    let changes = part.changes.iter().map(|(field, change)| match change {
        Change::Set(value) => 128 + field.as_str().len() + value.len(),
        _ => 160 + field.as_str().len(),
    });
    let note = part.note.as_ref().map_or(0, |body| 256 + body.len());
    changes.fold(
        HASH_OVERHEAD_BYTES + MARK_AND_REPLY_BYTES + note,
        usize::saturating_add,
    )
}

/// The most bytes that a load may add.
pub(super) fn of_load(load: &Load) -> usize {
    let rows = load
        .rows
        .iter()
        .map(|(field, cell, _)| cell_bytes(field.as_str().len(), cell));
    rows.fold(HASH_OVERHEAD_BYTES, usize::saturating_add)
}
