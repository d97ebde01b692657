//! The door for layers: what a layer above the storage needs and a game does not.
//!
//! A layer reads landed data as it lies in the database, without its hot tier: rows by ranges of ids, ends
//! of the feed, and its events. [`ColdTier`] is the way to all of that. Fresh data comes by the ordinary
//! handles.
//!
//! | need | item |
//! | --- | --- |
//! | the database alone, for a service that only reads | [`ColdTier::open`] |
//! | the database alone, for a program that also writes the tables of layers | [`ColdTier::open_for_layers`] |
//! | rows of one logic type between two ids | [`ColdTier::rows`], [`RowRange`] |
//! | fields of an owner as landed, and all rows of owners | [`ColdTier::fields`], [`ColdTier::owners`] |
//! | how far the feed of a partition reaches, and its events | [`ColdTier::ends`], [`ColdTier::events`] |
//! | following the events of chosen partitions | [`Changes::of`](crate::feed::Changes::of), and without the hot tier [`Follower`] |
//! | waiting until a place of the feed has landed | [`ColdTier::has_landed`], [`ColdTier::until_landed`] |
//! | notes that have not landed | [`Storage::unlanded`] |
//! | the number of partitions | [`ColdTier::partitions`] |
//! | a change of the definitions of a hook | [`ColdTier::define`] |
//! | the statements of a layer of this release | [`ColdTier::layers`] |
//! | plans of services that answer from shards, and claims of their shards | [`claims`] |
//! | figures of a layer on the page of metrics | [`Storage::metrics_with`], [`Measure`] |

mod follower;

use std::sync::Arc;
use std::time::Duration;

use storage_model::{Cursor, Event, Field, Owner, Partition, Position};
use storage_sql::{Cold, ColdPairing, Loaded, Opening};
use tokio::time::{Instant, sleep};

use crate::builder::threadless;
use crate::core::Shared;
use crate::{Error, Home, Kind, Result, Settings, Storage};

pub use follower::{Follower, FollowerStep};
pub use storage_dirty::{HotError, HotKind};
pub use storage_metrics::{Measure, Page};
pub use storage_model::{Cell, OWNERS_MAX, Row};
pub use storage_sql::claims;
#[cfg(feature = "toy")]
pub use storage_sql::toy;
pub use storage_sql::{ColdError, ColdKind, FeedEnds, Layers, RowRange};

/// How often the database is asked while somebody waits for a place of the feed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The database of a storage, as a layer reads it. Cheap to clone.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use std::time::Duration;
/// use storage_sdk::layer::{ColdTier, RowRange};
/// use storage_sdk::{Durability, Field};
///
/// let world = storage.world("mygame", "eu-1")?;
/// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
/// for id in ["ann", "bo", "cy"] {
///     let hero = world.bytes().owner("hero", id)?;
///     hero.update([("level", "7"), ("name", id)]).durability(landed).await?;
/// }
/// let range = RowRange::new(world.scope().clone(), "hero", vec![Field::new("name")?])
///     .between("b", "d")
///     .backwards()
///     .limit(10);
/// let rows = ColdTier::of(&storage).rows(&range).await?;
/// assert_eq!(rows.iter().map(|row| row.owner.id()).collect::<Vec<_>>(), ["cy", "bo"]);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct ColdTier(Source);

#[derive(Debug, Clone)]
enum Source {
    Storage(Shared),
    Alone(Arc<LoneDatabase>),
}

/// A database without its hot tier.
#[derive(Debug)]
struct LoneDatabase {
    // ORDER: before the runtime, in which its connections end.
    cold: Cold,
    /// As it was when the database was opened.
    pairing: ColdPairing,
    home: Home,
}

impl LoneDatabase {
    async fn open(opening: Opening) -> Result<Self> {
        let home = Home::own().map_err(threadless)?;
        let cold = opening.at(home.handle()).open().await?;
        let pairing = cold.database.pairing().await?;
        Ok(Self {
            cold,
            pairing,
            home,
        })
    }

