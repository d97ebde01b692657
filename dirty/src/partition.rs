//! The record, lock and sizes of a partition.

use std::fmt;

use storage_model::sabotage::broken;
use storage_model::{DatabaseId, Epoch, Partition, Timestamp, Version};

/// What the hot tier remembers of a partition (R14).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionRecord {
    /// The incarnation that the record was made or adopted under.
    pub incarnation: String,
    /// How often the hot tier was replaced, as the database counts it.
    pub epoch: Epoch,
    /// The epoch in which the hot tier was last found rewound; hashes of a lower generation are
    /// suspect.
    pub generation: Epoch,
    /// Where versions begin: the next one is above it.
    pub source: Version,
    /// How far landings are known to reach: no version above it has landed, as far as is known.
    pub landed: Version,
    /// How far what was collected last reaches, under the incarnation that the record was made
    /// under then: what landed up to it in an epoch of this hot tier was collected from it, and is
    /// here.
    pub collected: Version,
    /// The database that the partition is landed to in this epoch; none if it is not watched.
    pub database: Option<DatabaseId>,
}

impl PartitionRecord {
    /// Whether the hot tier lacks something that has landed, up to `last_version`.
    ///
    /// If all of it was collected here (`landed_here`), it reaches as far as `collected`, unless
    /// that was forgotten with it; so a commit that was not settled is told from a forgotten one.
    /// (Only a row that is itself above `collected`, after the clock was set back, makes one that
    /// was not forgotten look so.) Otherwise somebody else may have landed it, and only what is
    /// known to have landed counts. The source says nothing: a write may have come before anybody
    /// noticed that something was forgotten.
    #[must_use]
    pub fn has_forgotten(&self, last_version: Version, landed_here: bool) -> bool {
        let collected = if broken("R14-early") {
            self.source
        } else {
            self.collected
        };
        last_version > self.landed && !(landed_here && last_version <= collected)
    }
}

/// A partition's record beside the incarnation of the server that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionState {
    /// Which server process, in which replication history, holds the partition now.
    pub incarnation: String,
    /// The record; none at first contact or after a wipe.
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
    /// Which partition.
    pub partition: Partition,
    /// The state that was seen before the database was asked.
    pub seen: PartitionState,
    /// The database's epoch, raised.
    pub epoch: Epoch,
    /// How far landings reach, by the database.
    pub last_version: Version,
    /// Whether all that has landed was collected from this hot tier, or one that it is a copy of;
    /// see [`PartitionRecord::has_forgotten`].
    pub landed_here: bool,
    /// Whether every hash is to be compared with its rows, whatever has landed: the rows may be of
    /// another database.
    pub compare_all: bool,
    /// The database that answered; none leaves what is recorded.
    pub database: Option<DatabaseId>,
}

/// The right to land a partition, until it runs out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Who holds it: the worker's name, for people.
    pub holder: String,
    /// What tells this holding from any other of the same worker.
    pub token: String,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({})", self.holder)
    }
}

/// How much of a partition waits, without reading a mark.
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
    /// Whether these are to become live again.
    pub relive: bool,
    /// When the oldest entry of the dirty map was marked, in the hot tier's time, or earlier. It
    /// tells this dirty map from others, whatever the clock did.
    pub live_since: Option<Timestamp>,
    /// As `live_since`, of the snapshot, which takes it over from the dirty map that it was.
    pub snapshot_since: Option<Timestamp>,
    /// Who holds the lock.
    pub holder: Option<String>,
}

impl PartitionPeek {
    /// When the oldest entry of the dirty map or the snapshot was marked, in the hot tier's time,
    /// or earlier.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.live_since.into_iter().chain(self.snapshot_since).min()
    }
}
