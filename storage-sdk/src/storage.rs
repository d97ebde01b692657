//! The storage, the entry point of a game server.

use std::sync::Arc;
use std::time::Duration;

use storage_config::Settings;
use storage_landing::{Backlog, LandingWorker};
use storage_model::{Cursor, Ids, Limits, OpId, Owner, Partition, Scope};
#[cfg(feature = "engines")]
use storage_tiers::Tiers;
use tokio::time::{Instant, timeout_at};

use crate::builder::StorageBuilder;
use crate::core::{Core, Shared};
use crate::feed::{Changes, Live, Position, Unlanded};
use crate::owners::OwnerPages;
use crate::{Closed, Result, World, unheard};

/// An open storage. It holds the connections to both tiers, and in embedded mode the landing task.
/// Cheap to clone. A process needs one.
///
/// A storage works from any tokio runtime, and from several at a time. It also works after the
/// runtime that opened it has ended. Its background tasks and the connections to the database
/// have a thread of their own. This thread ends with the last handle: a storage, a world or an owner. A
/// connection to Redis ends with the runtime that opened it, and the next call opens another one.
///
/// ```
/// # storage_doc::run(async || {
/// use storage_sdk::{Settings, Storage};
///
/// let storage = Storage::open(Settings::in_memory()).await?; // or `Settings::load("storage.toml")?`
/// let players = storage.world("mygame", "eu-1")?.bytes();
/// let handler = tokio::spawn(async move { players.owner("player", 42_u64)?.incr("logins", 1).await });
/// assert_eq!(handler.await??.value(), 1);
/// storage.close(std::time::Duration::from_secs(10)).await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct Storage {
    pub(crate) core: Shared,
}

/// The state of a storage, as this process sees it.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
/// ann.update([("level", "7")]).await?;
/// ann.get(["level"]).await?;
/// let stats = storage.stats().await?;
/// assert_eq!((stats.hot_hits, stats.hot_misses), (1, 0));
/// assert_eq!((stats.error_marks, stats.backpressure_percent), (0, 0)); // else an operator should look
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Owners with changes that wait to be landed, of all processes. An owner that is written all
    /// the time counts even if it has just landed.
    pub marks: u64,
    /// The age of the oldest of these changes.
    pub oldest_unlanded: Option<Duration>,
    /// Owners with rows that the database rejected, of all processes.
    pub error_marks: u64,
    /// Owners with landed changes on probation, of all processes.
    pub probation_marks: u64,
    /// The back-pressure of all waiting changes against the watermarks of the settings, as this process
    /// last saw it. 0 is below the watermarks. From 1 to 99, the SDK delays writes, longer at a
    /// higher value. At 100, writes fail.
    pub backpressure_percent: u32,
    /// Reads of this process that the hot tier answered alone.
    pub hot_hits: u64,
    /// Reads of this process that had to load the owner.
    pub hot_misses: u64,
    /// Owners that this process loaded from the database. Several misses can share one load.
    pub hot_loads: u64,
    /// Landing transactions that the fence rejected. Counted only in embedded mode, where this
    /// process lands.
    pub fence_mismatches: u64,
    /// Rows landed. Only in embedded mode.
    pub rows_landed: u64,
    /// Marks cleared. Only in embedded mode.
    pub marks_landed: u64,
    /// Sessions that this process holds or is opening.
    pub sessions: u64,
    /// Sessions that this process lost.
    pub sessions_lost: u64,
    /// Sessions whose handle was dropped without an end.
    pub sessions_dropped: u64,
    /// Restarts of background tasks after a panic, which is a defect of this program. The tasks are
    /// maintenance, back-pressure, pairing, hot-loading and sessions, and in embedded mode landing.
    /// The log names the task.
    pub background_restarts: u64,
    /// Whether another hot tier took partitions from this one. Then writes fail as `Unpaired`.
    pub replaced: bool,
}

/// A wait that the clock can still represent.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// The time for an orderly close of the database connections, once the deadline has passed.
const GOODBYE: Duration = Duration::from_secs(1);

/// The result of a close, with all sessions, writes and changes that are left.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?.incr("gold", 5).await?;
/// let report = storage.close(std::time::Duration::from_secs(10)).await;
/// for owner in &report.sessions.unsaved {
///     eprintln!("the last edits of {owner} are not saved");
/// }
/// assert_eq!(report.left(), 0); // else the program ends with an error
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// The result of ending the open sessions.
    pub sessions: Closed,
    /// Writes that were still under way at the deadline. Their outcome is unknown.
    pub under_way: u64,
    /// The last 1,000 writes with an unknown outcome. The SDK gave these writes up while their
    /// answer was lost, or the caller gave a write an id and dropped it under way. A write with an
    /// id of the caller can be retried under the same [`id`](crate::Write::id).
    pub unknown: Vec<(Owner, Option<OpId>)>,
    /// Owners with unlanded changes, which are lost with the process. Counted only in embedded
    /// mode. Elsewhere this is `None`: the changes stay in Redis, and workers land them.
    pub unlanded: Option<u64>,
    /// Owners with rows that the database rejected, which are lost with the process. Counted only
    /// in embedded mode, like `unlanded`.
    pub errors: Option<u64>,
}

