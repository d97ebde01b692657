//! The servers of one scenario, and a fresh place on them for each run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use storage_config::{LandingSettings, Settings, SqlSettings};
use storage_servers::{MariaDbServer, RedisOptions, RedisServer, Reply};
use tempfile::TempDir;

use super::history::TYPE;
use super::look::Look;
use crate::rows::{StoredRow, rows};

/// Few partitions, so that owners meet in them.
pub(super) const PARTITIONS: u32 = 2;
/// The values that the tables reject, in a scenario on SQLite.
const GUARDS: &str = include_str!("guards.sql");

/// The database of a scenario.
#[derive(Debug, Clone, Copy)]
pub enum Database<'a> {
    /// A file for each run.
    Sqlite,
    /// One database for all runs of a scenario, emptied for each.
    MariaDb(&'a MariaDbServer),
}

/// A Redis of its own, and the place where databases are made.
#[derive(Debug)]
pub struct Site {
    redis: RedisServer,
    database: Base,
    places: AtomicU32,
}

/// The source of a run's database.
#[derive(Debug)]
enum Base {
    /// A file with tables and guards, which each run copies.
    Template(TempDir),
    /// The URL of a database.
    Shared(String),
}

/// The place of one run.
#[derive(Debug)]
pub struct Place<'a> {
    redis: &'a RedisServer,
    settings: Settings,
    database: String,
}

impl Site {
    /// Starts the needed servers and makes the tables.
    ///
    /// # Errors
    /// A server does not start.
    pub async fn open(name: &str, database: Database<'_>) -> Result<Self> {
        static SITES: AtomicU32 = AtomicU32::new(0);
        let redis = RedisServer::start(RedisOptions::default()).await?;
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let database = match database {
            Database::Sqlite => Base::Template(template().await?),
            Database::MariaDb(server) => {
                let url = server
                    .fresh_database(&format!("crash_{name}_{number}"))
                    .await?;
                make_tables(&url).await?;
                Base::Shared(url)
            }
        };
        Ok(Self {
            redis,
            database,
            places: AtomicU32::new(0),
        })
    }

    /// An empty place.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn fresh(&self) -> Result<Place<'_>> {
        let number = self.places.fetch_add(1, Ordering::Relaxed);
        self.redis.call(&["FLUSHALL"]).await?;
        let database = match &self.database {
            Base::Template(folder) => {
                let file = folder.path().join(format!("{number}.db"));
                std::fs::copy(folder.path().join(TEMPLATE), &file)?;
                url_of(&file)
            }
            Base::Shared(url) => {
                empty(url).await?;
                url.clone()
            }
        };
        let settings = settings(&self.redis.url(), &database, &format!("c{number}"))?;
        Ok(Place {
            redis: &self.redis,
            settings,
            database,
        })
    }
}

const TEMPLATE: &str = "template.db";

fn url_of(file: &std::path::Path) -> String {
    format!("sqlite:{}", file.display())
}

async fn template() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let url = url_of(&folder.path().join(TEMPLATE));
    make_tables(&url).await?;
    let mut connection = SqliteConnection::connect(&url).await?;
    sqlx::raw_sql(GUARDS).execute(&mut connection).await?;
    // Places copy the file alone. A connection that closes late keeps changes in the log beside it.
    let checkpoint = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)");
    let (is_busy, _, _): (i64, i64, i64) = checkpoint.fetch_one(&mut connection).await?;
    anyhow::ensure!(is_busy == 0, "the log of the template is in use");
    connection.close().await?;
    Ok(folder)
}

async fn make_tables(url: &str) -> Result<()> {
    let cold = storage_sql::open(&SqlSettings::new(url.parse()?)).await?;
    cold.partitions
        .partitions(&[storage_model::Partition(0)])
        .await?;
    cold.database.close().await;
    Ok(())
}

async fn empty(url: &str) -> Result<()> {
    let mut connection = sqlx::mysql::MySqlConnection::connect(url).await?;
    for table in [
        "landing_rows",
        "landing_partition",
        "landing_meta",
        "landing_feed",
        "landing_event",
        "landing_lead",
        "landing_sink",
        "landing_sink_error",
        "landing_hot",
        "landing_stamp",
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("DELETE FROM {table}")))
            .execute(&mut connection)
            .await?;
    }
    Ok(connection.close().await?)
}

