//! What goes into the cold tier and comes out of it.

use storage_model::{DatabaseId, Epoch, Partition, Row, Version};

/// The proof that a landing transaction carries for one partition: it commits only if the
/// database's record still has this epoch, and its landings reach as far. Otherwise the hot tier
/// was replaced, or another worker landed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The partition that rows of the batch belong to.
    pub partition: Partition,
    /// The epoch read from the hot tier with the rows.
    pub epoch: Epoch,
    /// How far landings reach, as read from the hot tier with the rows.
    pub landed: Version,
    /// How far the batch reaches: no version of its rows of this partition is above. The record
    /// keeps the greater of this and `landed`.
    pub reaches: Version,
    /// The database that the hot tier has landed to so far, read with the rows; another one does
    /// not match. None: any matches.
    pub database: Option<DatabaseId>,
}

/// One landing transaction: all of it commits, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// One fence for each partition that has rows here.
    pub fences: Vec<Fence>,
    /// The rows, in any order; of two rows of one field the one with the greater version counts.
    pub rows: Vec<Row>,
}

/// What the database holds of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The owner's rows by field, tombstones and purged fields included.
    pub rows: Vec<Row>,
    /// Whether these are all rows. If not, the owner has more than the limit, and `rows` is empty.
    pub complete: bool,
}

/// The database's record of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionRecord {
    /// Which partition.
    pub partition: Partition,
    /// How often the hot tier was replaced.
    pub epoch: Epoch,
    /// How far the landings of this partition reach: each has raised it, and none has committed a
    /// version above it.
    pub last_version: Version,
    /// The epoch in which the last of them committed; 0 if none did.
    pub landed_epoch: Epoch,
    /// The database server that answered, the same for all records of one answer.
    pub database: DatabaseId,
}

/// A partition's epoch that is to rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raise {
    /// The partition.
    pub partition: Partition,
    /// The epoch that was seen; another stays as it is.
    pub seen: Epoch,
    /// The new epoch is one above this and the one seen.
    pub above: Epoch,
}

/// What became of a [`Raise`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raised {
    /// The partition's record after it.
    pub record: PartitionRecord,
    /// Whether this call raised the epoch; otherwise it was no longer the one seen.
    pub moved: bool,
}

impl Raise {
    /// To the next epoch.
    #[must_use]
    pub fn by_one(partition: Partition, seen: Epoch) -> Self {
        Self {
            partition,
            seen,
            above: seen,
        }
    }
}
