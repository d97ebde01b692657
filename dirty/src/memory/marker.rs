//! Exist markers and negative answers.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::sabotage::is_kept;
use storage_model::{Owner, Timestamp, Version};

use crate::Marker;

/// The markers of a partition. A marker runs out, unless absence is trusted, and may go before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Markers {
    map: BTreeMap<Owner, (Marker, Option<Timestamp>)>,
    ends: BTreeSet<(Timestamp, Owner)>,
}

impl Markers {
    pub(super) fn get(&self, owner: &Owner) -> Option<Marker> {
        self.map.get(owner).map(|(marker, _)| *marker)
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Raises the marker to the number of a new hash. The number replaces a negative answer.
    pub(super) fn raise(&mut self, owner: &Owner, number: Version, end: Option<Timestamp>) {
        let before = self.get(owner);
        if matches!(before, Some(Marker::Absent(_))) && !is_kept("R8-kept") {
            return;
        }
        let number = before.map_or(number, |before| number.max(before.version()));
        self.set(owner, Marker::At(number), end);
    }

    /// Remembers that the cold tier had no row, under the number that the load observed. A marker of
    /// a hash stays.
    pub(super) fn set_absent(&mut self, owner: &Owner, number: Version, end: Timestamp) {
        if self.get(owner).is_none_or(Marker::is_unknown) {
            self.set(owner, Marker::Absent(number), Some(end));
        }
    }

    /// Replaces the marker.
    pub(super) fn set(&mut self, owner: &Owner, marker: Marker, end: Option<Timestamp>) {
        self.remove(owner);
        self.map.insert(owner.clone(), (marker, end));
        self.ends.extend(end.map(|end| (end, owner.clone())));
    }

    /// Drops a marker.
    pub(super) fn remove(&mut self, owner: &Owner) {
        if let Some((_, Some(end))) = self.map.remove(owner) {
            self.ends.remove(&(end, owner.clone()));
        }
    }

    /// Drops all negative answers: the cold tier has landed data that this tier does not remember
    /// (R14).
    pub(super) fn forget_absent(&mut self) {
        let is_absent = |marker: &Marker| matches!(marker, Marker::Absent(_));
        self.map.retain(|_, (marker, _)| !is_absent(marker));
        self.ends.retain(|(_, owner)| self.map.contains_key(owner));
    }

    /// Drops markers that have run out.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, owner)) = self.ends.pop_first() {
                self.map.remove(&owner);
            }
        }
    }
}
