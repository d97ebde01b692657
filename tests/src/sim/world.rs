//! The whole system of one seed: models of both servers, game servers and workers.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use storage_coalesce::locked;
use storage_config::{
    HotSettings, HotUrl, LandingSettings, Login, Node, RedisSettings, SessionSettings, Settings,
};
use storage_dirty::redis::Hooks;
use storage_dirty::{Hot, RedisStore};
use storage_landing::LandingWorker;
use storage_model::SeededIds;
use storage_sdk::Storage;
use storage_tiers::{TierError, Tiers};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::chance::Chance;
use super::clock::SkewedClock;
use super::database::transaction::Way;
use super::database::{Database, ModelStore};
use super::network::Link;
use super::oracle::History;
use super::plan::Plan;
use super::process::Process;
use super::redis::Server;

/// Both servers, and the common inputs of all processes.
#[derive(Debug)]
pub struct World {
    /// The plan of the seed.
    pub plan: Plan,
    /// The one source of chance.
    pub chance: Arc<Chance>,
    /// Redis' clock.
    pub clock: Arc<SkewedClock>,
    /// Redis.
    pub redis: Arc<Server>,
    /// The database.
    pub database: Arc<Database>,
    /// The events.
    pub history: Arc<History>,
}

/// A landing worker's process.
#[derive(Debug)]
pub struct Worker {
    /// The process.
    pub process: Arc<Process>,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// A game server's process.
#[derive(Debug)]
pub struct Game {
    /// The process.
    pub process: Arc<Process>,
    /// The storage once it is open.
    storage: Arc<Mutex<Option<Storage>>>,
    task: JoinHandle<()>,
}

impl World {
    /// A world in which only the servers run.
    #[must_use]
    pub fn new(seed: u64, chance: Arc<Chance>) -> Arc<Self> {
        let plan = Plan::draw(seed, &chance);
        let clock = Arc::new(SkewedClock::new());
        let history = History::new(chance.clone());
        let redis = Server::new(clock.clone(), Some(history.clone()));
        let database = Database::new(Some(history.clone()));
        history.lease(plan.lease);
        database.durable_after(plan.probation);
        if !plan.redis_loses() {
            history.compare_with(&database);
        }
        Arc::new(Self {
            plan,
            chance,
            clock,
            redis,
            database,
            history,
        })
    }

    /// A process with a random speed.
    fn process(&self) -> Arc<Process> {
        Process::slow(*self.chance.one(self.plan.slowness))
    }

    fn way(&self, process: &Arc<Process>) -> Way {
        Way {
            database: self.database.clone(),
            chance: self.chance.clone(),
            process: process.clone(),
        }
    }

