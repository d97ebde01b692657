//! The contract of the cold tier.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{
    Epoch, Event, Field, HotId, Lead, Owner, Partition, Position, Row, Scope, SinkName,
};

use crate::{
    Batch, ColdError, ColdPairing, FeedEnds, Fence, Hook, HotTier, LandError, Layers, Loaded, Pair,
    Parked, PartitionRecord, PurgedPage, Raise, Raised, RangeStore, RowKey,
};

/// A database in parts, one for each concern. Cheap to clone. Whoever needs one part takes that one alone,
/// and a test replaces it alone:
///
/// ```text
/// Cold { landing: Arc::new(Counting::new(cold.landing.clone())), ..cold }
/// ```
///
/// Two engines have all of the parts: MySQL (with MariaDB) and SQLite. One conformance suite runs over both.
///
/// # Cancel safety
/// Every method of every part can be dropped at any await. A connection with a cut statement is thrown away,
/// never reused.
#[derive(Debug, Clone)]
pub struct Cold {
    /// Rows, as they lie in the database.
    pub rows: Arc<dyn RowStore>,
    /// Rows of the owners between two ids.
    pub ranges: Arc<dyn RangeStore>,
    /// The landing of rows.
    pub landing: Arc<dyn LandStore>,
    /// The rows of purged fields.
    pub sweep: Arc<dyn SweepStore>,
    /// Landed events.
    pub events: Arc<dyn EventStore>,
    /// How far sinks have got.
    pub sinks: Arc<dyn SinkStore>,
    /// The hooks of layers.
    pub hooks: Arc<dyn HookStore>,
    /// Partitions and their epochs.
    pub partitions: Arc<dyn PartitionStore>,
    /// The hot tiers that land here.
    pub hot_tiers: Arc<dyn HotTierStore>,
    /// The database as a whole.
    pub database: Arc<dyn DatabaseStore>,
    /// The parts of layers.
    pub layers: Arc<Layers>,
}

impl Cold {
    /// A database that has all parts in one, but those of layers.
    pub fn of<D>(database: &Arc<D>) -> Self
    where
        D: RowStore
            + RangeStore
            + LandStore
            + SweepStore
            + EventStore
            + SinkStore
            + HookStore
            + PartitionStore
            + HotTierStore
            + DatabaseStore
            + 'static,
    {
        Self {
            rows: Arc::clone(database) as _,
            ranges: Arc::clone(database) as _,
            landing: Arc::clone(database) as _,
            sweep: Arc::clone(database) as _,
            events: Arc::clone(database) as _,
            sinks: Arc::clone(database) as _,
            hooks: Arc::clone(database) as _,
            partitions: Arc::clone(database) as _,
            hot_tiers: Arc::clone(database) as _,
            database: Arc::clone(database) as _,
            layers: Arc::default(),
        }
    }
}

/// Versioned rows, one for each field of each owner.
///
/// # Cancel safety
/// As [`Cold`].
#[async_trait]
pub trait RowStore: fmt::Debug + Send + Sync {
    /// All rows of each owner, including tombstones and purged fields, in the owners' order. One
    /// statement reads up to 512 owners of one logic type.
    ///
    /// Each owner is read at one moment. Owners of different statements can be read at different
    /// moments. An owner with more than `rows_max` rows comes back empty and not `complete`. An
    /// owner with a row that no version of this program writes fails the whole call as
    /// `Unreadable`. In a call of its own it fails no other owner.
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError>;

    /// The rows of the named fields of one owner. Fields without a row are left out.
    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError>;

    /// The newest row of one owner, including tombstones and purged fields. Its version is the
    /// owner's. Of several equally new rows the first by field counts. `None` if the owner has no
    /// row.
    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError>;

    /// Up to `limit` owners of a world and logic type with at least one live row, in key order,
    /// after `after`.
    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError>;

    /// Up to `limit` owners of all worlds with at least one live row, in key order, after `after`.
    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError>;
}