impl CloseReport {
    /// How many sessions, writes and owners are left: owners with unsaved edits, writes under way, and in
    /// embedded mode owners with changes that are lost with the process. 0 if nothing can be lost.
    ///
    /// Without the embedded mode, Redis keeps the changes, and nothing of them counts here.
    #[must_use]
    pub fn left(&self) -> u64 {
        let unsaved = u64::try_from(self.sessions.unsaved.len()).unwrap_or(u64::MAX);
        [
            unsaved,
            self.under_way,
            self.unlanded.unwrap_or_default(),
            self.errors.unwrap_or_default(),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

impl Storage {
    /// Opens both tiers of the settings, checks that they belong together, and creates the schema
    /// in an empty database.
    ///
    /// A storage on Redis does not work on a paused tokio clock, such as with
    /// `#[tokio::test(start_paused = true)]`, because its timeouts pass at once.
    /// [`Storage::embedded`] works there.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use storage_sdk::{Settings, Storage};
    ///
    /// let storage = Storage::open(Settings::load("storage.toml")?).await?;
    /// let world = storage.world("mygame", "eu-1")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - A tier is unreachable or rejects the login.
    /// - The settings are invalid.
    /// - The tiers do not belong together, or the partition count differs from the stored one.
    /// - The hot tier may evict unlanded data.
    /// - The schema is newer or older than this program.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing open.
    pub async fn open(settings: Settings) -> Result<Self> {
        StorageBuilder::new(settings).open().await
    }

    /// Opens the embedded mode. The hot tier is the memory of this process, the cold tier is a
    /// SQLite file, and a task lands.
    ///
    /// Landed data survives the process. Unlanded data is lost if the process is killed. A close lands
    /// everything and reports the rest. If nobody closes the storage, the drop of its last handle lands
    /// everything, waits 5 s at most, and logs an error if something is lost.
    ///
    /// A second program on the same file is refused while the first one lives. See
    /// [`StorageBuilder::take_over`](crate::StorageBuilder::take_over) and
    /// [`Storage::backup`](crate::Storage::backup).
    ///
    /// Tests of game logic can pause tokio's clock. The storage's own timeouts, landing and close
    /// still follow the wall clock. A caller's `tokio::time::timeout` around a call that waits for
    /// the file passes at once, because a paused clock leaps to the next timer whenever every task
    /// of its runtime waits. Reads and writes of hot owners do not wait.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use std::time::Duration;
    /// let storage = storage_sdk::Storage::embedded("game.db").await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("name", "Ann"), ("gold", "10")]).await?;
    /// assert_eq!(ann.incr("gold", 5).await?.value(), 15);
    /// assert_eq!(ann.get(["name"]).await?["name"].as_deref(), Some(&b"Ann"[..]));
    /// assert_eq!(storage.close(Duration::from_secs(10)).await.unlanded, Some(0));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The file can't be opened, or is not a database of this program. `Denied`: another program has
    /// it open.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing open.
    pub async fn embedded(path: impl AsRef<std::path::Path>) -> Result<Self> {
        StorageBuilder::new(Settings::embedded(path.as_ref()))
            .open()
            .await
    }

    /// Opens the embedded mode without a file. Nothing outlives the process, so it is for tests and
    /// examples. Two storages in memory share nothing.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use storage_sdk::Storage;
    ///
    /// let storage = Storage::in_memory().await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// assert_eq!(ann.incr("gold", 5).await?.value(), 5);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The system allows no thread.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing open.
    pub async fn in_memory() -> Result<Self> {
        StorageBuilder::new(Settings::in_memory()).open().await
    }

    /// A builder that replaces parts of the settings: clock, ids and engines.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use storage_sdk::{Settings, Storage};
    ///
    /// let mut settings = Settings::in_memory();
    /// settings.limits.fields_max = 100;
    /// let storage = Storage::builder(settings).open().await?;
    /// assert_eq!(storage.limits().fields_max, 100);
    /// # Ok(()) });
    /// ```
    pub fn builder(settings: Settings) -> StorageBuilder {
        StorageBuilder::new(settings)
    }

    /// A world: the owners of one app and region.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::Kind;
    /// let europe = storage.world("mygame", "eu-1")?;
    /// assert_eq!(europe.scope().region(), "eu-1");
    /// assert_eq!(storage.world("mygame", "").unwrap_err().kind(), Kind::Invalid);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// A name is empty, longer than 64 bytes, or holds a control character.
    pub fn world(&self, app: &str, region: &str) -> Result<World> {
        Ok(World::new(&self.core, Scope::new(app, region)?))
    }

    /// Lists all owners of all worlds. See [`ByteStorage::owners`](crate::ByteStorage::owners).
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// for region in ["eu-1", "us-1"] {
    ///     storage.world("mygame", region)?.bytes().owner("player", 42_u64)?.incr("gold", 5).await?;
    /// }
    /// let (mut pages, mut count) = (storage.owners().await?, 0);
    /// while let Some(page) = pages.next().await? {
    ///     count += page.len();
    /// }
    /// assert_eq!(count, 2);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn owners(&self) -> Result<OwnerPages> {
        OwnerPages::open(&self.core, None).await
    }

    /// Reads landed changes behind a cursor, each once and in the order of its partition. See
    /// [`feed`](crate::feed).
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).note("won a duel").await?;
    ///
    /// let stored = ""; // the cursor of the last run, empty in the first one
    /// let cursor = if stored.is_empty() { Cursor::default() } else { stored.parse()? };
    /// assert_eq!(storage.changes(cursor).next().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn changes(&self, cursor: Cursor) -> Changes {
        Changes::new(&self.core, cursor)
    }

