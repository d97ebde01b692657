//! All that one partition holds, and what a transition knows of the outside.

use std::sync::Arc;
use std::time::Duration;

use storage_model::sabotage::broken;
use storage_model::{Owner, Timestamp, Version};

use super::hash::Hashes;
use super::lock::Held;
use super::marker::Markers;
use super::marks::Marks;
use super::ops::Ops;
use crate::{Header, Marker, PartitionRecord};

/// What a transition knows of the outside.
#[derive(Debug, Clone, Copy)]
pub struct Present {
    /// The hot tier's time.
    pub now: Timestamp,
    /// How long landed data stays after its last use.
    pub hash_ttl: Duration,
    /// How long a negative answer stays.
    pub absent_ttl: Duration,
    /// How many bytes the partition may hold.
    pub bytes_max: usize,
}

/// One partition: hashes, markers, marks, lock and record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartState {
    pub(super) incarnation: Arc<str>,
    pub(super) record: Option<PartitionRecord>,
    pub(super) hashes: Hashes,
    pub(super) markers: Markers,
    pub(super) marks: Marks,
    pub(super) lock: Option<Held>,
    pub(super) ops: Ops,
}

impl PartState {
    /// An empty partition of this incarnation, without a record.
    #[must_use]
    pub fn new(incarnation: Arc<str>) -> Self {
        Self {
            incarnation,
            record: None,
            hashes: Hashes::default(),
            markers: Markers::default(),
            marks: Marks::default(),
            lock: None,
            ops: Ops::default(),
        }
    }

    /// The same data held by another server process, as after a restart or a failover.
    pub fn move_to(&mut self, incarnation: Arc<str>) {
        self.incarnation = incarnation;
    }

    /// Roughly the bytes held. Markers, marks and operations count by number, hashes by content.
    #[must_use]
    pub fn bytes(&self) -> usize {
        const SMALL_BYTES: usize = 128;
        let small = self.markers.len() + self.marks.len() + self.ops.len();
        self.hashes.bytes().saturating_add(small.saturating_mul(SMALL_BYTES))
    }

    /// Forgets what has run out.
    pub fn sweep(&mut self, now: Timestamp) {
        self.hashes.sweep(now);
        self.markers.sweep(now);
        self.ops.rotate(now);
    }

    /// The header of an owner's hash.
    pub(super) fn header(&self, owner: &Owner) -> Option<Header> {
        let hash = self.hashes.get(owner)?;
        let generation = self.record.as_ref().map(|record| record.generation).filter(|_| !broken("R14-trusting"));
        // Without a record nothing is known to be newer.
        Some(hash.header(self.marks.outstanding(owner), generation.unwrap_or_default()))
    }

    /// The marker as a reader remembers it; of a hash its version. While marks name the hash, the cold tier may be behind it: rows that are read now
    /// may only ever be taken together with this very hash, never alone once it has landed and gone. One below the marker says
    /// so: it equals no later marker, lies below the birth of any hash that follows, and not below that of this one.
    pub(super) fn observed_marker(&self, owner: &Owner) -> Marker {
        self.marker_with_hash(owner, self.markers.get(owner))
    }

    /// The same, if this is the marker that was found.
    pub(super) fn marker_with_hash(&self, owner: &Owner, marker: Marker) -> Marker {
        match self.hashes.get(owner) {
            Some(hash) if self.marks.outstanding(owner) > 0 && !broken("R7-beside") => Marker::At(before(hash.version)),
            Some(hash) => Marker::At(hash.version),
            None => marker,
        }
    }

    /// Gives the hash of an owner whose last mark went the time to live of landed data, or drops it if that was asked for.
    pub(super) fn release(&mut self, present: &Present, owner: &Owner) {
        if self.marks.outstanding(owner) > 0 {
            return;
        }
        if self.hashes.get(owner).is_some_and(|hash| hash.evict_when_landed) {
            self.hashes.remove(owner);
        } else {
            let expires = Some(present.now.plus(present.hash_ttl));
            self.hashes.edit(owner, |hash| {
                hash.expires = expires;
                // Never before its birth; so a clean hash need not remember that.
                hash.born = hash.version;
            });
        }
    }
}

/// The version just before this one.
pub(super) fn before(version: Version) -> Version {
    Version::new(version.get().saturating_sub(1)).unwrap_or_default()
}
