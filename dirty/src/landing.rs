//! What a landing worker does with marks.

use std::time::Duration;

use bytes::Bytes;
use storage_model::sabotage::broken;
use storage_model::{DatabaseId, Epoch, Field, Owner, Partition, Timestamp, Version};

use crate::{HotRead, Lock, Mark, mark};

/// What taking a snapshot found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Nothing is marked.
    Empty,
    /// The dirty map became the snapshot.
    Taken(SnapshotId),
    /// A snapshot was left over; it must be finished first. The dirty map was not touched (R4).
    Leftover(SnapshotId),
}

/// The number of a snapshot, counted by the hot tier; it means something only together with the
/// epoch. Nothing is added to a snapshot, so who names it is sure of its marks (R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub u64);

/// The maps of a partition that hold marks, in the order a mark passes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// Where writes mark what they changed.
    Dirty,
    /// What a worker lands.
    Snapshot,
    /// What the database refused.
    Error,
    /// What landed a short while ago, on probation.
    Landed,
    /// What landed in the window before; its probation ends together.
    Leaving,
}

/// One entry of a map of marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The entry's name as stored.
    pub raw: Bytes,
    /// The mark; none if it can't be read (somebody else wrote it).
    pub mark: Option<Mark>,
    /// The version of the last write that the mark is of.
    pub version: Version,
}

impl Entry {
    /// Whether the mark was put aside, since the hash that it is of was lost (R6). No hash that its
    /// owner has by now proves anything of it.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        mark::is_aside(&self.raw)
    }
}

/// A part of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Entries; one may come twice over several pages.
    pub entries: Vec<T>,
    /// Where to go on; none at the end. An entry that is there from the first page to the last is
    /// in some page.
    pub next: Option<u64>,
}

/// What the hot tier holds of marked fields, and what a fence needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collected {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// How far landings are known to reach.
    pub landed: Version,
    /// How far a landing of the values is said to reach at least, whatever their versions, so that
    /// a hot tier that forgets the values is known by it (R14).
    pub reaches: Version,
    /// The database that the partition is landed to in this epoch; none if it is not watched.
    pub database: Option<DatabaseId>,
    /// Whether the error map has entries; mostly it has none, and then nothing that lands has one.
    /// Only who holds the lock adds any.
    pub has_errors: bool,
    /// One read for each owner asked, in order; value and version of one owner belong together
    /// (R3).
    pub reads: Vec<HotRead>,
}

/// Marks whose rows were committed, to be cleared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settle {
    /// The partition that all of it belongs to.
    pub partition: Partition,
    /// The worker's lock; without one (a flush) marks stay and only error marks are cleared.
    pub lock: Option<Lock>,
    /// The epoch the rows were collected under.
    pub epoch: Epoch,
    /// How far the commit reaches; `landed` is raised to it.
    pub landed: Version,
    /// The snapshot that the marks were read from. If another one is there by now, its marks stay
    /// (R5).
    pub snapshot: SnapshotId,
    /// Its entries.
    pub marks: Vec<Entry>,
    /// The rows that were committed. Error marks of these fields at or below these versions are
    /// cleared. A worker that collected while the error map was empty needs to name none.
    pub rows: Vec<(Owner, Field, Version)>,
    /// Whether what is cleared goes on probation, and keeps its owner until that ends.
    pub probation: bool,
}

/// What settling did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// How many marks were cleared from the snapshot.
    pub cleared: u32,
    /// How many error marks were cleared.
    pub errors_cleared: u32,
}

/// Why a field could not be landed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Which field.
    pub field: Field,
    /// The version that was refused: the row's, and never below the mark's, since an error mark
    /// goes when a row of its version lands.
    pub version: Version,
    /// The database's error number; 0 for a reason of our own.
    pub code: u32,
    /// The reason in one line, such as the database's message, or "vanished".
    pub message: String,
}

/// One snapshot entry that goes to the error map, or an error mark that was tried again in vain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Parked {
    /// The snapshot entry that is cleared in the same step if it is still there; none for a
    /// repeated attempt, which changes nothing if its error mark is gone.
    pub source: Option<Entry>,
    /// Whose fields; none if the source can't be read, which is then parked under its own name,
    /// with code 0 and "unreadable mark".
    pub owner: Option<Owner>,
    /// The refused fields. Each becomes an error mark of its own; where one is there already, the
    /// greater version stays.
    pub faults: Vec<Fault>,
}

impl Parked {
    /// Whether other fields of the snapshot entry have landed.
    pub(crate) fn has_landed(&self) -> bool {
        let mark = self.source.as_ref().and_then(|entry| entry.mark.as_ref());
        mark.is_some_and(|mark| mark.fields.len() > self.faults.len()) && !broken("H33-parked")
    }
}

/// Entries to move to the error map, in one step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Park {
    /// The partition that all of it belongs to.
    pub partition: Partition,
    /// The worker's lock.
    pub lock: Lock,
    /// The epoch the rows were collected under.
    pub epoch: Epoch,
    /// The snapshot that the entries were read from. If another one is there by now, they are
    /// landed or parked already.
    pub snapshot: SnapshotId,
    /// The first delay before another attempt; it doubles with each attempt.
    pub retry_min: Duration,
    /// The longest delay.
    pub retry_max: Duration,
    /// Whether snapshot entries of which other fields have landed go on probation, too (H33).
    pub probation: bool,
    /// What to park.
    pub parked: Vec<Parked>,
}

/// One error mark: of one field, or of what can't be read. The error map has an entry for each
/// owner, which holds those of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorEntry {
    /// The entry's name as stored; error marks of one owner share it.
    pub raw: Bytes,
    /// Owner and field; none if the name can't be read.
    pub target: Option<(Owner, Field)>,
    /// The version that was refused last.
    pub version: Version,
    /// How often landing was attempted.
    pub attempts: u32,
    /// When it was first refused.
    pub first: Timestamp,
    /// When it was last refused.
    pub last: Timestamp,
    /// When it is to be tried again.
    pub next: Timestamp,
    /// The database's error number; 0 for a reason of our own.
    pub code: u32,
    /// The reason in one line.
    pub message: String,
}
