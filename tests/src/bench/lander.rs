//! Landing workers as processes that can be held and let go. With them, landing is measured from a
//! full dirty map to an empty one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use tokio::time::sleep;

use super::place::Place;
use crate::torture::children::Running;

/// Settings of workers that are held. Each wakes up as soon as it is let go, and its locks outlive
/// that.
pub const HELD: &str = "[landing]\ninterval = \"50ms\"\nlock_ttl = \"10min\"\n\
                        [backpressure]\nsoft_marks = 0\nhard_marks = 0\n";
/// The time between two looks whether everything has landed.
const LOOK: Duration = Duration::from_millis(1);
/// The longest time that landing can take.
const PATIENCE: Duration = Duration::from_mins(60);

/// The message in a worker's log each time that it waits because a tier is away.
const AWAY: &str = "landing waits and tries again";

/// Starts a worker of this name.
///
/// # Errors
/// The worker can't be started.
pub fn worker(place: &Place, name: &str) -> Result<Running> {
    let config = place.config.display().to_string();
    let args = ["worker", "run", "--config", &config].map(str::to_owned);
    Running::start(
        &place.program,
        &args,
        &[("STORAGE__LANDING__WORKER_NAME", name)],
        &log(name),
    )
}

fn log(name: &str) -> String {
    format!("{name}.log")
}

/// Some workers of one place.
#[derive(Debug)]
pub struct Landers {
    workers: Vec<Running>,
    logs: Vec<PathBuf>,
    maps: DirtyMaps,
    /// The pause of a worker that found nothing. A held worker that is let go after this time
    /// begins at once.
    interval: Duration,
    held: Option<Instant>,
}

impl Landers {
    /// Starts this number of workers.
    ///
    /// # Errors
    /// A worker can't be started.
    pub async fn start(place: &Place, count: usize) -> Result<Self> {
        let names: Vec<String> = (0..count).map(|number| format!("worker{number}")).collect();
        let workers = names
            .iter()
            .map(|name| worker(place, name))
            .collect::<Result<_>>()?;
        let logs = names
            .iter()
            .map(|name| place.program.folder.join(log(name)))
            .collect();
        let interval = place.settings.landing.interval;
        Ok(Self {
            workers,
            logs,
            maps: DirtyMaps::of(place).await?,
            interval,
            held: None,
        })
    }

    /// Their processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.workers.iter().filter_map(Running::pid).collect()
    }

    /// The number of times that they have waited so far because a tier was away, by their logs.
    ///
    /// # Errors
    /// A log can't be read.
    pub fn waits(&self) -> Result<usize> {
        let count = |log: &PathBuf| anyhow::Ok(std::fs::read_to_string(log)?.matches(AWAY).count());
        self.logs.iter().map(count).sum()
    }

    /// Whether they are stopped.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Waits until everything has landed, then stops the workers in their places.
    ///
    /// # Errors
    /// A worker has ended, or the rest does not land.
    pub async fn hold(&mut self) -> Result<()> {
        if self.held.is_none() {
            self.landed().await?;
            // The last answers are read and the next pause has begun.
            sleep(Duration::from_millis(10)).await;
            for worker in &mut self.workers {
                worker.signal(Signal::STOP)?;
            }
            self.held = Some(Instant::now());
        }
        Ok(())
    }

    /// Lets them go on. They begin at once, since their pause is over by now.
    ///
    /// # Errors
    /// A worker has ended.
    pub fn let_go(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.signal(Signal::CONT)?;
        }
        self.held = None;
        Ok(())
    }

    /// Lets them end in order and give their locks back.
    ///
    /// # Errors
    /// A worker has ended before, or does not end.
    pub async fn stop(mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.terminate().await?;
        }
        Ok(())
    }

    /// Waits until the pause in which they were held is over.
    pub async fn rested(&self) {
        if let Some(held) = self.held {
            sleep(self.interval.saturating_sub(held.elapsed())).await;
        }
    }

    /// Waits until no mark is left.
    ///
    /// # Errors
    /// Landing takes more than an hour, or Redis does not answer.
    pub async fn landed(&mut self) -> Result<()> {
        let waited = self.maps.empty().await;
        waited.with_context(|| {
            self.workers
                .iter()
                .map(Running::tail)
                .collect::<Vec<_>>()
                .join("; ")
        })
    }
}

/// The dirty maps and snapshots of a place.
#[derive(Debug)]
pub struct DirtyMaps {
    connection: MultiplexedConnection,
    keys: Vec<String>,
}

impl DirtyMaps {
    /// The maps of a place.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn of(place: &Place) -> Result<Self> {
        Ok(Self {
            connection: place.plain().await?,
            keys: place.dirty_keys(),
        })
    }

    /// Waits until none of them holds a mark. Each look is one cheap command.
    ///
    /// # Errors
    /// Landing takes more than an hour, or Redis does not answer.
    pub async fn empty(&mut self) -> Result<()> {
        let begun = Instant::now();
        while redis::cmd("EXISTS")
            .arg(&self.keys)
            .query_async::<u64>(&mut self.connection)
            .await?
            > 0
        {
            ensure!(
                begun.elapsed() < PATIENCE,
                "not everything has landed within {PATIENCE:?}"
            );
            sleep(LOOK).await;
        }
        Ok(())
    }
}
