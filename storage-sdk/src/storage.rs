//! The storage: where a game server begins.

use std::sync::Arc;
use std::time::Duration;

use storage_config::Settings;
use storage_landing::{Backlog, LandingWorker};
use storage_model::{Ids, OpId, Owner, Scope};
use storage_tiers::Tiers;
use tokio::time::{Instant, timeout_at};

use crate::builder::StorageBuilder;
use crate::core::Core;
use crate::owners::OwnerPages;
use crate::{Closed, Result, World};

/// An open storage: connections to both tiers, and in embedded mode the landing task too. Cheap to
/// clone; a process needs one.
///
/// It may be used from any tokio runtime, also once the one that opened it has ended, and from
/// several at a time: what it does by itself, and all that it asks of the database, runs on a
/// thread of its own, which ends with the last handle (a storage, a world, an owner). A connection
/// to Redis ends with the runtime that it was opened in; the next call opens another.
#[derive(Debug, Clone)]
pub struct Storage {
    pub(crate) core: Arc<Core>,
}

/// What a storage is doing, as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Owners with changes that wait to be landed, of all processes; one that is written all the
    /// time counts also when it has just landed.
    pub marks: u64,
    /// The age of the oldest of them.
    pub oldest_unlanded: Option<Duration>,
    /// Owners of whom the database refused rows, of all processes.
    pub error_marks: u64,
    /// Owners with landed changes on probation, of all processes.
    pub probation_marks: u64,
    /// How near all that waits is to the watermarks of the settings, as this process saw it last.
    /// 0: below them. 1 to 99: writes are slowed down, the more the higher. 100: writes are
    /// refused.
    pub pressure_percent: u32,
    /// Reads of this process that the hot tier answered.
    pub hot_hits: u64,
    /// Reads of this process that had to load.
    pub hot_misses: u64,
    /// Owners that this process loaded from the database; several misses may share one.
    pub hot_loads: u64,
    /// Landing transactions that the fence refused. Only in embedded mode, where this process
    /// lands.
    pub fence_mismatches: u64,
    /// Rows landed. Only in embedded mode.
    pub rows_landed: u64,
    /// Marks cleared. Only in embedded mode.
    pub marks_landed: u64,
    /// Sessions that this process holds, or that are being opened.
    pub sessions: u64,
    /// Sessions that this process lost to others.
    pub sessions_lost: u64,
    /// Sessions whose handle was dropped without an end.
    pub sessions_dropped: u64,
    /// How often a part of the background work of this process panicked, which is a defect of this
    /// program, and was begun anew: maintenance, back-pressure, hot-loading, and in embedded mode
    /// landing. The log says where.
    pub background_restarts: u64,
}

/// A deadline beyond what the clock can tell.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// For how long connections to the database are closed in an orderly way when the deadline has
/// passed.
const GOODBYE: Duration = Duration::from_secs(1);

/// What was left when a storage closed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// What became of the sessions that were open.
    pub sessions: Closed,
    /// Writes that were still under way at the deadline; their outcome is unknown.
    pub under_way: u64,
    /// Writes that were given up while their answer was lost, or, under an id of their caller's,
    /// dropped while they were under way: the last 1,000 of them. One that its caller gave an id
    /// may be repeated [`with_id`](crate::Write::with_id).
    pub unknown: Vec<(Owner, Option<OpId>)>,
    /// Owners with changes that were not landed, and are lost with the process. Only in embedded
    /// mode: elsewhere they stay in Redis, workers land them, and this is 0.
    pub unlanded: u64,
    /// Owners of whom the database refused rows, which are lost with the process. Only in embedded
    /// mode, as above.
    pub errors: u64,
}

impl Storage {
    /// Opens both tiers as the settings say, checks that they belong together, and creates the
    /// schema in an empty database.
    ///
    /// Where tokio's clock is paused, as by `#[tokio::test(start_paused = true)]`, a storage on a
    /// Redis can't be used: the limits of time on its answers pass at once. [`Storage::embedded`]
    /// can.
    ///
    /// # Errors
    /// A tier can't be reached or refuses the login; the settings are impossible; the partition
    /// count differs from the stored one; the hot tier may evict unlanded data; the schema is newer
    /// than this program, or older.
    ///
    /// # Cancel safety
    /// Dropped, nothing is open.
    pub async fn open(settings: Settings) -> Result<Self> {
        StorageBuilder::new(settings).open().await
    }

    /// Opens the embedded mode: the hot tier in this process's memory, the cold tier in a SQLite
    /// file, landing in a task.
    ///
    /// What has landed survives anything; what has not landed is lost when the process dies, or
    /// when the last handle is dropped without a [`Storage::close`], which lands everything.
    ///
    /// Tests of game logic may pause tokio's clock: the storage's own limits of time, landing and
    /// close go by the wall clock all the same. A paused clock leaps to the next timer whenever
    /// every task of its runtime waits. So a `tokio::time::timeout` of the caller's own around a
    /// call that has to wait for the file passes at once; reads and writes of hot owners do not
    /// wait.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("game.db");
    /// use std::time::Duration;
    /// let storage = storage_sdk::Storage::embedded(&path).await?;
    /// let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// ann.update([("name", "Ann"), ("gold", "10")]).await?;
    /// assert_eq!(ann.incr("gold", 5).await?.value(), 15);
    /// assert_eq!(ann.get(["name"]).await?["name"].as_deref(), Some(&b"Ann"[..]));
    /// assert_eq!(storage.close(Duration::from_secs(10)).await.unlanded, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file can't be opened or is no database of this program.
    ///
    /// # Cancel safety
    /// Dropped, nothing is open.
    pub async fn embedded(path: impl AsRef<std::path::Path>) -> Result<Self> {
        StorageBuilder::new(Settings::embedded(path.as_ref()))
            .open()
            .await
    }

