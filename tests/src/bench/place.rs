//! The place of a measurement: a database server for all cases, and for each case its own Redis,
//! database and open storage.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use redis::aio::MultiplexedConnection;
use storage_config::{RedisSettings, Settings};
use storage_sdk::{ByteOwner, Storage};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use tempfile::TempDir;

use super::case::Processes;
use super::scale::Scale;
use crate::torture::children::Program;

/// The common parts of all cases.
#[derive(Debug)]
pub struct Arena {
    /// The database server: its defaults, buffers for the largest world, and a log that is flushed
    /// at each commit.
    pub mariadb: Arc<MariaDbServer>,
    /// The scale of the run.
    pub scale: Scale,
    /// The number of partitions. None for the default.
    partitions: Option<u32>,
    exe: PathBuf,
    places: AtomicU32,
    begun: Instant,
    /// The milliseconds that went into repeating disturbed cases.
    repeated: AtomicU64,
}

/// The longest time for which a run may repeat disturbed cases, all of them together.
const REPEATED_MAX: Duration = Duration::from_mins(3);

impl Arena {
    /// Starts the database server. `partitions` is the number of each case, instead of the default.
    /// `exe` is the program with the hidden subcommands of workers and readers.
    ///
    /// # Errors
    /// The server does not start.
    pub async fn start(scale: Scale, partitions: Option<u32>, exe: &Path) -> Result<Self> {
        let gib = scale.database_gib();
        let log = scale.pick("32M", "512M", "2G");
        let sizes = [
            format!("--innodb-buffer-pool-size={gib}G"),
            format!("--innodb-log-file-size={log}"),
        ];
        // One server has the machine's asynchronous requests for itself. The tests share them among
        // many.
        let args = [sizes.as_slice(), &["--innodb-use-native-aio=1".to_owned()]].concat();
        let mariadb = MariaDbServer::start(MariaDbOptions {
            args,
            ..MariaDbOptions::default()
        })
        .await?;
        let (places, repeated) = (AtomicU32::new(0), AtomicU64::new(0));
        Ok(Self {
            mariadb: Arc::new(mariadb),
            scale,
            partitions,
            exe: exe.to_owned(),
            places,
            begun: Instant::now(),
            repeated,
        })
    }

