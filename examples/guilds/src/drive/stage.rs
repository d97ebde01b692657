//! A Redis and a database for one run, and the settings of all processes.

use std::path::PathBuf;

use storage_sdk::Settings;
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use tempfile::TempDir;

/// The servers of a run. They end with this value.
#[derive(Debug)]
pub struct Stage {
    /// The database.
    pub database: MariaDbServer,
    /// The settings of all processes.
    pub settings: Settings,
    /// The same settings as a file.
    pub config: PathBuf,
    /// The logs of all processes.
    pub log: PathBuf,
    _redis: RedisServer,
    _folder: TempDir,
}

impl Stage {
    /// Starts both servers.
    ///
    /// # Errors
    /// A server is not installed or does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let (redis, database) = tokio::try_join!(
            RedisServer::start(RedisOptions::default()),
            MariaDbServer::start(MariaDbOptions::default())
        )?;
        // With this short lease, the players of the killed server wait for 2 s instead of 11 s.
        let text = format!(
            "[redis]\nurl = {:?}\n\n[sql]\nurl = {:?}\n\n[sessions]\nlease = \"2s\"\n",
            redis.url(),
            database.url()
        );
        let folder = TempDir::with_prefix("guilds-")?;
        let config = folder.path().join("storage.toml");
        std::fs::write(&config, &text)?;
        Ok(Self {
            database,
            settings: Settings::from_toml(&text, "the settings of the example")?,
            log: config.with_file_name("log"),
            config,
            _redis: redis,
            _folder: folder,
        })
    }
}
