//! A fresh world on real servers. All tests of a process share one Redis and one MariaDB, and each
//! has its own prefix and database.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_config::Settings;
use storage_landing::{Backlog, LandingWorker, Sink};
use storage_model::{RandomIds, SinkName};
use storage_sdk::{ByteOwner, Storage};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

static REDIS: OnceCell<RedisServer> = OnceCell::const_new();
static MARIADB: OnceCell<MariaDbServer> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The Redis server that tests share.
///
/// # Errors
/// It does not start.
pub async fn redis() -> Result<&'static RedisServer> {
    let options = || RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    };
    REDIS
        .get_or_try_init(|| RedisServer::start(options()))
        .await
}

/// The MariaDB server that tests share.
///
/// # Errors
/// It does not start.
pub async fn mariadb() -> Result<&'static MariaDbServer> {
    MARIADB
        .get_or_try_init(|| MariaDbServer::start(MariaDbOptions::default()))
        .await
}

/// Few partitions, so that owners meet in them.
const PARTITIONS: u32 = 8;

/// The length of short locks.
const SHORT_LOCK: Duration = Duration::from_millis(400);

/// Settings with a prefix and a database of their own.
#[derive(Debug, Clone)]
pub struct World {
    /// The settings.
    pub settings: Settings,
    /// The settings as a file.
    pub text: String,
    /// The database's URL, password included.
    pub database: String,
}

impl World {
    /// A world on the shared servers.
    ///
    /// # Errors
    /// A server does not start.
    pub async fn fresh() -> Result<Self> {
        Self::on(&redis().await?.url(), mariadb().await?).await
    }

    /// A world on other servers.
    ///
    /// # Errors
    /// The database can't be made.
    pub async fn on(redis: &str, mariadb: &MariaDbServer) -> Result<Self> {
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let database = mariadb.fresh_database(&name).await?;
        Self::with_urls(redis, &database, &name)
    }

    /// A world at these URLs.
    ///
    /// # Errors
    /// A URL is impossible.
    pub fn with_urls(redis: &str, database: &str, prefix: &str) -> Result<Self> {
        let text = format!(
            "[redis]\nurl = {redis:?}\nprefix = {prefix:?}\npartitions = {PARTITIONS}\n[sql]\nurl = {database:?}\n\
             [landing]\ninterval = \"20ms\"\nlock_ttl = \"2s\"\nbackoff_max = \"500ms\"\n"
        );
        let settings = Settings::from_toml(&text, "test")?;
        Ok(Self {
            settings,
            text,
            database: database.to_owned(),
        })
    }
}

/// A world of its own, and a storage opened in it.
#[derive(Debug)]
pub struct Stack {
    /// The settings.
    pub settings: Settings,
    /// The database's URL, password included.
    pub database: String,
    /// The game server's side.
    pub storage: Storage,
}

impl Stack {
    /// A fresh world, open.
    ///
    /// # Errors
    /// A server does not start or the storage does not open.
    pub async fn open() -> Result<Self> {
        Self::with(World::fresh().await?).await
    }

    /// This world, open.
    ///
    /// # Errors
    /// The storage does not open.
    pub async fn with(world: World) -> Result<Self> {
        let World {
            settings, database, ..
        } = world;
        Ok(Self {
            storage: Storage::open(settings.clone()).await?,
            settings,
            database,
        })
    }

    /// An owner of logic type "player" in the world game/eu.
    ///
    /// # Panics
    /// The id is impossible.
    #[must_use]
    pub fn player(&self, id: &str) -> ByteOwner {
        self.owner("player", id)
    }

    /// An owner in the world game/eu.
    ///
    /// # Panics
    /// A name is impossible.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test's own names")]
    pub fn owner(&self, logic_type: &str, id: &str) -> ByteOwner {
        let world = self.storage.world("game", "eu").expect("names");
        world.bytes().owner(logic_type, id).expect("names")
    }

    /// A landing worker in this process.
    #[must_use]
    pub fn worker(&self) -> Worker {
        self.worker_with(&[])
    }

    /// A landing worker in this process, with these sinks.
    #[must_use]
    pub fn worker_with(&self, sinks: &[(SinkName, Arc<dyn Sink>)]) -> Worker {
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let landing = self
            .settings
            .landing
            .clone()
            .with(|landing| landing.worker_name = Some(format!("w{count}")));
        let (tiers, sessions) = (self.storage.tiers().clone(), &self.settings.sessions);
        let mut worker = LandingWorker::new(tiers, &landing, sessions, &RandomIds);
        for (name, sink) in sinks {
            worker = worker.with_sink(name.clone(), Arc::clone(sink));
        }
        Worker::start(worker)
    }

    /// Lets the workers of this stack hold their locks for so short a time that the next one soon
    /// takes over from one that was killed. A settings file can't ask for so little.
    #[must_use]
    pub fn with_short_locks(mut self) -> Self {
        self.settings.landing.lock_ttl = SHORT_LOCK;
        self
    }

    /// The marks that wait to land.
    ///
    /// # Errors
    /// The hot tier is away.
    pub async fn backlog(&self) -> Result<Backlog> {
        Ok(Backlog::read(self.storage.tiers().hot()).await?)
    }

    /// Waits until no mark and no note waits to land. Error marks may be left.
    ///
    /// # Errors
    /// It takes more than 30 s.
    pub async fn landed(&self) -> Result<()> {
        until("everything has landed", async || {
            let backlog = self.backlog().await?;
            Ok(backlog.marks() + backlog.notes() == 0)
        })
        .await
    }
}

/// A worker that runs in a task.
#[derive(Debug)]
pub struct Worker {
    worker: LandingWorker,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Worker {
    fn start(worker: LandingWorker) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let running = worker.clone();
        let task = tokio::spawn(async move {
            running
                .run(async {
                    let _ = stopped.await;
                })
                .await;
        });
        Self { worker, stop, task }
    }

    /// Its counters.
    #[must_use]
    pub fn counts(&self) -> storage_landing::Counts {
        self.worker.counts()
    }

    /// The number of rows of its next batch.
    #[must_use]
    pub fn batch_rows(&self) -> usize {
        self.worker.batch_rows()
    }

    /// Stops it in order.
    ///
    /// # Errors
    /// It panicked.
    pub async fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        Ok(self.task.await?)
    }

    /// Ends it like a crash: at its next await, with its locks held.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Waits until a condition holds, for at most 30 s.
///
/// # Errors
/// The condition does not hold by then, or the look failed.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let wait = async {
        while !holds().await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    bounded(what, wait).await
}

/// Limits the wait for a future to 30 s.
///
/// # Errors
/// It fails, or takes longer.
pub async fn bounded<T>(what: &str, wait: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .with_context(|| format!("waited 30 s: {what}"))?
}