    /// Prints the progress of the run, with the time since its start.
    pub fn say(&self, what: impl Display) {
        eprintln!("{:7.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// The time of the run so far.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether there is time left for repeating a disturbed case.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        u128::from(self.repeated.load(Ordering::Relaxed)) < REPEATED_MAX.as_millis()
    }

    /// Counts time that was used for that.
    pub fn repeated(&self, time: Duration) {
        self.repeated.fetch_add(
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    /// A fresh place with the default settings.
    ///
    /// # Errors
    /// A server does not start.
    pub async fn place(&self) -> Result<Place> {
        self.place_with("").await
    }

    /// A fresh place with more settings in TOML.
    ///
    /// # Errors
    /// A server does not start, or the settings are wrong.
    pub async fn place_with(&self, more: &str) -> Result<Place> {
        self.place_on(&self.mariadb, more).await
    }

    /// Like [`Arena::place_with`], on another database server than the common one.
    ///
    /// # Errors
    /// A server does not start, or the settings are wrong.
    pub async fn place_on(&self, mariadb: &Arc<MariaDbServer>, more: &str) -> Result<Place> {
        let redis = RedisServer::start(RedisOptions::default()).await?;
        let number = self.places.fetch_add(1, Ordering::Relaxed);
        let database = mariadb.fresh_database(&format!("bench{number}")).await?;
        let partitions = self
            .partitions
            .map(|count| format!("partitions = {count}\n"))
            .unwrap_or_default();
        let redis_section = format!(
            "[redis]\nurl = {:?}\nprefix = {PREFIX:?}\n{partitions}",
            redis.url()
        );
        // A busy machine makes a case slow. Only a defect may make it fail.
        let text = format!(
            "{redis_section}[hot]\noperation_deadline = \"30s\"\n[sql]\nurl = {database:?}\n\
             connect_timeout = \"30s\"\nacquire_timeout = \"30s\"\n{more}"
        );
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("storage.toml");
        std::fs::write(&config, &text)?;
        let settings = Settings::from_toml(&text, "bench")?;
        let program = Program {
            path: self.exe.clone(),
            folder: folder.path().to_owned(),
        };
        let storage = Storage::open(settings.clone()).await?;
        Ok(Place {
            redis,
            database,
            settings,
            config,
            program,
            storage,
            mariadb: Arc::clone(mariadb),
            _folder: folder,
        })
    }
}

/// The prefix of all keys.
const PREFIX: &str = "bench";

/// The place of one case.
#[derive(Debug)]
pub struct Place {
    /// A Redis without persistence.
    pub redis: RedisServer,
    /// The URL of an own database, password included.
    pub database: String,
    /// The settings.
    pub settings: Settings,
    /// The settings file.
    pub config: PathBuf,
    /// The way to start children.
    pub program: Program,
    /// The game server's side.
    pub storage: Storage,
    mariadb: Arc<MariaDbServer>,
    _folder: TempDir,
}

impl Place {
    /// The servers' processes.
    #[must_use]
    pub fn processes(&self) -> Processes {
        Processes {
            redis: self.redis.pid(),
            mariadb: self.mariadb.pid(),
            ..Processes::default()
        }
    }

    /// Runs statements on the database server as root. Each row is a line of the result.
    ///
    /// # Errors
    /// The server is down, or rejects a statement.
    pub async fn sql(&self, statements: &str) -> Result<String> {
        self.mariadb.sql(statements).await
    }

    /// This number of owners of logic type "player" in the world game/eu. Their ids begin with
    /// `series`.
    ///
    /// # Errors
    /// The ids are impossible.
    pub fn owners(&self, series: &str, count: usize) -> Result<Vec<ByteOwner>> {
        owners_of(&self.storage, series, count)
    }

    /// The plain client: one multiplexed connection with the settings of the storage's connections.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn plain(&self) -> Result<MultiplexedConnection> {
        connect(&self.redis.url(), &self.settings.redis).await
    }

    /// Keys for the plain client, as long as the storage's own keys of the same owners.
    #[must_use]
    pub fn plain_keys(&self, series: &str, count: usize) -> Arc<[String]> {
        plain_keys(self.settings.redis.partitions, series, count)
    }

    /// The keys of all dirty maps and snapshots. None of them exists once everything has landed.
    #[must_use]
    pub fn dirty_keys(&self) -> Vec<String> {
        let partitions = 0..self.settings.redis.partitions;
        partitions
            .flat_map(|p| {
                [
                    format!("{PREFIX}-marks:{{{p}}}"),
                    format!("{PREFIX}-marks:{{{p}}}:saving"),
                ]
            })
            .collect()
    }

    /// The allocated memory of Redis, in bytes.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn redis_bytes(&self) -> Result<f64> {
        let info = self.redis.call(&["INFO", "memory"]).await?;
        let line = info
            .text()?
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"))
            .context("no used_memory")?;
        Ok(line.trim().parse()?)
    }
}

/// The plain client of a Redis, like [`Place::plain`].
///
/// # Errors
/// Redis does not answer.
pub async fn connect(url: &str, settings: &RedisSettings) -> Result<MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(settings.connect_timeout))
        .set_response_timeout(Some(settings.response_timeout));
    let info: redis::ConnectionInfo = url.parse()?;
    let tcp = info.tcp_settings().clone().set_nodelay(false);
    let client = redis::Client::open(info.set_tcp_settings(tcp))?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Owners of a storage, like [`Place::owners`].
///
/// # Errors
/// The ids are impossible.
pub fn owners_of(storage: &Storage, series: &str, count: usize) -> Result<Vec<ByteOwner>> {
    let world = storage.world("game", "eu")?.bytes();
    (0..count)
        .map(|number| Ok(world.owner("player", owner_id(series, number))?))
        .collect()
}

/// Keys for this number of partitions, like [`Place::plain_keys`].
#[must_use]
pub fn plain_keys(partitions: u32, series: &str, count: usize) -> Arc<[String]> {
    let key = |number: usize| {
        let id = owner_id(series, number);
        let part = part_of(partitions, &id);
        format!("{PREFIX}-hash:{{{part}}}:game:eu:player:{id}")
    };
    (0..count).map(key).collect()
}

/// One of this number of partitions for an id.
#[must_use]
pub fn part_of(partitions: u32, id: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % u64::from(partitions).max(1)
}

/// An id: a series, and a number that is mixed so that the ids of a series lie scattered.
#[must_use]
pub fn owner_id(series: &str, number: usize) -> String {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    // An odd factor modulo a power of two maps each number to another one.
    format!(
        "{series}{:010x}",
        number.wrapping_mul(0x9E_3779_B97F) & 0xFF_FFFF_FFFF
    )
}

/// A value of this number of bytes.
#[must_use]
pub fn value(bytes: usize, round: u64) -> Vec<u8> {
    let mut value = format!("{round:016x}").into_bytes();
    value.resize(bytes, b'v');
    value
}
