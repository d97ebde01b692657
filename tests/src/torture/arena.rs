//! The place of a run: servers, links between everything, game servers and landing workers.

use std::path::Path;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use sqlx::Executor as _;
use storage_coalesce::locked;
use storage_config::Settings;
use storage_landing::Backlog;
use storage_model::SystemClock;
use storage_servers::{
    ClusterOptions, MariaDbOptions, MariaDbServer, RedisCluster, RedisOptions, RedisServer,
};
use storage_tiers::Tiers;
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::args::{Args, Topology};
use super::children::Program;
use super::crew::{Game, Worker};
use super::faults::Fault;
use super::moment::Micros;
use super::oracle::Rewind;
use crate::Link;

/// The number of game servers.
pub const GAMES: u32 = 2;
/// The settings of game servers.
pub const GAME_SETTINGS: &str = "game.toml";
/// The settings of workers.
const WORKER_SETTINGS: &str = "worker.toml";
/// The number of landing workers.
const WORKERS: u32 = 3;
/// The node timeout of the cluster: the silence after which a master counts as dead.
const NODE_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

/// The hot tier.
#[derive(Debug)]
pub enum Hot {
    /// One server.
    Single(Box<RedisServer>),
    /// A cluster.
    Cluster(RedisCluster),
}

impl Hot {
    /// All servers.
    #[must_use]
    pub fn nodes(&self) -> Vec<&RedisServer> {
        match self {
            Self::Single(server) => vec![server],
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
        }
    }

    /// The server of a single-server tier.
    ///
    /// # Errors
    /// The tier is a cluster.
    pub fn single(&self) -> Result<&RedisServer> {
        match self {
            Self::Single(server) => Ok(server),
            Self::Cluster(_) => anyhow::bail!("this fault is for a single server"),
        }
    }

    /// The cluster of a cluster tier.
    ///
    /// # Errors
    /// The tier is a single server.
    pub fn cluster(&self) -> Result<&RedisCluster> {
        match self {
            Self::Cluster(cluster) => Ok(cluster),
            Self::Single(_) => anyhow::bail!("this fault is for a cluster"),
        }
    }
}

/// The links of game servers and of workers to each tier. A cluster is reached directly.
#[derive(Debug)]
pub struct Links {
    /// Game servers and workers to Redis.
    pub hot: Vec<Link>,
    /// Game servers and workers to the database.
    pub cold: Vec<Link>,
}

/// All parts that a run starts.
#[derive(Debug)]
pub struct Arena {
    /// The arguments.
    pub args: Args,
    /// Game servers.
    pub games: Vec<Mutex<Game>>,
    /// Landing workers.
    pub workers: Vec<Mutex<Worker>>,
    /// The links between everything.
    pub links: Links,
    /// A direct way to both tiers, for looks at them.
    pub tiers: Tiers,
    /// Redis.
    pub hot: Hot,
    /// The database server.
    pub cold: MariaDbServer,
    /// The database's URL, direct.
    pub database: String,
    /// Held by a fault that disturbs the database, and by a step that needs the database
    /// undisturbed.
    pub calm: Mutex<()>,
    /// The settings by the direct way.
    pub settings: Settings,
    /// The times at which the hot tier came back older.
    pub rewinds: StdMutex<Vec<Rewind>>,
    /// The time by which the hot tier's clock was turned back in all.
    pub turned_back: AtomicU64,
    /// Settings, histories and logs.
    pub folder: TempDir,
}

/// The settings of a run. All periods are short, with few partitions and small batches. A process
/// that only looks is patient.
pub(super) fn settings(hot: &str, cold: &str, is_patient: bool) -> String {
    let [connect, response, statement] = if is_patient {
        ["5s", "5s", "20s"]
    } else {
        ["500ms", "400ms", "2s"]
    };
    format!(
        "[redis]\nurl = {hot:?}\nprefix = \"torture\"\npartitions = 16\n\
         connect_timeout = {connect:?}\nresponse_timeout = {response:?}\nwait_timeout = \"1s\"\n\
         [sql]\nurl = {cold:?}\nconnect_timeout = {connect:?}\nacquire_timeout = \"1s\"\nstatement_timeout = {statement:?}\n\
         [hot]\nclean_ttl = \"1s\"\nabsent_ttl = \"300ms\"\nrefresh_interval = \"300ms\"\noperation_deadline = \"2s\"\n\
         [landing]\ninterval = \"20ms\"\nbatch_rows = 40\nlock_ttl = \"1s\"\n\
         backoff_max = \"500ms\"\nerror_retry_max = \"1s\"\n\
         [sessions]\nlease = \"1s\"\n[feed]\nevery_change = {NOTED:?}\n"
    )
}

/// The logic types of which every change leaves a note.
pub(super) const NOTED: [&str; 2] = ["player", "guild"];