    /// The number of partitions of its hot tier.
    fn partitions(&self) -> Result<u32> {
        self.pairing.partitions.ok_or_else(|| {
            let message = format!(
                "the database {} belongs to no hot tier yet: start a worker or a game server first",
                self.pairing.address
            );
            Error::new(Kind::Unpaired, message)
        })
    }
}

impl ColdTier {
    /// The database of a storage.
    #[must_use]
    pub fn of(storage: &Storage) -> Self {
        Self(Source::Storage(Arc::clone(&storage.core)))
    }

    /// The database of the settings alone, without its hot tier, for a service that only reads what has
    /// landed. It never writes, and the database is told so. Game servers and workers may run meanwhile,
    /// and an embedded game, too. Of the settings, those of `sql` count.
    /// Connections and time limits have a thread of their own, as those of a storage.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use storage_sdk::layer::ColdTier;
    /// use storage_sdk::{Field, Settings, Storage};
    ///
    /// let storage = Storage::embedded("game.db").await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("hero", "ann")?;
    /// ann.update([("level", "7")]).await?;
    /// storage.close(std::time::Duration::from_secs(10)).await;
    /// let cold = ColdTier::open(&Settings::embedded("game.db")).await?;
    /// let rows = cold.fields(ann.owner(), &[Field::new("level")?]).await?;
    /// assert_eq!(rows[0].cell.value(), b"7");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: the settings can't work, or the schema does not fit. `Denied`: an operator must act, or
    /// the file of the database is not there.
    /// `ColdUnavailable`: the database is away. `Unpaired`: no game server or worker has used it yet.
    ///
    /// # Cancel safety
    /// If the call is dropped, nothing is open.
    pub async fn open(settings: &Settings) -> Result<Self> {
        let alone = LoneDatabase::open(Opening::new(&settings.sql).for_reading()).await?;
        alone.partitions()?;
        Ok(Self(Source::Alone(Arc::new(alone))))
    }

    /// The database of the settings alone, without its hot tier, for a program that reads landed data and
    /// writes the tables of layers, such as [`claims`]. Everything else is as of [`ColdTier::open`].
    ///
    /// The tables must be there: `landing-worker migrate` makes them, and this never does. No game needs
    /// to have used them. Until one has, [`ColdTier::partitions`] is 0, and calls that name a partition fail
    /// as `Unpaired`. Open the database again afterwards.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// # storage_sdk::Storage::embedded("game.db").await?.close(std::time::Duration::from_secs(10)).await;
    /// use storage_sdk::layer::ColdTier;
    /// use storage_sdk::layer::claims::{DataCentre, Ranges, ServiceName};
    /// use storage_sdk::Settings;
    ///
    /// let cold = ColdTier::open_for_layers(&Settings::embedded("game.db")).await?;
    /// let claims = cold.layers().claims().ok_or("the database has no claims")?;
    /// let (service, dc) = (ServiceName::new("goals-2")?, DataCentre::new("a")?);
    /// assert_eq!(claims.add_plan(&service, &dc, &Ranges::even(6)?).await?, 1);
    /// assert_eq!(claims.list(&service, Some(&dc)).await?.len(), 6);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: the settings can't work, or the schema is not there or does not fit. `Denied`: an operator
    /// must act, or the file of the database is not there. `ColdUnavailable`: the database is away.
    ///
    /// # Cancel safety
    /// If the call is dropped, nothing is open.
    pub async fn open_for_layers(settings: &Settings) -> Result<Self> {
        let alone = LoneDatabase::open(Opening::new(&settings.sql).for_layers()).await?;
        Ok(Self(Source::Alone(Arc::new(alone))))
    }

    fn cold(&self) -> &Cold {
        match &self.0 {
            Source::Storage(core) => core.tiers.cold(),
            Source::Alone(alone) => &alone.cold,
        }
    }

    fn home(&self) -> &Home {
        match &self.0 {
            Source::Storage(core) => core.tiers.home(),
            Source::Alone(alone) => &alone.home,
        }
    }