    /// A storage with other parts than the settings give: clock, ids, engines.
    pub fn builder(settings: Settings) -> StorageBuilder {
        StorageBuilder::new(settings)
    }

    /// A world: the owners of one app and region.
    ///
    /// # Errors
    /// A name is empty, longer than 64 bytes, or holds a control character.
    pub fn scope(&self, app: &str, region: &str) -> Result<World> {
        Ok(World::new(&self.core, Scope::new(app, region)?))
    }

    /// Lists all owners of all worlds; see [`ByteStorage::owners`](crate::ByteStorage::owners).
    ///
    /// # Errors
    /// A tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn owners(&self) -> Result<OwnerPages> {
        OwnerPages::open(&self.core, None).await
    }

    /// Both tiers, for what the SDK does not offer.
    #[must_use]
    pub fn tiers(&self) -> &Tiers {
        &self.core.tiers
    }

    /// A new operation id, for [`Write::with_new_id`](crate::Write::with_new_id) and its repeats
    /// [`with_id`](crate::Write::with_id).
    #[must_use]
    pub fn next_id(&self) -> OpId {
        self.core.ids.next()
    }

    /// The landing task of the embedded mode.
    pub(crate) fn worker(&self) -> Option<&LandingWorker> {
        self.core.background.worker()
    }

    /// What the storage is doing. One round trip to each server of the hot tier; reads no mark.
    ///
    /// # Errors
    /// The hot tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn stats(&self) -> Result<Stats> {
        use std::sync::atomic::Ordering::Relaxed;
        let backlog = self
            .core
            .while_open(async { Ok(Backlog::read(self.core.tiers.hot().as_ref()).await?) })
            .await?;
        let landing = self.worker().map(LandingWorker::counts).unwrap_or_default();
        let loads = self.core.tiers.load_counts();
        let [sessions, sessions_lost, sessions_dropped] = self.core.holder.counts();
        Ok(Stats {
            sessions,
            sessions_lost,
            sessions_dropped,
            marks: backlog.marks(),
            oldest_unlanded: backlog.oldest(),
            error_marks: backlog.errors(),
            probation_marks: backlog.probation(),
            pressure_percent: self.core.brake.percent(),
            hot_hits: self.core.hits.load(Relaxed),
            hot_misses: self.core.misses.load(Relaxed),
            hot_loads: loads.owners,
            fence_mismatches: landing.fenced,
            rows_landed: landing.rows,
            marks_landed: landing.marks,
            background_restarts: self.core.background.restarts().saturating_add(loads.panics),
        })
    }

    /// Refuses further calls, waits for the writes under way, lands everything in embedded mode,
    /// and says what is left. Returns after `deadline` at the latest, or a second more if a tier
    /// hangs. All clones are closed with it.
    ///
    /// # Cancel safety
    /// Dropped, the storage refuses calls; call it again for the rest.
    pub async fn close(&self, deadline: Duration) -> CloseReport {
        self.core.let_sessions_save(true);
        self.core.refuse_writes();
        let storage = self.clone();
        // At home, where time is the wall's.
        let closed = self
            .core
            .tiers
            .home()
            .run(async move { storage.close_within(deadline).await })
            .await;
        closed.unwrap_or_default()
    }

    async fn close_within(&self, deadline: Duration) -> CloseReport {
        let now = Instant::now();
        let until = now.checked_add(deadline).unwrap_or(now + FOREVER);
        let sessions = self.core.end_sessions(until).await;
        self.core.let_sessions_save(false);
        let (under_way, unknown) = self.core.close(until).await;
        let hot = self.core.tiers.hot().as_ref();
        if self.worker().is_some() {
            let _ = storage_landing::drained(hot, until, |_| {}).await;
        }
        let backlog = match self.worker() {
            Some(_) => Backlog::read(hot).await.unwrap_or_default(),
            None => Backlog::default(),
        };
        self.core.background.stop(until).await;
        let goodbyes = until.max(Instant::now() + GOODBYE);
        // Connections that a statement still holds then are dropped.
        let _ = timeout_at(goodbyes, self.core.tiers.cold().close()).await;
        CloseReport {
            sessions,
            under_way,
            unknown,
            unlanded: backlog.marks(),
            errors: backlog.errors(),
        }
    }
}

/// Gives ids that were never given before.
pub(crate) fn random_ids() -> Arc<dyn Ids> {
    Arc::new(storage_model::RandomIds)
}
