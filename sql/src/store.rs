//! The contract of the cold tier.

use std::fmt;

use async_trait::async_trait;
use storage_model::{Field, Owner, Partition, Row, Scope};

use crate::{
    Batch, ColdError, ColdPairing, LandError, Loaded, Pair, PartitionRecord, Raise, Raised,
};

/// Versioned rows, one for each field of each owner, and one record for each partition.
///
/// Two engines implement it, MySQL (with MariaDB) and SQLite; one conformance suite runs over both.
///
/// # Cancel safety
/// Every method may be dropped at any await: a connection whose statement was cut is thrown away,
/// never reused. A dropped [`ColdStore::land`] or [`ColdStore::raise`] may or may not have
/// committed; repeating either is harmless.
#[async_trait]
pub trait ColdStore: Send + Sync + fmt::Debug {
    /// All rows of each owner, tombstones and purged fields included, in the owners' order; one
    /// statement for up to 512 owners of one logic type. Each owner is seen as it was at one
    /// moment; owners of different statements maybe at different ones. An owner with more than
    /// `rows_max` rows comes back empty and not `complete`. One with a row that no version of this
    /// program wrote fails the whole call as `Unreadable`; asked for alone, it fails no other.
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError>;

    /// The rows of the named fields of one owner; fields without a row are left out.
    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError>;

    /// The newest row of one owner, tombstones and purged fields included: its version is the
    /// owner's. Of several equally new rows the first by field; none if the owner has no row.
    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError>;

    /// Writes the rows that are newer than what the database holds, all in one transaction that
    /// commits only if every fence matches, on the database that it names. No client ever observes
    /// a row's version fall, or a part of a batch. An older or equal row is ignored.
    ///
    /// `Refused` stands also for rows whose statement the connection or the limit of time cuts
    /// while a trivial row is taken: rows of several owners when that has happened once, one
    /// owner's when it has happened three times (H38).
    ///
    /// Fences are taken first, by ascending partition, then rows in key order; so overlapping calls
    /// do not deadlock. The engine splits rows into statements by count and by bytes.
    async fn land(&self, batch: &Batch) -> Result<(), LandError>;

    /// Up to `limit` owners of a world and logic type that have at least one live row, in key
    /// order, beginning after `after`.
    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError>;

    /// Up to `limit` owners of all worlds that have at least one live row, in key order, beginning
    /// after `after`.
    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError>;

    /// The records of these partitions, in the order asked. A partition without a record has epoch
    /// 0 and version 0.
    async fn partitions(&self, partitions: &[Partition])
    -> Result<Vec<PartitionRecord>, ColdError>;

    /// Raises the epoch of each partition above those given, if it still is the one seen, in one
    /// transaction that waits for landings under way; returns all records as they are after it, in
    /// the order given, with whether this call raised them. A record that moved meanwhile is
    /// returned as it is. After it no landing transaction of an earlier epoch commits.
    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError>;

    /// Why this database may forget what it committed when it crashes, naming its setting; none if
    /// a commit survives that.
    async fn forgets(&self) -> Result<Option<String>, ColdError>;

    /// Which hot tier the database belongs to. Only reads, and needs no tables.
    async fn pairing(&self) -> Result<ColdPairing, ColdError>;

    /// Makes a hot tier the current one, if identity, partition count and layout are those of
    /// `pair` or not stored yet, and the hot tier before it is still the one seen. Answers whether
    /// it did. Makes the tables where there are none. In the same transaction the epoch of every
    /// partition rises, so that no landing of the hot tier before it commits from then on.
    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError>;

    /// The most bytes a value may have here: what the column holds and half of what one packet
    /// takes.
    fn value_bytes_max(&self) -> usize;

    /// Closes all connections, after the statements under way.
    async fn close(&self);
}