    /// The hot tier, for one process. It opens as soon as Redis is there.
    pub async fn hot(&self, process: &Arc<Process>) -> Hot {
        let link = Link {
            server: self.redis.clone(),
            chance: self.chance.clone(),
            process: process.clone(),
        };
        let redis = RedisSettings::new(model()).with(|redis| {
            redis.connections = 2;
            redis.partitions = self.plan.partitions;
        });
        let hot = HotSettings::default().with(|hot| {
            hot.clean_ttl = self.plan.clean_ttl;
            hot.absent_ttl = self.plan.absent_ttl;
        });
        loop {
            let hooks = Hooks {
                ids: Arc::new(SeededIds::new(self.chance.below(u64::MAX))),
                dial: Some(Arc::new(link.clone())),
                ..Hooks::default()
            };
            match RedisStore::open_through(&redis, &hot, hooks).await {
                Ok(store) => return Hot::of(&Arc::new(store)),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Both tiers, for one process.
    pub async fn tiers(&self, process: &Arc<Process>) -> Tiers {
        let hot = self.hot(process).await;
        let rows_max = usize::try_from(self.plan.load_rows_max).unwrap_or(usize::MAX);
        let ids = SeededIds::new(self.chance.below(u64::MAX));
        Tiers::new(hot, ModelStore::cold(self.way(process)), rows_max)
            .with_ids(Arc::new(ids))
            .on_probation(self.plan.probation)
    }

    /// Starts an operator. The operator pairs the tiers on purpose when they are found not to belong
    /// together. This is needed when a Redis comes back with its old data after a blank one took
    /// over.
    pub fn operator(self: &Arc<Self>) -> JoinHandle<()> {
        let process = self.process();
        let (world, of) = (self.clone(), process.clone());
        tokio::spawn(process.task(async move {
            let tiers = world.tiers(&of).await;
            loop {
                sleep(Duration::from_secs(1)).await;
                if let Err(TierError::Unpaired(_)) = tiers.compare_only().await {
                    // A failure is tried again at the next look.
                    let _ = tiers.adopt().await;
                }
            }
        }))
    }

    /// Starts a landing worker.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker {
        let process = self.process();
        let (shutdown, shut) = oneshot::channel();
        let (world, of) = (self.clone(), process.clone());
        let task = tokio::spawn(process.task(async move { world.land(&of, shut).await }));
        Worker {
            process,
            shutdown: Some(shutdown),
            task,
        }
    }

    async fn land(&self, process: &Arc<Process>, shut: oneshot::Receiver<()>) {
        let tiers = self.tiers(process).await;
        let ids = SeededIds::new(self.chance.below(u64::MAX));
        let landing = LandingSettings::default().with(|landing| {
            landing.interval = self.chance.millis(10, 400);
            landing.batch_rows = self.plan.batch_rows;
            landing.connections = 2;
            landing.lock_ttl = self.plan.lock_ttl;
            landing.backoff_max = Duration::from_secs(1);
            landing.error_retry_max = Duration::from_secs(2);
        });
        let sessions = SessionSettings::default().with(|sessions| sessions.lease = self.plan.lease);
        let shutdown = async {
            // A worker whose sender is gone gets no order to end.
            if shut.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        LandingWorker::new(tiers, &landing, &sessions, &ids)
            .run(shutdown)
            .await;
    }

    /// Starts a game server.
    #[must_use]
    pub fn game(self: &Arc<Self>) -> Game {
        let process = self.process();
        let storage = Arc::new(Mutex::new(None));
        let (world, of, slot) = (self.clone(), process.clone(), storage.clone());
        let open = async move {
            loop {
                match world.storage(&of).await {
                    Ok(storage) => {
                        *locked(&slot) = Some(storage);
                        return;
                    }
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let task = tokio::spawn(process.task(open));
        Game {
            process,
            storage,
            task,
        }
    }

    /// A storage of one process.
    ///
    /// # Errors
    /// A server is away.
    pub async fn storage(&self, process: &Arc<Process>) -> Result<Storage> {
        let mut settings = Settings::embedded(Path::new("model"));
        settings.redis.partitions = self.plan.partitions;
        settings.hot.operation_deadline = self.plan.deadline;
        settings.hot.load_rows_max = self.plan.load_rows_max;
        settings.landing.probation = self.plan.probation;
        settings.sessions.lease = self.plan.lease;
        // Not the name of the machine and of the process.
        settings.sessions.name = Some("game".to_owned());
        settings.hot.refresh_interval = Duration::from_secs(1);
        let ids = Arc::new(SeededIds::new(self.chance.below(u64::MAX)));
        let builder = Storage::builder(settings)
            .ids(ids)
            .landing(false)
            .own_runtime(false);
        let hot = self.hot(process).await;
        Ok(builder
            .hot(hot)
            .cold(ModelStore::cold(self.way(process)))
            .open()
            .await?)
    }
}

impl Worker {
    /// Ends the process at once.
    pub fn kill(&self) {
        self.process.kill();
        self.task.abort();
    }

    /// Tells the worker to end.
    pub fn shut_down(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _ = shutdown.send(());
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

impl Game {
    /// The storage, if it is open.
    #[must_use]
    pub fn storage(&self) -> Option<Storage> {
        locked(&self.storage).clone()
    }

    /// Ends the process at once.
    pub fn kill(&self) {
        self.process.kill();
        self.task.abort();
        let killed = locked(&self.storage).take();
        drop(killed);
    }
}

/// The URL of a Redis that no network leads to.
fn model() -> HotUrl {
    HotUrl::Server {
        node: Node {
            host: "model".to_owned(),
            port: 6379,
        },
        tls: false,
        login: Login::default(),
        database: 0,
    }
}
