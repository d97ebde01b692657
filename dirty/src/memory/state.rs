//! The content of one partition, and the inputs of a transition.

use std::sync::Arc;
use std::time::Duration;

use storage_model::sabotage::is_kept;
use storage_model::{Epoch, Owner, Timestamp, Version, times};

use super::feed::Stream;
use super::hash::{Hashes, OwnerHash};
use super::lock::LockLease;
use super::maps::Marks;
use super::marker::Markers;
use super::ops::Ops;
use super::room;
use super::session::Sessions;
use crate::{Header, Marker, Observed, PartitionRecord};

/// The inputs of a transition beside the state.
#[derive(Debug, Clone, Copy)]
pub struct Present {
    /// The hot tier's time.
    pub now: Timestamp,
    /// How long landed data stays after its last use.
    pub hash_ttl: Duration,
    /// How long a negative answer stays.
    pub absent_ttl: Duration,
    /// How long the marker of a hash stays. `None` if absence is trusted, so that it never goes.
    pub marker_ttl: Option<Duration>,
    /// How many bytes the partition may hold.
    pub bytes_max: usize,
}

/// The bytes that a marker, a mark, an operation or a session counts for.
pub(super) const SMALL_BYTES: usize = 128;

/// One partition: hashes, markers, marks, sessions, lock and record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartState {
    pub(super) incarnation: Arc<str>,
    pub(super) record: Option<PartitionRecord>,
    pub(super) hashes: Hashes,
    pub(super) markers: Markers,
    pub(super) marks: Marks,
    pub(super) lock: Option<LockLease>,
    pub(super) ops: Ops,
    pub(super) sessions: Sessions,
    pub(super) notes: Stream,
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
            sessions: Sessions::default(),
            notes: Stream::default(),
        }
    }

    /// As [`PartState::new`], in the memory of a process that has just begun.
    #[must_use]
    pub(super) fn blank(incarnation: Arc<str>) -> Self {
        let mut state = Self::new(incarnation);
        state.sessions.blank = true;
        state
    }

    /// Deletes an owner's hash, as somebody might by hand. Its marks stay.
    pub fn lose(&mut self, owner: &Owner) {
        self.hashes.remove(owner);
    }

    /// Drops an owner's marker, as an eviction might.
    pub fn lose_marker(&mut self, owner: &Owner) {
        self.markers.remove(owner);
    }

    /// The same data held by another server process, as after a restart or a failover.
    pub fn move_to(&mut self, incarnation: Arc<str>) {
        self.incarnation = incarnation;
        self.sessions.blank = false;
    }

    /// The approximate bytes held. Markers, marks, operations and sessions count by number, hashes
    /// and notes by content.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let small = self.markers.len() + self.marks.len() + self.ops.len() + self.sessions.len();
        self.hashes
            .bytes()
            .saturating_add(small.saturating_mul(SMALL_BYTES))
            .saturating_add(self.notes.bytes())
    }

    /// Drops everything that has run out.
    pub fn sweep(&mut self, now: Timestamp) {
        self.hashes.sweep(now);
        self.markers.sweep(now);
        self.ops.rotate(now);
    }

    /// The header of an owner's hash.
    pub(super) fn header(&self, owner: &Owner) -> Option<Header> {
        let hash = self.hashes.get(owner)?;
        let generation = self
            .record
            .as_ref()
            .map(|record| record.generation)
            .filter(|_| is_kept("R14-trusting"));
        // Without a record, no row is known to be newer.
        Some(hash.header(generation.unwrap_or_default()))
    }

    /// The owner's marker.
    pub(super) fn marker(&self, owner: &Owner) -> Marker {
        let source = || {
            self.record
                .as_ref()
                .map_or(Version::ZERO, |record| record.source)
        };
        self.markers
            .get(owner)
            .unwrap_or_else(|| Marker::Missing(source()))
    }

    /// Sets a marker if there is none, so that a load can prove itself by its number.
    pub(super) fn claim(&mut self, present: &Present, owner: &Owner) {
        if self.markers.get(owner).is_none()
            && room::make(self, present, SMALL_BYTES, Some(owner))
            && let Some(number) = self.draw_number()
        {
            let end = present.now.plus(times::OBSERVATION);
            self.markers.set(owner, Marker::Unknown(number), Some(end));
        }
    }

    /// The state of an owner that a reader remembers, in this epoch.
    pub(super) fn observed(&self, owner: &Owner, epoch: Epoch) -> Observed {
        Observed {
            marker: self.marker(owner),
            present: self.hashes.get(owner).is_some(),
            epoch,
        }
    }

    /// The number of a hash that is made without a write. No other hash had this number. `None` if
    /// the numbers ran out.
    pub(super) fn draw_number(&mut self) -> Option<Version> {
        let record = self.record.as_mut()?;
        record.source = Version::new(record.source.get().saturating_add(1))?;
        Some(record.source)
    }

    /// Gives a new hash of an owner this number. If a map names the owner, its former hash was
    /// lost. Then the new hash remembers when it was born, and marks of the old hash are put aside
    /// (R6).
    pub(super) fn number(
        &mut self,
        present: &Present,
        owner: &Owner,
        hash: &mut OwnerHash,
        number: Version,
    ) {
        if self.marks.names(owner) && is_kept("R6-birth") {
            self.marks.put_aside(owner);
            hash.born = number;
        }
        let end = present.marker_ttl.map(|ttl| present.now.plus(ttl));
        self.markers.raise(owner, number, end);
    }

    /// Whether the owner's hash must stay: a map names the owner, or a session holds it.
    pub(super) fn keeps(&self, owner: &Owner) -> bool {
        self.marks.names(owner) || self.sessions.pins(owner)
    }

    /// Gives the hash of an owner the time to live of landed data, if no map names it any more and
    /// no session holds it. Drops the hash instead if that was requested.
    pub(super) fn release(&mut self, present: &Present, owner: &Owner) {
        if self.keeps(owner) {
            return;
        }
        if self.marks.is_to_leave(owner) {
            self.hashes.remove(owner);
        } else {
            let expires = Some(present.now.plus(present.hash_ttl));
            self.hashes.edit(owner, |hash| hash.expires = expires);
        }
    }
}
