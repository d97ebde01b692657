//! Eviction of landed data when memory is short.

use storage_model::{Change, Mutation, Owner};

use super::hash::{HASH_OVERHEAD_BYTES, cell_bytes};
use super::state::{PartState, Present};
use crate::Load;

/// Drops landed hashes, the least recently used first, until `wanted` bytes more fit. Never one of `but`; answers whether they fit.
pub(super) fn make(state: &mut PartState, present: &Present, wanted: usize, but: Option<&Owner>) -> bool {
    while state.bytes().saturating_add(wanted) > present.bytes_max {
        let Some(owner) = state.hashes.coldest(but) else { return false };
        state.hashes.remove(&owner);
    }
    true
}

/// The most bytes that a mutation may add.
pub(super) fn of_mutation(mutation: &Mutation) -> usize {
    const MARK_AND_REPLY_BYTES: usize = 512;
    let changes = mutation.changes.iter().map(|(field, change)| match change {
        Change::Set(value) => 128 + field.as_str().len() + value.len(),
        Change::Incr(_) | Change::Remove | Change::Restore | Change::Purge => 160 + field.as_str().len(),
    });
    changes.fold(HASH_OVERHEAD_BYTES + MARK_AND_REPLY_BYTES, usize::saturating_add)
}

/// The most bytes that a load may add.
pub(super) fn of_load(load: &Load) -> usize {
    let rows = load.rows.iter().map(|(field, cell, _)| cell_bytes(field.as_str().len(), cell));
    rows.fold(HASH_OVERHEAD_BYTES, usize::saturating_add)
}
