//! Exist markers and negative answers.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::sabotage::is_kept;
use storage_model::{Owner, Timestamp, Version};

use crate::Marker;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stored {
    At(Version),
    AbsentUntil(Timestamp),
}

/// The markers of a partition. Markers with a version never go. Negative answers run out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Markers {
    map: BTreeMap<Owner, Stored>,
    ends: BTreeSet<(Timestamp, Owner)>,
}

impl Markers {
    pub(super) fn get(&self, owner: &Owner) -> Marker {
        match self.map.get(owner) {
            None => Marker::Unknown,
            Some(Stored::AbsentUntil(_)) => Marker::Absent,
            Some(Stored::At(version)) => Marker::At(*version),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Raises the marker to a version. The version replaces a negative answer.
    pub(super) fn raise(&mut self, owner: &Owner, version: Version) {
        if self.get(owner) == Marker::Absent && !is_kept("R8-kept") {
            return;
        }
        let version = version.max(self.get(owner).version());
        if let Some(Stored::AbsentUntil(end)) = self.map.insert(owner.clone(), Stored::At(version))
        {
            self.ends.remove(&(end, owner.clone()));
        }
    }

    /// Remembers that the cold tier had no row, unless there is a marker.
    pub(super) fn set_absent(&mut self, owner: &Owner, end: Timestamp) {
        if self.get(owner) == Marker::Unknown {
            self.map.insert(owner.clone(), Stored::AbsentUntil(end));
            self.ends.insert((end, owner.clone()));
        }
    }

    /// Drops all negative answers: the cold tier has landed data that this tier does not remember
    /// (R14).
    pub(super) fn forget_absent(&mut self) {
        self.map.retain(|_, stored| matches!(stored, Stored::At(_)));
        self.ends.clear();
    }

    /// Drops negative answers that have run out.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, owner)) = self.ends.pop_first() {
                self.map.remove(&owner);
            }
        }
    }
}
