//! Marks on their way to the database: snapshot, collect, settle and reject.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use storage_model::sabotage::is_kept;
use storage_model::{DatabaseId, Epoch, Field, Owner, Partition, Stamp, Timestamp, Version};

use crate::{Fields, HotError, HotRead, Lock, Mark, mark};

/// The result of taking a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Nothing is marked.
    Empty,
    /// The dirty map became the snapshot.
    Taken(SnapshotId),
    /// A leftover snapshot must be finished first. The dirty map was not touched (R4).
    Leftover(SnapshotId),
}

/// The number of a snapshot, counted by the hot tier. It has a meaning only together with the
/// epoch. Nothing is added to a snapshot, so the number identifies its marks (R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub u64);

/// The maps of a partition that hold marks, in the order a mark passes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Map {
    /// Marks of the latest writes.
    Dirty,
    /// Marks that a worker is landing.
    Snapshot,
    /// Marks of rows that the database rejected.
    Error,
    /// Marks that landed a short while ago, on probation.
    Landed,
    /// Marks that landed in the window before. Their probation ends together.
    Expiring,
}

/// One entry of a map of marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The entry's name as stored.
    pub raw: Bytes,
    /// The mark. `None` if it can't be read, because another program wrote it.
    pub mark: Option<Mark>,
    /// The version of the last write behind the mark.
    pub version: Version,
}

impl Entry {
    /// Whether the mark was put aside, because its hash was lost (R6). The owner's present hash
    /// proves nothing about such a mark.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        mark::is_aside(&self.raw)
    }
}

/// A part of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Entries. One entry can come twice over several pages.
    pub entries: Vec<T>,
    /// The cursor to go on from. `None` at the end. An entry that is there from the first page to
    /// the last is in some page.
    pub next: Option<u64>,
}

/// The marks of some owners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marked {
    /// Entries of the dirty map.
    pub dirty: Vec<Entry>,
    /// Entries of the snapshot.
    pub snapshot: Vec<Entry>,
}

/// The values of marked fields, and the data that a fence needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collected {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// The stamp of the epoch.
    pub stamp: Stamp,
    /// How far landings are known to reach.
    pub landed: Version,
    /// The version that the commit of these values must record at least, even if their own versions
    /// are lower. It reveals a hot tier that has forgotten the values (R14).
    pub reaches: Version,
    /// The database that the partition lands to in this epoch. `None` if the database is not
    /// watched.
    pub database: Option<DatabaseId>,
    /// Whether the error map has entries. Mostly it has none, and then no landing row has an error
    /// mark. Only the holder of the lock adds entries.
    pub has_errors: bool,
    /// Whether a mark of the partition may have partners. Then the owners that must land together
    /// are read by [`Marks::collect_linked`].
    pub is_linked: bool,
    /// Owners of which only a part was read, so that their rows would be no state of the owner (R16):
    /// a mark names another field than the wanted ones, or the error map names the owner. They must
    /// be read again by [`Marks::collect_linked`]. In the order of the requested owners.
    pub partial: Vec<Owner>,
    /// One read for each requested owner, in order. Value and version of one owner belong together
    /// (R3).
    pub reads: Vec<HotRead>,
}

/// An owner that was read with its partners.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The owner.
    pub owner: Owner,
    /// The fields that were read: the wanted ones, and all that its marks name.
    pub fields: Fields,
    /// The owners that its marks name as partners.
    pub partners: Vec<Owner>,
    /// How long one of its fields has been in the error map, because the database rejected it.
    pub rejected_for: Option<Duration>,
    /// Its mark in the snapshot, and the number of the snapshot. Read in the same step.
    pub mark: Option<(SnapshotId, Entry)>,
}

/// The partners of owners, and those of the partners (G1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// Each owner that has a partner or is one, with its partners.
    pub owners: Vec<(Owner, Vec<Owner>)>,
    /// Whether there are more owners than were followed.
    pub more: bool,
}

/// The most that one transaction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Rows, which are fields with their values or tombstones. Also the most linked owners.
    pub rows: usize,
    /// Bytes of all values.
    pub bytes: usize,
}

