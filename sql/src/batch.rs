//! The data that goes into the cold tier and comes out of it.

use std::time::Duration;

use storage_model::{
    DatabaseId, Epoch, Event, Field, HotId, Lead, Owner, Partition, Position, Row, Stamp, Version,
};

/// The proof of a landing transaction for one partition. The transaction commits only if the
/// database's record has this epoch and stamp, and its landings reach exactly this far. Otherwise
/// the hot tier was replaced, or another worker landed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The partition of some of the batch's rows.
    pub partition: Partition,
    /// The epoch read from the hot tier with the rows.
    pub epoch: Epoch,
    /// The stamp of the epoch, read from the hot tier with the rows.
    pub stamp: Stamp,
    /// How far landings reach, as read from the hot tier with the rows.
    pub landed: Version,
    /// How far the batch reaches. No row of this partition has a higher version. The record keeps
    /// the greater of this and `landed`.
    pub reaches: Version,
    /// The database that the hot tier has landed to so far, read with the rows. Another database
    /// does not match. `None` matches any.
    pub database: Option<DatabaseId>,
}

/// One landing transaction. It commits as a whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// One fence for each partition that has rows here.
    pub fences: Vec<Fence>,
    /// The rows, in any order. Of two rows of one field the higher version counts.
    pub rows: Vec<Row>,
    /// Whether all rows are rejected if one is, because their owners must land together. Then the
    /// database is asked as carefully as before a single row is rejected (H38).
    pub whole: bool,
    /// Whether nothing is kept: the answer tells whether the database would take the rows.
    pub trial: bool,
    /// Events for the feeds of partitions that have a fence here. At most one item a partition.
    pub events: Vec<Events>,
    /// The places of the last notes of owners whose rows are here, each with its partition. Where a
    /// place is beyond the end of the feed, the rows are ahead of their notes. The database
    /// remembers that.
    pub leads: Vec<(Partition, Lead)>,
}

/// Events for the feed of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The partition.
    pub partition: Partition,
    /// The end of the feed, as it was read. If the feed has another end, the transaction does not
    /// commit.
    pub after: Position,
    /// The events, in their order. At least one.
    pub events: Vec<Event>,
}

/// How far the feed of a partition reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedEnds {
    /// The partition.
    pub partition: Partition,
    /// The position of the last event. [`Position::ZERO`] if there was none.
    pub last: Position,
    /// The position of the last event that was dropped for its age.
    pub trimmed: Position,
}

/// An event that a sink has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Its partition.
    pub partition: Partition,
    /// Its place in the feed of the partition.
    pub position: Position,
    /// The reason, as the sink gave it.
    pub message: String,
}

/// A hook that the database names: rows of a layer that follow from landed rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The name, 1 to 64 bytes.
    pub name: String,
    /// How often its definitions have changed.
    pub definitions: u64,
    /// Whether landings need it.
    pub is_needed: bool,
    /// Whether landings need it and this program lacks it. Then nothing lands.
    pub is_lacked: bool,
}

impl Hook {
    /// The message about a hook that this program lacks.
    #[must_use]
    pub fn missing(&self) -> String {
        let Self { name, .. } = self;
        format!(
            "the rows of this database need the hook {name:?}, which this program lacks: use a program that has it"
        )
    }
}

/// A key of the table of rows, byte by byte: app, region, logic type, owner id and field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey(pub(crate) Vec<Box<[u8]>>);

/// The purged rows of a page of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedPage {
    /// The rows that are purged and old.
    pub purged: Vec<(Owner, Field)>,
    /// The last row of the page. `None` at the end of the table.
    pub last: Option<RowKey>,
}

/// The database's rows of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The owner's rows by field, including tombstones and purged fields.
    pub rows: Vec<Row>,
    /// Whether these are all rows. If not, the owner has more rows than the limit, and `rows` is
    /// empty.
    pub complete: bool,
}

/// The database's record of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionRecord {
    /// The partition.
    pub partition: Partition,
    /// How often the hot tier was replaced.
    pub epoch: Epoch,
    /// How far the landings of this partition reach. Each landing raises it, and none commits a
    /// version above it.
    pub last_version: Version,
    /// The epoch of the last landing. 0 if there was none.
    pub landed_epoch: Epoch,
    /// The stamp of the last raise. [`Stamp::NONE`] if an older program made it.
    pub stamp: Stamp,
    /// The hot tier that the partition was raised for. No other one lands it. [`HotId::NONE`] if an
    /// older program raised it.
    pub hot: HotId,
    /// The database server that answered. It is the same for all records of one answer.
    pub database: DatabaseId,
}

/// A request to raise a partition's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raise {
    /// The partition.
    pub partition: Partition,
    /// The epoch that was seen. Any other epoch stays as it is.
    pub seen: Epoch,
    /// The stamp that was seen. A record with another stamp stays as it is.
    pub seen_stamp: Stamp,
    /// How far landings reached. A record of later landings stays as it is, and so do the records of
    /// all raises with a reach in the same call. `None`: that does not matter.
    pub reach: Option<Version>,
    /// The record stays as it is unless nobody has used its hot tier for this long, by the
    /// database's clock. `None`: that does not matter.
    pub if_silent: Option<Duration>,
    /// The new epoch is one above the greater of this and the seen one.
    pub above: Epoch,
    /// The hot tier that gets the partition. It is used now.
    pub by: HotId,
    /// The stamp of this raise.
    pub stamp: Stamp,
}

/// A hot tier that lands or landed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotTier {
    /// The number of its incarnation.
    pub id: HotId,
    /// Its address: host and port, never a login.
    pub address: String,
    /// For how long the database has known it.
    pub known_for: Duration,
    /// How long ago a program used it.
    pub seen_ago: Duration,
    /// How many partitions it has.
    pub partitions: u64,
}

impl HotTier {
    /// Whether it has a partition and was used within this time. Only a promoted server, and one
    /// with all of its data, takes a partition from it.
    #[must_use]
    pub fn is_heard(&self, within: Duration) -> bool {
        self.partitions > 0 && self.seen_ago < within
    }
}

/// The result of a [`Raise`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raised {
    /// The partition's record after the call.
    pub record: PartitionRecord,
    /// Whether this call raised the epoch. Otherwise it was no longer the seen one.
    pub moved: bool,
}

impl Raise {
    /// Raises to the next epoch, for no hot tier and without a stamp.
    #[must_use]
    pub fn by_one(partition: Partition, seen: Epoch) -> Self {
        Self {
            partition,
            seen,
            seen_stamp: Stamp::NONE,
            reach: None,
            if_silent: None,
            above: seen,
            by: HotId::NONE,
            stamp: Stamp::NONE,
        }
    }

    /// Whether it takes the partition from another hot tier, on a condition.
    #[must_use]
    pub fn takes(&self) -> bool {
        self.reach.is_some() || self.if_silent.is_some()
    }
}