    /// Carries out a call, unless the storage is closed.
    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.0 {
            Source::Storage(core) => core.while_open(call).await,
            Source::Alone(_) => call.await,
        }
    }

    /// The number of partitions: [`ByteOwner::partition`](crate::ByteOwner::partition) is below it. 0 if no
    /// game had used the database when it was [opened for layers](ColdTier::open_for_layers).
    #[must_use]
    pub fn partitions(&self) -> u32 {
        match &self.0 {
            Source::Storage(core) => core.tiers.hot().partitions.partition_count(),
            Source::Alone(alone) => alone.partitions().unwrap_or(0),
        }
    }

    fn check_partitions(&self, partitions: &[Partition]) -> Result<()> {
        let count = self.partitions();
        let Some(beyond) = partitions.iter().find(|partition| partition.0 >= count) else {
            return Ok(());
        };
        if let Source::Alone(alone) = &self.0 {
            alone.partitions()?;
        }
        let message = format!("partition {beyond} does not exist: there are {count}");
        Err(Error::new(Kind::Invalid, message))
    }

    /// The statements of layers, which stand in the package of all statements. They work as long as
    /// the storage is open. A layer writes in tasks of its own, because a caller that stands still
    /// in the middle of a statement keeps its connection.
    #[must_use]
    pub fn layers(&self) -> &Layers {
        &self.cold().layers
    }

    /// Rows of the owners between two ids, in the order of the ids or against it. Fields without a row
    /// are left out. If the range has several fields, the last owner of a full answer may have further
    /// rows: read on from its id, with a limit of more rows than there are fields.
    ///
    /// # Errors
    /// `ColdUnavailable`: the database is away. `Invalid`: the range has no field, or more than 512.
    /// `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn rows(&self, range: &RowRange) -> Result<Vec<Row>> {
        let cold = self.cold();
        let read = async { Ok(cold.ranges.between(range).await?) };
        self.call(read).await
    }

    /// Fields of an owner as they have landed, each as a row. Fields without a row are left out.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::layer::ColdTier;
    /// use storage_sdk::Field;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("level", "7")]).await?;
    /// ann.flush(std::time::Duration::from_secs(10)).await?;
    /// let rows = ColdTier::of(&storage).fields(ann.owner(), &[Field::new("level")?, Field::new("guild")?]).await?;
    /// assert_eq!((rows.len(), rows[0].cell.value()), (1, &b"7"[..])); // there is no guild
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>> {
        let cold = self.cold();
        let read = async { Ok(cold.rows.load_fields(owner, fields).await?) };
        self.call(read).await
    }

    /// All rows of owners as they have landed, each owner read at one moment, in the order of the owners.
    /// Removed fields have rows, too. `None`: the owner has more rows than the limit.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::layer::ColdTier;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("level", "7"), ("gold", "5")]).await?;
    /// ann.flush(std::time::Duration::from_secs(10)).await?;
    /// let cold = ColdTier::of(&storage);
    /// let rows = cold.owners(&[ann.owner().clone()], 100).await?;
    /// assert_eq!(rows[0].as_ref().map(Vec::len), Some(2));
    /// assert_eq!(cold.owners(&[ann.owner().clone()], 1).await?, [None]);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ColdTier::rows`]. `Corrupt`: an owner has a row that no version of this program writes. Then ask
    /// for each owner alone.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn owners(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Option<Vec<Row>>>> {
        let cold = self.cold();
        let read = async { Ok(cold.rows.load(owners, rows_max).await?) };
        let loaded = self.call(read).await?;
        let rows = |loaded: Loaded| loaded.complete.then_some(loaded.rows);
        Ok(loaded.into_iter().map(rows).collect())
    }

    /// How far the feeds of these partitions reach, in their order.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// use storage_sdk::layer::ColdTier;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let ack = ann.incr("gold", 5).note("won a duel").await?;
    /// storage.changes(Cursor::default()).next().await?; // the note has landed
    /// let ends = ColdTier::of(&storage).ends(&[ann.partition()]).await?;
    /// assert_eq!(Some(ends[0].last), ack.ack().position());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: there is no such partition. Otherwise as [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn ends(&self, partitions: &[Partition]) -> Result<Vec<FeedEnds>> {
        self.check_partitions(partitions)?;
        let cold = self.cold();
        let read = async { Ok(cold.events.feeds(partitions).await?) };
        self.call(read).await
    }

    /// Up to `limit` landed events of a partition behind a place, in their order. Events that were dropped
    /// for their age are left out: compare [`ColdTier::ends`].
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::{Cursor, Position};
    /// use storage_sdk::layer::ColdTier;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let ack = ann.incr("gold", 5).note("won a duel").await?;
    /// storage.changes(Cursor::default()).next().await?; // the note has landed
    /// let events = ColdTier::of(&storage).events(ann.partition(), Position::ZERO, 100).await?;
    /// assert_eq!(Some(events[0].position), ack.ack().position());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: there is no such partition. Otherwise as [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn events(
        &self,
        partition: Partition,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.check_partitions(&[partition])?;
        let cold = self.cold();
        let read = async { Ok(cold.events.events(partition, after, limit).await?) };
        self.call(read).await
    }

    /// Whether the feed has landed up to all places of a cursor. An empty cursor has no place, so that it
    /// has always landed. A write without a note has no place either: flush its owner.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// use storage_sdk::layer::ColdTier;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).note("won a duel").await?;
    /// let mut changes = storage.changes(Cursor::default());
    /// changes.next().await?; // the note has landed
    /// assert!(ColdTier::of(&storage).has_landed(changes.cursor()).await?);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn has_landed(&self, until: &Cursor) -> Result<bool> {
        let places: Vec<(Partition, Position)> = until.positions().collect();
        let partitions: Vec<Partition> = places.iter().map(|(partition, _)| *partition).collect();
        let ends = self.ends(&partitions).await?;
        // Numbers go on in later epochs. The end of a partition without a note has number 0.
        let mut pairs = places.iter().zip(&ends);
        Ok(pairs.all(|((_, place), ends)| ends.last.number >= place.number))
    }

    /// Waits until the feed has landed up to all places of a cursor; see [`ColdTier::has_landed`].
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use std::time::Duration;
    /// use storage_sdk::feed::Cursor;
    /// use storage_sdk::layer::ColdTier;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let ack = ann.incr("gold", 5).note("won a duel").await?;
    /// let mut until = Cursor::default();
    /// until.move_to(ann.partition(), ack.ack().position().expect("it has a note"));
    /// ColdTier::of(&storage).until_landed(&until, Duration::from_secs(10)).await?; // now a list shows it
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Timeout`: it has not within this time. Otherwise as [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn until_landed(&self, until: &Cursor, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        while !self.has_landed(until).await? {
            if Instant::now() >= end {
                let message = format!("the feed has not landed up to {until} within {within:?}");
                return Err(Error::new(Kind::Timeout, message));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Counts a change of a hook's definitions, and says whether landings need the hook from now on.
    ///
    /// Afterwards no landing commits that knows only earlier definitions, and none at all by a program
    /// that lacks a needed hook. The name has 1 to 64 bytes.
    ///
    /// Need only a hook that all programs of the release have. Otherwise nothing lands any more, by this
    /// process neither, and waiting data stays in the hot tier, which the embedded mode loses with the
    /// process. `landing-worker hooks --switch-off NAME` ends that, and so does `define(NAME, false)`.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::layer::ColdTier;
    /// let cold = ColdTier::of(&storage);
    /// cold.define("ranking", true).await?; // in the hook's own table, a definition has changed
    /// cold.define("ranking", false).await?; // nothing needs the hook any more
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: the name is empty or too long, or the database was opened for reading. `Denied`: no game has
    /// used it. Otherwise as [`ColdTier::rows`].
    ///
    /// # Cancel safety
    /// A dropped call may have committed or not. A repeat counts one more change, which is harmless.
    pub async fn define(&self, hook: &str, is_needed: bool) -> Result<()> {
        let (hooks, hook) = (Arc::clone(&self.cold().hooks), hook.to_owned());
        // A task does it. A caller that stands still would keep a transaction open, and SQLite has one writer.
        let define = async move { hooks.define(&hook, is_needed).await };
        let defined = self.home().run(define);
        self.call(async { Ok(defined.await.map_err(ended)??) })
            .await
    }
}

fn ended(ended: storage_tiers::home::Ended) -> Error {
    Error::new(Kind::Closed, ended.to_string())
}