/// The landing of rows, with the events of the feed that tell of them.
///
/// # Cancel safety
/// As [`Cold`]. A dropped [`LandStore::land`] may have committed or not. Repeating it is harmless.
#[async_trait]
pub trait LandStore: fmt::Debug + Send + Sync {
    /// Writes the rows that are newer than the database's, all in one transaction. It commits only
    /// if every fence matches, on the database that the fence names. No client ever observes a
    /// row's version fall, or a part of a batch. An older or equal row is ignored.
    ///
    /// `Refused` also stands for rows whose statement is cut by the connection or the time limit
    /// while a trivial row succeeds. For rows of several owners one cut is enough. For rows of one
    /// owner it takes three cuts (H38).
    ///
    /// Fences are taken first, by ascending partition, then rows in key order. So overlapping calls
    /// do not deadlock. Events are added and leads are kept between the two. The engine splits rows into
    /// statements by count and by bytes.
    async fn land(&self, batch: &Batch) -> Result<(), LandError>;

    /// The most bytes of a value: the limit of the column, and half of the limit of one packet.
    fn value_bytes_max(&self) -> usize;
}

/// One record for each partition, with its epoch.
///
/// # Cancel safety
/// As [`Cold`]. A dropped [`PartitionStore::raise`] may have committed or not. Repeating it is harmless.
#[async_trait]
pub trait PartitionStore: fmt::Debug + Send + Sync {
    /// The records of these partitions, in the requested order. A partition without a record has
    /// epoch 0 and version 0.
    async fn partitions(&self, partitions: &[Partition])
    -> Result<Vec<PartitionRecord>, ColdError>;

    /// Raises the epoch of each partition above the given ones, and gives the partition to a hot
    /// tier, if the record is still the seen one. This is one transaction, which waits for landings
    /// under way. The hot tier was [introduced](HotTierStore::introduce) before.
    ///
    /// Returns all records after it, in the given order. Each tells whether this call raised it. A
    /// record that has moved is returned as it is. Afterwards no landing transaction of an earlier
    /// epoch commits.
    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError>;
}

/// The database as a whole: the hot tier that it belongs to, its promises, its copies and its end.
///
/// # Cancel safety
/// As [`Cold`].
#[async_trait]
pub trait DatabaseStore: fmt::Debug + Send + Sync {
    /// The hot tier that the database belongs to. Only reads, and needs no tables.
    async fn pairing(&self) -> Result<ColdPairing, ColdError>;

    /// Makes a hot tier the current one, and returns whether it did. Identity, partition count and
    /// layout must be those of `pair` or not stored yet, and the seen hot tier must still be the
    /// current one. Creates missing tables.
    ///
    /// In the same transaction the epoch of every partition rises, and each belongs to that hot tier.
    /// So no landing of the earlier hot tier commits from then on.
    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError>;

    /// Why this database may forget its commits when it crashes, with the name of its setting.
    /// `None` if a commit survives a crash.
    async fn forgets(&self) -> Result<Option<String>, ColdError>;

    /// Copies the database to a new file, as it is at one moment of the call. Others read and write
    /// meanwhile. The file has its name only once it is whole and on the disk, and nothing is
    /// overwritten. The copy has no identity, so its next hot tier gives it another. Only SQLite has
    /// this.
    ///
    /// A dropped call ends the copy and leaves no file under the name.
    async fn backup(&self, to: &Path) -> Result<(), ColdError>;

    /// Closes all connections, after the running statements.
    async fn close(&self);
}

/// The hot tiers that land here, by their incarnations. [`PartitionStore::raise`] gives them partitions.
///
/// # Cancel safety
/// As [`Cold`]. Repeating a call is harmless.
#[async_trait]
pub trait HotTierStore: fmt::Debug + Send + Sync {
    /// Stores a hot tier that is about to take partitions, or its present address. It is used now.
    /// Forgets hot tiers that have no partition and were not used for a day.
    async fn introduce(&self, hot: HotId, address: &str) -> Result<(), ColdError>;

    /// The hot tiers, the latest first.
    async fn hot_tiers(&self) -> Result<Vec<HotTier>, ColdError>;