/// Owners that must land together (G1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linked {
    /// Marks lead to these partners, whose hashes are not here unless they are named. Nothing was read.
    Open(Vec<Owner>),
    /// The owners have more rows or bytes than one transaction may have. Nothing was read.
    Large,
    /// Each owner was read, in the same step: those that were named, in their order, and then the
    /// partners that their marks lead to.
    Closed(Collected, Vec<Member>),
}

/// Marks to clear, because their rows were committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settle {
    /// The partition of all the marks and rows.
    pub partition: Partition,
    /// The worker's lock. Without a lock (a flush) marks stay, and only error marks are cleared.
    pub lock: Option<Lock>,
    /// The epoch the rows were collected under.
    pub epoch: Epoch,
    /// How far the commit reaches. `landed` is raised to it.
    pub landed: Version,
    /// The snapshot of the marks. If another snapshot is there by now, its marks stay (R5).
    pub snapshot: SnapshotId,
    /// Entries of the snapshot.
    pub marks: Vec<Entry>,
    /// The committed rows, which clear error marks. A worker that collected while the error map was
    /// empty can leave out all rows.
    pub rows: Vec<LandedRow>,
    /// Whether cleared marks go on probation. Then they keep their owner until the probation ends.
    pub probation: bool,
}

/// A committed row. It clears the error mark of its field, if the mark's version is between `from`
/// and `version`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LandedRow {
    /// The owner.
    pub owner: Owner,
    /// The field.
    pub field: Field,
    /// The version of the row.
    pub version: Version,
    /// The birth of the hash that the row was read from, since the hash proves nothing about earlier
    /// writes (R6). Zero if a mark of this hash names the field. Error marks from before the birth of
    /// the present hash stay in any case.
    pub from: Version,
}

/// The result of settling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// How many marks were cleared from the snapshot.
    pub cleared: u32,
    /// How many error marks were cleared.
    pub errors_cleared: u32,
}

/// Why a field could not land.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The field.
    pub field: Field,
    /// The rejected version: the row's, and never below the mark's. An error mark goes when a row
    /// of its version lands.
    pub version: Version,
    /// The database's error number. 0 for a reason of the storage itself.
    pub code: u32,
    /// The reason in one line, such as the database's message, or "vanished".
    pub message: String,
}

/// A snapshot entry that moves to the error map, or an error mark that failed again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rejected {
    /// The snapshot entry, which is cleared in the same step if it is still there. `None` for a
    /// repeated attempt, which changes nothing if its error mark is gone.
    pub source: Option<Entry>,
    /// The owner of the fields. `None` if the source can't be read. Then the source moves to the
    /// error map under its own name, with code 0 and "unreadable mark".
    pub owner: Option<Owner>,
    /// The rejected fields. Each becomes an error mark of its own. If one is there already, the
    /// greater version stays.
    pub faults: Vec<Fault>,
    /// Partners that the owner no longer lands together with, because they have landed apart (G1).
    pub leaves: Vec<Owner>,
}

impl Rejected {
    /// Whether other fields of the snapshot entry have landed.
    pub(crate) fn has_landed(&self) -> bool {
        let mark = self.source.as_ref().and_then(|entry| entry.mark.as_ref());
        mark.is_some_and(|mark| mark.fields.len() > self.faults.len()) && is_kept("H33-rejected")
    }
}

/// Entries to move to the error map, in one step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reject {
    /// The partition of all the entries.
    pub partition: Partition,
    /// The worker's lock.
    pub lock: Lock,
    /// The epoch the rows were collected under.
    pub epoch: Epoch,
    /// The snapshot of the entries. If another snapshot is there by now, the entries have landed or
    /// moved already.
    pub snapshot: SnapshotId,
    /// The first delay before a retry. It doubles with each attempt.
    pub retry_min: Duration,
    /// The longest delay.
    pub retry_max: Duration,
    /// Whether snapshot entries go on probation, too, if other fields of them have landed (H33).
    pub probation: bool,
    /// The entries to move.
    pub rejected: Vec<Rejected>,
}

