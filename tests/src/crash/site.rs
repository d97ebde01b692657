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

use super::look::Look;
use crate::rows::{StoredRow, rows};

/// Few partitions, so that owners meet in them.
pub(super) const PARTITIONS: u32 = 2;
/// What the tables refuse, in a scenario on SQLite.
const GUARDS: &str = include_str!("guards.sql");

/// Which database a scenario uses.
#[derive(Debug, Clone, Copy)]
pub enum Database<'a> {
    /// A file for each run.
    Sqlite,
    /// One database for all runs of a scenario, emptied for each.
    MariaDb(&'a MariaDbServer),
}

/// A Redis of its own, and where databases are made.
#[derive(Debug)]
pub struct Site {
    redis: RedisServer,
    database: Base,
    places: AtomicU32,
}

/// What a run's database is made of.
#[derive(Debug)]
enum Base {
    /// A file with tables and guards, which each run copies.
    Template(TempDir),
    /// The URL of a database.
    Shared(String),
}

/// Where one run happens.
#[derive(Debug)]
pub struct Place<'a> {
    redis: &'a RedisServer,
    settings: Settings,
    database: String,
}

impl Site {
    /// Starts the servers that are needed and makes the tables.
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
    connection.close().await?;
    Ok(folder)
}

async fn make_tables(url: &str) -> Result<()> {
    let cold = storage_sql::open(&SqlSettings::new(url.parse()?)).await?;
    cold.partitions(&[storage_model::Partition(0)]).await?;
    cold.close().await;
    Ok(())
}

async fn empty(url: &str) -> Result<()> {
    let mut connection = sqlx::mysql::MySqlConnection::connect(url).await?;
    for table in ["landing_rows", "landing_partition", "landing_meta"] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("DELETE FROM {table}")))
            .execute(&mut connection)
            .await?;
    }
    Ok(connection.close().await?)
}

fn settings(redis: &str, database: &str, prefix: &str) -> Result<Settings> {
    let text = format!(
        "[redis]\nurl = {redis:?}\nprefix = {prefix:?}\npartitions = {PARTITIONS}\nconnections = 1\n\
         [sql]\nurl = {database:?}\nconnections = 2\n"
    );
    Ok(Settings::from_toml(&text, "crash")?)
}

impl Place<'_> {
    /// The settings of a process here.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How a worker lands here: in small batches and without waiting, under locks that outlast any
    /// run.
    #[must_use]
    pub fn landing(&self) -> LandingSettings {
        LandingSettings {
            interval: Duration::from_millis(8),
            batch_rows: 3,
            lock_ttl: Duration::from_secs(60),
            worker_ttl: Duration::from_secs(60),
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(8),
            error_retry_min: Duration::from_millis(1),
            error_retry_max: Duration::from_millis(2),
            ..LandingSettings::default()
        }
    }

    /// What Redis holds.
    ///
    /// # Errors
    /// It does not answer, or holds something that nobody of us writes.
    pub async fn look(&self) -> Result<Look> {
        Look::of(
            self.eval(include_str!("look.lua")).await?,
            &self.settings.redis.prefix,
        )
    }

    /// What the database holds.
    ///
    /// # Errors
    /// It can't be read.
    pub async fn rows(&self) -> Result<Vec<StoredRow>> {
        rows(&self.database).await
    }

    /// Cuts whatever a dead process still has on its way.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn bury(&self) -> Result<()> {
        self.redis
            .call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .await
            .map(drop)
    }

    /// Lets the locks, leases and announcements of a dead process run out.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn time_passes(&self) -> Result<()> {
        self.eval(include_str!("expire.lua")).await.map(drop)
    }

    /// Makes the database refuse field "v" of an owner, or take it again.
    ///
    /// # Errors
    /// It can't be written.
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

    /// Makes the database take everything of an owner; one that never refused anything is left
    /// alone.
    ///
    /// # Errors
    /// It can't be written.
    pub async fn heal(&self, id: &str) -> Result<()> {
        if self.database.starts_with("sqlite:") {
            self.poison(id, false).await
        } else {
            Ok(())
        }
    }

    /// All keys as they are, for [`Place::rewind`].
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

    /// Another Redis takes over, with what was saved and nothing else.
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
                // What is left goes with the folder.
                let _ = std::fs::remove_file(PathBuf::from(format!("{file}{end}")));
            }
        }
    }
}

/// A key, what it holds, and the milliseconds that it has left; 0 if it stays.
pub type Saved = (String, Vec<u8>, i64);
