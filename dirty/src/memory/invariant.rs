//! What must hold after every transition.

use storage_model::{Owner, Version};

use super::hash::OwnerHash;
use super::state::PartState;
use crate::Marker;

/// What does not hold, in one line; none if all is well.
#[must_use]
pub fn violation(state: &PartState) -> Option<String> {
    if state.marks.counted() != *state.marks.kept() {
        return Some(format!("marks are counted as {:?}, but are {:?}", state.marks.kept(), state.marks.counted()));
    }
    let source = state.record.as_ref().map(|record| record.source).unwrap_or_default();
    if state.record.as_ref().is_some_and(|record| record.landed > source) {
        return Some(format!("the version source {source} is below what has landed"));
    }
    state.hashes.iter().find_map(|(owner, hash)| of_hash(state, source, owner, hash))
}

fn of_hash(state: &PartState, source: Version, owner: &Owner, hash: &OwnerHash) -> Option<String> {
    let marks = state.marks.outstanding(owner);
    let marker = state.markers.get(owner);
    if (marks > 0) == hash.expires.is_some() {
        return Some(format!("{owner} has {marks} marks, and ends at {:?}", hash.expires));
    }
    // A write raises it from clean on, and no landing does.
    if !matches!(marker, Marker::At(version) if version <= hash.version && (marks == 0 || version > hash.born)) {
        return Some(format!("{owner} is born at {} with version {}, and {marker:?}", hash.born, hash.version));
    }
    (hash.version > source || hash.born > hash.version)
        .then(|| format!("{owner} is born at {} with version {}, but {source} is the source", hash.born, hash.version))
}
