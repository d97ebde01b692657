//! The invariants that must hold after every transition.

use storage_model::{Owner, Version};

use super::hash::OwnerHash;
use super::state::PartState;
use crate::Marker;

/// The violated invariant in one line. `None` if all hold.
#[must_use]
pub fn violation(state: &PartState) -> Option<String> {
    let source = state
        .record
        .as_ref()
        .map(|record| record.source)
        .unwrap_or_default();
    if state
        .record
        .as_ref()
        .is_some_and(|record| record.landed > source)
    {
        return Some(format!(
            "the version source {source} is below the landed version"
        ));
    }
    state
        .hashes
        .iter()
        .find_map(|(owner, hash)| of_hash(state, source, owner, hash))
}

fn of_hash(state: &PartState, source: Version, owner: &Owner, hash: &OwnerHash) -> Option<String> {
    let is_kept = state.marks.named().any(|named| named == owner) || state.sessions.pins(owner);
    if is_kept == hash.expires.is_some() {
        return Some(format!(
            "{owner} is named by a map or held: {is_kept}, and ends at {:?}",
            hash.expires
        ));
    }
    // Every new hash gives the marker a number. A marker may vanish.
    let marker = state.markers.get(owner);
    let fits = |marker: Marker| match marker {
        Marker::At(number) => number <= source && hash.born <= number,
        Marker::Unknown(number) => number <= source,
        Marker::Absent(_) | Marker::Missing(_) => false,
    };
    if !marker.is_none_or(fits) {
        return Some(format!(
            "{owner} is born at {}, {source} is the source, and {marker:?}",
            hash.born
        ));
    }
    (hash.version > source).then(|| {
        format!(
            "{owner} has version {}, but {source} is the source",
            hash.version
        )
    })
}
