//! Real servers and two worker processes. One worker is killed in the middle of its work.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use storage_demo::game::{self, Plan};
use storage_demo::table::{Run, Table, grouped};
use storage_demo::{progress, verify};
use storage_sdk::{Settings, Storage};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::rows;
use crate::worker::{WorkerProcess, kill_one};

/// With fewer players, the workers have too little to do for a kill in the middle of a snapshot.
const PLAYERS_MIN: u32 = 100;

/// A Redis and a database for this run, and settings for them.
struct Stage {
    _redis: RedisServer,
    database: MariaDbServer,
    settings: Settings,
    /// The settings as a file, for the workers. The folder is dropped last.
    file: PathBuf,
    _folder: TempDir,
}

impl Stage {
    async fn set() -> anyhow::Result<Self> {
        let (redis, database) = tokio::try_join!(
            RedisServer::start(RedisOptions::default()),
            MariaDbServer::start(MariaDbOptions::default())
        )?;
        // Few partitions and small batches, so that a snapshot takes several batches. Locks expire
        // soon.
        let text = format!(
            "[redis]\nurl = {:?}\nprefix = \"demo\"\npartitions = 8\n\n[sql]\nurl = {:?}\n\n\
             [landing]\nbatch_rows = 10\nlock_ttl = \"2s\"\n",
            redis.url(),
            database.url()
        );
        let settings = Settings::from_toml(&text, "the demo's settings")?;
        let folder = TempDir::with_prefix("landing-demo-").context("a temporary folder")?;
        let file = folder.path().join("storage.toml");
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        Ok(Self {
            _redis: redis,
            database,
            settings,
            file,
            _folder: folder,
        })
    }

    /// Rows written to the database since its start, as it counts them.
    async fn rows_written(&self) -> anyhow::Result<u64> {
        let status = self
            .database
            .sql("SHOW GLOBAL STATUS LIKE 'Handler_write'")
            .await?;
        let count = status
            .split_whitespace()
            .next_back()
            .context("the database does not count its rows")?;
        Ok(count.parse()?)
    }
}

/// Plays on real servers while a worker is killed, and compares.
///
/// # Errors
/// Too few players, a server is not installed or does not start, the storage fails, or no worker
/// could be killed in the middle.
pub(crate) async fn run(plan: Plan, time: Duration, bar: &ProgressBar) -> anyhow::Result<Table> {
    anyhow::ensure!(
        plan.players >= PLAYERS_MIN,
        "--players {} is too few: a snapshot must take several batches, so let {PLAYERS_MIN} or more play",
        plan.players
    );
    bar.set_message("starting Redis and the database");
    let stage = Stage::set().await?;
    let storage = Storage::open(stage.settings.clone()).await?;
    let mut worker = WorkerProcess::start("worker-1", &stage.file)?;

    let before = stage.rows_written().await?;
    let hot = storage.tiers().hot().clone();
    let over = async {
        // First the worker runs undisturbed for a quarter of the time, so that it leaves work to
        // take over.
        let killed = async {
            sleep(time / 4).await;
            kill_one(&hot, &mut worker, &stage.file).await
        };
        let ((), taken_over) = tokio::join!(sleep(time), killed);
        taken_over
    };
    let (played, taken_over) = game::play(&storage, plan, over, progress::show(bar)).await?;
    let stats = verify::landed(&storage, bar).await?;
    let rows = rows::of_database(&stage.database.url()).await?;
    let compared = verify::compare(&storage, &played, &rows).await?;
    let rows_landed = stage.rows_written().await? - before;
    storage.close(verify::CLOSE).await;

    let of = if taken_over.kills == 1 {
        String::new()
    } else {
        format!(" (at kill {})", taken_over.kills)
    };
    let more = vec![
        (
            "workers",
            format!("2 processes, one killed with SIGKILL in the middle of a snapshot{of}"),
        ),
        (
            "taken over",
            format!("{} marks, by the other worker", grouped(taken_over.marks)),
        ),
    ];
    let run = Run {
        rows_landed,
        loads_in_play: stats.hot_loads,
        more,
        end: Vec::new(),
    };
    Ok(Table::new(plan, &played, &compared, run))
}