impl Arena {
    /// Starts servers, links, workers and game servers.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start(args: &Args, faults: &[Fault], exe: &Path) -> Result<Self> {
        let mut arena = Self::without_games(args, "", exe).await?;
        let program = arena.program(exe);
        let config = arena.folder.path().join(GAME_SETTINGS);
        for number in 0..GAMES {
            let orders = super::crew::Orders {
                seed: args.seed,
                servers: GAMES,
                poison: faults.contains(&Fault::DbPoison),
                large: faults.contains(&Fault::DbPacket),
            };
            arena
                .games
                .push(Mutex::new(Game::start(&program, &config, number, orders)?));
        }
        Ok(arena)
    }

    /// Starts servers, links and workers, for other players than game servers. Their settings are
    /// in the file [`GAME_SETTINGS`] of the arena's folder. `more` is added to the settings of the
    /// workers.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn without_games(args: &Args, more: &str, exe: &Path) -> Result<Self> {
        let folder =
            TempDir::with_prefix("storage-torture-").context("cannot make a temporary folder")?;
        let (hot, cold) = tokio::try_join!(start_hot(args.topology), start_cold())?;
        let database = cold.url();
        let mut links = Links {
            hot: Vec::new(),
            cold: Vec::new(),
        };
        for (file, more) in [(GAME_SETTINGS, ""), (WORKER_SETTINGS, more)] {
            let hot_url = match &hot {
                Hot::Single(server) => {
                    let link = Link::start(server.port()).await?;
                    let url = format!("redis://127.0.0.1:{}", link.port());
                    links.hot.push(link);
                    url
                }
                Hot::Cluster(cluster) => cluster.url(),
            };
            let link = Link::start(cold.port()).await?;
            let cold_url =
                database.replace(&format!(":{}/", cold.port()), &format!(":{}/", link.port()));
            links.cold.push(link);
            let text = settings(&hot_url, &cold_url, false) + more;
            std::fs::write(folder.path().join(file), text)?;
        }
        let direct = match &hot {
            Hot::Single(server) => server.url(),
            Hot::Cluster(cluster) => cluster.url(),
        };
        let settings = Settings::from_toml(&settings(&direct, &database, true), "torture")?;
        let tiers = open(&settings).await?;
        watch(&database).await?;
        let mut arena = Self {
            args: args.clone(),
            games: Vec::new(),
            workers: Vec::new(),
            links,
            tiers,
            hot,
            cold,
            database,
            calm: Mutex::new(()),
            settings,
            rewinds: StdMutex::default(),
            turned_back: AtomicU64::new(0),
            folder,
        };
        let program = arena.program(exe);
        let config = arena.folder.path().join(WORKER_SETTINGS);
        for number in 0..WORKERS {
            arena
                .workers
                .push(Mutex::new(Worker::start(&program, &config, number)?));
        }
        Ok(arena)
    }

    /// A program of the run, with its logs in the folder of the run.
    #[must_use]
    pub fn program(&self, exe: &Path) -> Program {
        Program {
            path: exe.to_owned(),
            folder: self.folder.path().to_owned(),
        }
    }

    /// The marks that wait in each partition, and the partition's worker.
    ///
    /// # Errors
    /// The hot tier is away.
    pub async fn backlog(&self) -> Result<Backlog> {
        Ok(Backlog::read(self.tiers.hot()).await?)
    }

    /// The present length of the histories, in bytes.
    #[must_use]
    pub fn played(&self) -> u64 {
        let entries = std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten();
        let histories = entries.filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "history")
        });
        histories
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    /// Records that the hot tier came back older.
    pub fn rewound(&self, rewind: Rewind) {
        locked(&self.rewinds).push(rewind);
    }

    /// The time after its last sign of life in which a write may still be applied: its deadline,
    /// and the time by which the clock was turned back.
    #[must_use]
    pub fn grace(&self) -> Micros {
        super::moment::micros(self.settings.hot.operation_deadline)
            + 1_000_000
            + self.turned_back.load(Ordering::Relaxed)
    }
}

async fn start_hot(topology: Topology) -> Result<Hot> {
    // A rewrite of the file in the middle of a copy would damage the copy.
    let args = ["--auto-aof-rewrite-percentage", "0"]
        .map(str::to_owned)
        .to_vec();
    let maxmemory_policy = Some("volatile-lru".to_owned());
    let redis = RedisOptions {
        appendonly: true,
        maxmemory_policy,
        args,
        clock: true,
        ..RedisOptions::default()
    };
    Ok(match topology {
        Topology::Cluster => {
            let options = ClusterOptions {
                masters: 3,
                replicas_per_master: 1,
                node_timeout: NODE_TIMEOUT,
                redis,
            };
            Hot::Cluster(RedisCluster::start_with(options).await?)
        }
        _ => Hot::Single(Box::new(RedisServer::start(redis).await?)),
    })
}

async fn start_cold() -> Result<MariaDbServer> {
    MariaDbServer::start(MariaDbOptions::default()).await
}

async fn open(settings: &Settings) -> Result<Tiers> {
    let hot = storage_dirty::open(settings, std::sync::Arc::new(SystemClock)).await?;
    let cold = storage_sql::open(&settings.sql).await?;
    let tiers = Tiers::new(hot, cold, usize::try_from(settings.hot.load_rows_max)?);
    tiers.belong().await?;
    Ok(tiers)
}

/// Lets the database watch its rows.
async fn watch(database: &str) -> Result<()> {
    use sqlx::Connection as _;
    let mut connection = sqlx::mysql::MySqlConnection::connect(database).await?;
    for statement in include_str!("watch.sql").split("--=") {
        connection.execute(sqlx::raw_sql(statement)).await?;
    }
    Ok(connection.close().await?)
}