    /// The present end of the feed. A reader that begins here gets the changes that land from now
    /// on.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Cursor;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.incr("gold", 5).note("before").await?;
    /// storage.changes(Cursor::default()).next().await?; // it has landed
    ///
    /// let mut changes = storage.changes(storage.feed_end().await?);
    /// let ack = ann.incr("gold", 5).note("after").await?;
    /// assert_eq!(Some(changes.next().await?[0].position), ack.ack().position());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `ColdUnavailable`: the database is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn feed_end(&self) -> Result<Cursor> {
        let tiers = &self.core.tiers;
        let all: Vec<Partition> = (0..tiers.hot().partitions.partition_count())
            .map(Partition)
            .collect();
        let read = async { Ok(tiers.cold().events.feeds(&all).await?) };
        let mut cursor = Cursor::default();
        let pairing = async { Ok(tiers.cold().database.pairing().await?) };
        if let Some(identity) = self.core.while_open(pairing).await?.identity {
            cursor.belong_to(identity);
        }
        for ends in self.core.while_open(read).await? {
            cursor.move_to(ends.partition, ends.last);
        }
        Ok(cursor)
    }

    /// Reads notes of these partitions at once, before they land, from now on. See
    /// [`feed`](crate::feed). The partition of an owner is
    /// [`ByteOwner::partition`](crate::ByteOwner::partition).
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::LiveEvent;
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let mut live = storage.live([room.partition()]).await?;
    /// let ack = room.update([("topic", "raid at nine")]).note("topic").await?;
    /// let LiveEvent::Event(event) = &live.next().await?[0] else { panic!("nothing is lost") };
    /// assert_eq!(Some(event.position), ack.position());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `HotUnavailable`: the hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn live(&self, partitions: impl IntoIterator<Item = Partition>) -> Result<Live> {
        Live::open(&self.core, partitions).await
    }

    /// Reads a page of the notes of a partition behind a position that have not landed:
    /// [`Position::ZERO`] for the first page. A reader of both tiers reads these notes first, and
    /// then the database, because a note that has landed is no longer among them.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_sdk::feed::Position;
    /// let room = storage.world("mygame", "eu-1")?.bytes().owner("room", 7_u64)?;
    /// let ack = room.update([("topic", "raid at nine")]).note("topic").await?;
    /// let page = storage.unlanded(room.partition(), Position::ZERO).await?; // empty once the note has landed
    /// assert_eq!((Some(page.last), page.more), (ack.position(), false));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Storage::live`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn unlanded(&self, partition: Partition, after: Position) -> Result<Unlanded> {
        Unlanded::read(&self.core, partition, after).await
    }

    /// The limits of one call: those of the settings, and no larger values than the database takes.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.core.limits
    }

    /// Both tiers, for calls that the SDK does not offer. See [`engines`](crate::engines).
    #[cfg(feature = "engines")]
    #[must_use]
    pub fn tiers(&self) -> &Tiers {
        &self.core.tiers
    }

    /// A new operation id, for [`Write::id`](crate::Write::id).
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let order = storage.next_id(); // the game keeps it with the order of the player
    /// ann.incr("gems", 500).id(order).await?;
    /// ann.incr("gems", 500).id(order).await?; // the shop tells of the order again
    /// assert_eq!(ann.get(["gems"]).await?.int("gems")?, Some(500));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn next_id(&self) -> OpId {
        self.core.ids.next()
    }

    /// The landing task of the embedded mode.
    pub(crate) fn worker(&self) -> Option<&LandingWorker> {
        self.core.background.worker()
    }

    /// Reads the state of the storage. One round trip to each server of the hot tier. Reads no
    /// marks.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("level", "7")]).await?;
    /// ann.flush(std::time::Duration::from_secs(10)).await?;
    /// assert_eq!(storage.stats().await?.error_marks, 0); // the database takes all rows
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn stats(&self) -> Result<Stats> {
        let backlog = self
            .core
            .while_open(async { Ok(Backlog::read(self.core.tiers.hot()).await?) })
            .await?;
        Ok(self.stats_of(&backlog))
    }

    /// The state of the storage, with the backlog that was read.
    pub(crate) fn stats_of(&self, backlog: &Backlog) -> Stats {
        use std::sync::atomic::Ordering::Relaxed;
        let landing = self.worker().map(LandingWorker::counts).unwrap_or_default();
        let loads = self.core.tiers.load_counts();
        let [sessions, sessions_lost, sessions_dropped] = self.core.holder.counts();
        Stats {
            sessions,
            sessions_lost,
            sessions_dropped,
            marks: backlog.marks(),
            oldest_unlanded: backlog.oldest(),
            error_marks: backlog.errors(),
            probation_marks: backlog.probation(),
            backpressure_percent: self.core.backpressure.percent(),
            hot_hits: self.core.hits.load(Relaxed),
            hot_misses: self.core.misses.load(Relaxed),
            hot_loads: loads.owners,
            fence_mismatches: landing.fenced,
            rows_landed: landing.rows,
            marks_landed: landing.marks,
            replaced: self.core.tiers.is_replaced(),
            background_restarts: self.core.background.restarts().saturating_add(loads.panics),
        }
    }

    /// Closes the storage and all of its clones. Further calls fail as `Closed`.
    ///
    /// The call ends all sessions with a last save, and waits for the writes under way. In embedded
    /// mode it then lands everything. It returns after `deadline` at the latest, or one second
    /// later if a tier hangs. The report lists everything that is left.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use std::time::Duration;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("level", "7")]).await?;
    /// let report = storage.close(Duration::from_secs(10)).await;
    /// assert_eq!((report.left(), report.unlanded), (0, Some(0)));
    /// assert_eq!(ann.exists().await.unwrap_err().kind(), storage_sdk::Kind::Closed);
    /// # Ok(()) });
    /// ```
    ///
    /// # Cancel safety
    /// After a dropped call, the storage stays closed to further calls. Call it again to finish.
    pub async fn close(&self, deadline: Duration) -> CloseReport {
        self.core.let_sessions_save(true);
        self.core.refuse_writes();
        let core = Arc::clone(&self.core);
        // At home, where time follows the wall clock.
        let closed = self
            .core
            .tiers
            .home()
            .run(async move {
                let report = core.end(deadline).await;
                core.closed();
                report
            })
            .await;
        closed.unwrap_or_default()
    }
}

