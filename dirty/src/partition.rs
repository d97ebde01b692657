//! The record, lock and sizes of a partition.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{DatabaseId, Epoch, Partition, Position, Stamp, Timestamp, Version};

use crate::HotError;

/// The hot tier's record of a partition (R14).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionRecord {
    /// The incarnation under which the record was made or adopted.
    pub incarnation: String,
    /// How often the hot tier was replaced, as the database counts it.
    pub epoch: Epoch,
    /// The stamp of the raise to this epoch. [`Stamp::NONE`] if an older program adopted it.
    pub stamp: Stamp,
    /// The epoch in which the hot tier was last found rewound. Hashes of a lower generation are
    /// suspect.
    pub generation: Epoch,
    /// Where versions begin. The next version is above it.
    pub source: Version,
    /// How far landings are known to reach. As far as is known, no version above it has landed.
    pub landed: Version,
    /// How far the last collection reaches, under the record's incarnation of that time. Data up to
    /// this version that landed in an epoch of this hot tier was collected here, and is still here.
    pub collected: Version,
    /// The database that the partition lands to in this epoch. `None` if the database is not
    /// watched.
    pub database: Option<DatabaseId>,
}

impl PartitionRecord {
    /// Whether the hot tier lacks landed data, up to `last_version`.
    ///
    /// With `landed_here`, all landed data was collected here and reaches as far as `collected`,
    /// unless the hot tier forgot both. So `collected` tells an unsettled commit from a forgotten
    /// one. One case remains: after the clock was set back, a row can lie above `collected`. Then a
    /// commit that was not forgotten looks forgotten.
    ///
    /// Without `landed_here`, another hot tier may have landed data, and only `landed` counts. The
    /// source proves nothing: a write may have raised it before anybody noticed the loss.
    #[must_use]
    pub fn has_forgotten(&self, last_version: Version, landed_here: bool) -> bool {
        last_version > self.landed && !(landed_here && last_version <= self.collected)
    }
}

/// A partition's record and the incarnation of the server that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionState {
    /// Names the incarnation that holds the partition now. It changes whenever the hot tier may
    /// have forgotten acknowledged writes.
    pub incarnation: String,
    /// The record. `None` at first contact or after a wipe.
    pub record: Option<PartitionRecord>,
}

impl PartitionState {
    /// Whether the record was made under the incarnation that holds the partition now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.record
            .as_ref()
            .is_some_and(|record| record.incarnation == self.incarnation)
    }
}

/// The takeover of a partition by a new incarnation, after the database's epoch was raised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Adopt {
    /// The partition.
    pub partition: Partition,
    /// The state that was seen before the database was asked.
    pub seen: PartitionState,
    /// The database's epoch, raised.
    pub epoch: Epoch,
    /// The stamp of that raise.
    pub stamp: Stamp,
    /// Not after this moment, by the clock of the partition's server. Another hot tier may have the
    /// partition by then.
    pub until: Timestamp,
    /// How far landings reach, according to the database.
    pub last_version: Version,
    /// Whether all landed data was collected from this hot tier, or from one that it is a copy of.
    /// See [`PartitionRecord::has_forgotten`].
    pub landed_here: bool,
    /// Whether every hash must be compared with its rows, even if no landed data is missing. The
    /// rows may belong to another database.
    pub compare_all: bool,
    /// The database that answered. `None` keeps the recorded one.
    pub database: Option<DatabaseId>,
    /// How far the feed reaches, according to the database. Later notes have higher numbers.
    pub feed: Position,
}

/// The right to land a partition, until it runs out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The name of the worker that holds the lock, for people.
    pub holder: String,
    /// Tells this lock from any other of the same worker.
    pub token: String,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({})", self.holder)
    }
}

/// How much of a partition waits. No mark is read for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionPeek {
    /// Entries of the dirty map.
    pub live: u64,
    /// Entries of the snapshot.
    pub snapshot: u64,
    /// Entries of the error map.
    pub errors: u64,
    /// Landed marks on probation.
    pub probation: u64,
    /// Whether the marks on probation must become live again.
    pub requeue: bool,
    /// When the oldest entry of the dirty map was marked, in the hot tier's time, or earlier. It
    /// tells this dirty map from others, even if the clock leaps.
    pub live_since: Option<Timestamp>,
    /// As `live_since`, for the snapshot. The snapshot takes it over from its dirty map.
    pub snapshot_since: Option<Timestamp>,
    /// The holder of the lock.
    pub holder: Option<String>,
    /// The place of the last note that was ever written.
    pub last_note: Position,
    /// How far notes have landed, as far as the hot tier was told.
    pub noted: Position,
    /// Entries of the stream. The notes of one call can share an entry. Landed ones are among them as
    /// long as they are on probation.
    pub stream: u64,
    /// Whether lost leads were looked for in this epoch ([`Feed::resync`](crate::Feed::resync)). False
    /// without a record.
    pub is_resynced: bool,
    /// Whether the partition has a record.
    pub has_record: bool,
}

impl PartitionPeek {
    /// How many notes wait to land.
    #[must_use]
    pub fn notes(&self) -> u64 {
        self.last_note.number.saturating_sub(self.noted.number)
    }

    /// When the oldest entry of the dirty map or the snapshot was marked, in the hot tier's time,
    /// or earlier.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.live_since.into_iter().chain(self.snapshot_since).min()
    }
}

/// Partitions: their records, locks and sizes.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Partitions: fmt::Debug + Send + Sync {
    /// How many partitions owners are hashed into.
    fn partition_count(&self) -> u32;

    /// The records of partitions, and the incarnations that hold them now.
    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>>;

    /// The time of the server of each partition. [`Tier::time`](crate::Tier::time) is that of one server
    /// for all, and clocks differ.
    async fn times(&self, partitions: &[Partition]) -> Vec<Result<Timestamp, HotError>>;

    /// Makes or replaces partition records. A record changes only if the stored incarnation is
    /// still the one seen, the server's is too, and the epoch is greater than the stored one. The
    /// source is raised to `last_version`, and `landed` becomes `last_version`. After `until` nothing
    /// changes.
    ///
    /// The generation becomes the epoch if the hot tier [has
    /// forgotten](crate::PartitionRecord::has_forgotten) landed data, if there was no record, or if
    /// every hash must be compared. The numbers of notes go on above those of both tiers. After any
    /// adoption, marks on probation must become live again.
    /// Returns whether it adopted.
    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>>;

    /// Raises `landed`, after a fence found that a commit was not settled. Never lowers it. Fails
    /// under another epoch or incarnation.
    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError>;

    /// Sizes, ages and lock holders, without reading marks.
    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>>;

    /// Takes locks that nobody else holds. Returns which locks it has now. A repeat under the same
    /// token gets the same answer, so a lost answer does not lock its own worker out. Works at the
    /// memory limit, as all calls of a worker do.
    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Prolongs locks that are still held. Returns which are.
    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Returns locks that are still held.
    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>>;

    /// Forgets the replies that partitions remember for stores without a call for two minutes, by
    /// this process' clock. Such a store is gone, or asks for no earlier reply any more. A worker
    /// calls this from time to time, so that a partition does not grow with every store that ever
    /// was. Each partition is checked once a minute at most.
    async fn forget_calls(&self, partitions: &[Partition]) -> Result<(), HotError>;
}