    /// Stores that these hot tiers are used now, by the database's clock. A call within a second of
    /// another one changes nothing. An unknown hot tier is passed over.
    async fn touch(&self, hot: &[HotId]) -> Result<(), ColdError>;
}

/// The feeds of partitions: landed events in their order. [`LandStore::land`] adds them.
///
/// # Cancel safety
/// As [`Cold`].
#[async_trait]
pub trait EventStore: fmt::Debug + Send + Sync {
    /// How far the feeds of these partitions reach, in the requested order.
    async fn feeds(&self, partitions: &[Partition]) -> Result<Vec<FeedEnds>, ColdError>;

    /// Up to `limit` events of a partition after a position, in their order. No later call finds
    /// another event before the last of them.
    async fn events(
        &self,
        partition: Partition,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Event>, ColdError>;

    /// The leads of a partition from before an epoch. Some may have ended: their place is not beyond
    /// the end of the feed.
    async fn leads(&self, partition: Partition, before: Epoch) -> Result<Vec<Lead>, ColdError>;

    /// Drops up to `limit` of the oldest events of a partition that landed longer ago than this, by
    /// the database's clock. Returns how many.
    async fn drop_events(
        &self,
        partition: Partition,
        older_than: Duration,
        limit: usize,
    ) -> Result<usize, ColdError>;
}

/// The hooks of layers: rows that follow from landed rows, in the same transaction.
///
/// # Cancel safety
/// As [`Cold`]. A dropped [`HookStore::define`] may have committed or not. A repeat counts one
/// more change, which is harmless.
#[async_trait]
pub trait HookStore: fmt::Debug + Send + Sync {
    /// The hooks that the database names, in the order of their names.
    async fn hooks(&self) -> Result<Vec<Hook>, ColdError>;

    /// Counts a change of a hook's definitions, and says whether landings need the hook from now on.
    /// It is one transaction, which waits for landings under way.
    ///
    /// Afterwards no landing commits that knows only earlier definitions, and none at all by a
    /// program that lacks a needed hook. Layers count their own changes, so this is for an operator
    /// who switches a layer off. The name has 1 to 64 bytes.
    async fn define(&self, name: &str, is_needed: bool) -> Result<(), ColdError>;
}

/// The rows of purged fields, which nobody needs after a while.
///
/// # Cancel safety
/// As [`Cold`]. A dropped [`SweepStore::sweep`] may have deleted the rows or not.
#[async_trait]
pub trait SweepStore: fmt::Debug + Send + Sync {
    /// Looks at up to `limit` rows of the table after a key, in key order. Returns those that are
    /// purged and whose last change is older than this, by the database's clock. A row that no
    /// version of this program writes is left out.
    async fn purged(
        &self,
        after: Option<&RowKey>,
        older_than: Duration,
        limit: usize,
    ) -> Result<PurgedPage, ColdError>;

    /// Deletes those of these rows that are purged, and whose last change is older than this, in one
    /// transaction, if the fence matches. All rows are of the fence's partition. Returns how many it
    /// deleted, or `None` if the fence does not match.
    async fn sweep(
        &self,
        fence: &Fence,
        rows: &[(Owner, Field)],
        older_than: Duration,
    ) -> Result<Option<u64>, ColdError>;
}

/// The sinks of the feed: how far each has got in each partition, and the events that it refused.
///
/// # Cancel safety
/// As [`Cold`]. Repeating a call is harmless.
#[async_trait]
pub trait SinkStore: fmt::Debug + Send + Sync {
    /// How far a sink has got in these partitions, in the requested order. [`Position::ZERO`] in a
    /// partition from which it has taken nothing.
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError>;

    /// Stores how far a sink has got in a partition. No client ever observes that a position moves
    /// back. A call with an earlier position changes nothing.
    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError>;

    /// Stores that a sink has refused an event, and why. A longer reason than 1,000 bytes is cut.
    /// Of two reasons the later one stays.
    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError>;

    /// Up to `limit` events that a sink has refused, after this one, by partition and position.
    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError>;

    /// How many events a sink has refused.
    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError>;

    /// Forgets that a sink has refused an event.
    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError>;
}