/// One error mark: of one field, or of an unreadable entry. The error map has one entry an owner,
/// which holds the error marks of all its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorEntry {
    /// The entry's name as stored. Error marks of one owner share it.
    pub raw: Bytes,
    /// Owner and field. `None` if the name can't be read.
    pub target: Option<(Owner, Field)>,
    /// The version that was rejected last.
    pub version: Version,
    /// How often landing was attempted.
    pub attempts: u32,
    /// The time of the first rejection.
    pub first: Timestamp,
    /// The time of the last rejection.
    pub last: Timestamp,
    /// The time of the next attempt.
    pub next: Timestamp,
    /// The database's error number. 0 for a reason of the storage itself.
    pub code: u32,
    /// The reason in one line.
    pub message: String,
}

/// The marks of a partition on their way to the database: dirty map, snapshot, error map, and marks
/// on probation. A mark leaves the snapshot only for the worker that holds the partition's lock.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Marks: fmt::Debug + Send + Sync {
    /// The marks that owners have in the dirty map and in the snapshot. Marks that were put aside are
    /// not among them. A mark that moves from one to the other meanwhile is found.
    async fn marks_of(&self, partition: Partition, owners: &[Owner]) -> Result<Marked, HotError>;

    /// Turns the dirty map into the snapshot, unless a snapshot is left over (R4). Fails with kind
    /// `LockLost` without the lock.
    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError>;

    /// Some entries of a map of marks, about `count`, from `cursor` on (0 at first).
    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError>;

    /// Some entries of the error map, about `count`, from `cursor` on (0 at first).
    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError>;

    /// Reads marked fields (tombstones included) of owners of one partition, then the partition's
    /// epoch and `landed`, under one incarnation. Fails as `Unprepared` if it is not the recorded
    /// one. An empty list of fields means the whole owner.
    ///
    /// Behind the values it looks into the maps for marks that name further fields, and lists their
    /// owners as [`Collected::partial`]. Marks on probation count while the database may have
    /// forgotten their rows. The fields of `known` are among the wanted ones, so that snapshot is
    /// not asked.
    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
        known: Option<SnapshotId>,
    ) -> Result<Collected, HotError>;

    /// As [`Marks::collect`], in one step for all owners, and with `follow` for all partners that
    /// their marks lead to. The marks of all five maps count (R16, G1). Marks that were put aside do
    /// not. A partner whose hash is not there must be named, since it can be on the other server of
    /// a slot that moves.
    ///
    /// A list of [`Fields::Cells`] is completed by all fields that a mark of the owner names.
    async fn collect_linked(
        &self,
        partition: Partition,
        wanted: &[(Owner, Fields)],
        bound: Bound,
        follow: bool,
    ) -> Result<Linked, HotError>;

    /// Follows the partners of owners through all five maps. Stops after `most` owners beside
    /// those. Fails under another epoch or incarnation. So an owner without partners has none that
    /// were lost since values of this epoch were read.
    async fn links(
        &self,
        partition: Partition,
        epoch: Epoch,
        owners: &[Owner],
        most: usize,
    ) -> Result<Links, HotError>;

    /// Clears marks after their rows were committed, if their snapshot is still there (R5). Also
    /// clears error marks of committed fields at or below the committed versions. With probation,
    /// both go on probation instead. Raises `landed`.
    ///
    /// An owner that no map names any more gets the time to live of landed data, or is evicted if
    /// that was requested. The call fails as a whole under another epoch or incarnation, or without
    /// the lock.
    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError>;

    /// Moves entries to the error map, and counts attempts. Returns for each entry whether it is
    /// there now. It is not if another worker landed or moved it, or if a scan brought it twice.
    /// The call fails as a whole under another epoch or incarnation, or without the lock.
    async fn reject(&self, reject: &Reject) -> Result<Vec<bool>, HotError>;

    /// Lets a rejected owner land in parts, without its rejected fields and apart from its partners:
    /// its error marks count as rejected for ever, and are due at once. Returns whether it did. It
    /// does nothing if the owner has no error marks of the database. Fails under another incarnation.
    async fn tear(&self, owner: &Owner) -> Result<bool, HotError>;
}