impl Core {
    /// Ends the sessions and the writes under way, lands everything in embedded mode, and closes the
    /// connections.
    pub(crate) async fn end(&self, within: Duration) -> CloseReport {
        let until = after(within);
        let sessions = self.end_sessions(until).await;
        self.let_sessions_save(false);
        let (under_way, unknown) = self.close(until).await;
        let hot = self.tiers.hot();
        let lands = self.background.worker().is_some();
        if let Some(worker) = self.background.worker() {
            worker.hurry();
            let _ = storage_landing::drained(hot, until, |_| {}).await;
        }
        let backlog = if lands {
            Backlog::read(hot).await.ok()
        } else {
            None
        };
        // A short life may end before the next look at the refusal.
        if self.tiers.refusal().is_some() {
            unheard::warn_once();
        }
        self.background.stop(until).await;
        let goodbyes = until.max(Instant::now() + GOODBYE);
        // A connection that still runs a statement at that time is dropped.
        let _ = timeout_at(goodbyes, self.tiers.cold().database.close()).await;
        CloseReport {
            sessions,
            under_way,
            unknown,
            unlanded: backlog.as_ref().map(Backlog::marks),
            errors: backlog.as_ref().map(Backlog::errors),
        }
    }
}

/// The end of a time from now on.
pub(crate) fn after(deadline: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(deadline).unwrap_or(now + FOREVER)
}

/// Gives ids that were never given before.
pub(crate) fn random_ids() -> Arc<dyn Ids> {
    Arc::new(storage_model::RandomIds)
}