fn settings(redis: &str, database: &str, prefix: &str) -> Result<Settings> {
    let text = format!(
        "[redis]\nurl = {redis:?}\nprefix = {prefix:?}\npartitions = {PARTITIONS}\nconnections = 1\n\
         [sql]\nurl = {database:?}\nconnections = 2\n[feed]\nevery_change = [{TYPE:?}]\n"
    );
    Ok(Settings::from_toml(&text, "crash")?)
}

impl Place<'_> {
    /// The settings of a process here.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The landing settings of a worker here: small batches, no waiting, and locks that outlast any
    /// run.
    #[must_use]
    pub fn landing(&self) -> LandingSettings {
        LandingSettings::default().with(|landing| {
            landing.interval = Duration::from_millis(8);
            landing.batch_rows = 3;
            landing.lock_ttl = Duration::from_secs(60);
            landing.backoff_max = Duration::from_millis(8);
            landing.error_retry_max = Duration::from_millis(2);
        })
    }

    /// The data in Redis.
    ///
    /// # Errors
    /// Redis does not answer, or holds a key that the storage does not write.
    pub async fn look(&self) -> Result<Look> {
        Look::of(
            self.eval(include_str!("look.lua")).await?,
            &self.settings.redis.prefix,
        )
    }

    /// The rows of the database.
    ///
    /// # Errors
    /// The database can't be read.
    pub async fn rows(&self) -> Result<Vec<StoredRow>> {
        rows(&self.database).await
    }

    /// Cuts all requests that a dead process still has on their way.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn bury(&self) -> Result<()> {
        self.redis
            .call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .await
            .map(drop)
    }

    /// Lets the locks, leases and announcements of a dead process expire.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn time_passes(&self) -> Result<()> {
        self.eval(include_str!("expire.lua")).await.map(drop)
    }

    /// Makes the database reject field "v" of an owner, or accept it again.
    ///
    /// # Errors
    /// The database can't be written.
    pub async fn poison(&self, id: &str, poisoned: bool) -> Result<()> {
        let mut connection = SqliteConnection::connect(&self.database).await?;
        let statement = if poisoned {
            "INSERT INTO poison VALUES (?)"
        } else {
            "DELETE FROM poison WHERE owner_id = ?"
        };
        sqlx::query(statement)
            .bind(id.as_bytes())
            .execute(&mut connection)
            .await?;
        Ok(connection.close().await?)
    }

    /// Makes the database accept all fields of an owner. A database that never rejected any is left
    /// alone.
    ///
    /// # Errors
    /// The database can't be written.
    pub async fn heal(&self, id: &str) -> Result<()> {
        if self.database.starts_with("sqlite:") {
            self.poison(id, false).await
        } else {
            Ok(())
        }
    }

    /// All keys with their values, for [`Place::rewind`].
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn save(&self) -> Result<Vec<Saved>> {
        let mut saved = Vec::new();
        for key in self.look().await?.keys() {
            let Reply::Bytes(held) = self.redis.call(&["DUMP", key]).await? else {
                continue;
            };
            let Reply::Integer(left) = self.redis.call(&["PTTL", key]).await? else {
                continue;
            };
            saved.push((key.clone(), held, left.max(0)));
        }
        Ok(saved)
    }

    /// Another Redis takes over, with the saved data and nothing else.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn rewind(&self, saved: Vec<Saved>) -> Result<()> {
        self.redis.call(&["FLUSHALL"]).await?;
        for (key, held, left) in saved {
            self.redis
                .call(&[
                    b"RESTORE",
                    key.as_bytes(),
                    left.to_string().as_bytes(),
                    &held,
                ])
                .await?;
        }
        self.redis.call(&["DEBUG", "CHANGE-REPL-ID"]).await?;
        self.bury().await
    }

    async fn eval(&self, script: &str) -> Result<Reply> {
        self.redis
            .call(&["EVAL", script, "0", &self.settings.redis.prefix])
            .await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.database.strip_prefix("sqlite:") {
            for end in ["", "-wal", "-shm"] {
                // The rest goes with the folder.
                let _ = std::fs::remove_file(PathBuf::from(format!("{file}{end}")));
            }
        }
    }
}

/// A key, its value, and the milliseconds that it has left. 0 means that it stays.
pub type Saved = (String, Vec<u8>, i64);
