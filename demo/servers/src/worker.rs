//! A landing worker in its own process. The demo kills it while a snapshot is half settled.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use storage_dirty::{Hot, PartitionPeek};
use storage_landing::Backlog;
use storage_model::{Partition, Timestamp};
use tokio::time::{Instant, sleep, timeout};

/// The first argument of the processes in which the landing workers run.
pub(crate) const ARGUMENT: &str = "worker";

/// Becomes the worker (`exec`), and leaves a watchdog beside it. The watchdog reads a pipe, and the
/// demo holds the other end. A line means that the demo has ended the worker itself. The end of the
/// pipe means that the demo is dead, in any way. Then the watchdog kills the worker, which would
/// otherwise wait for its servers for ever.
const WATCHED: &str = r#"
exec 3<&0 0</dev/null
{ read -r line <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

/// The program `landing-worker run` as a child process. Dropping it kills it with SIGKILL.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    name: String,
    child: Child,
    watchdog: ChildStdin,
    log: PathBuf,
}

impl WorkerProcess {
    /// Starts a worker under a name. Its log goes to a file beside the settings.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn start(name: &str, settings: &Path) -> anyhow::Result<Self> {
        let log = settings.with_file_name(format!("{name}.log"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHED, "sh"])
            .arg(std::env::current_exe()?)
            .args([ARGUMENT, "run", "--config"])
            .arg(settings);
        // The file alone gives the settings, so the demo's environment is removed.
        for (variable, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STORAGE__"))
        {
            command.env_remove(variable);
        }
        command
            .env("STORAGE__LANDING__WORKER_NAME", name)
            .env("NO_COLOR", "1");
        command
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut child = command
            .spawn()
            .context("a landing worker can't be started")?;
        let watchdog = child
            .stdin
            .take()
            .context("a piped child has a standard input")?;
        Ok(Self {
            name: name.to_owned(),
            child,
            watchdog,
            log,
        })
    }

    /// Fails if the process has ended, with the end of its log.
    fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        anyhow::bail!(
            "worker {} ended with {status}: its log ends: {}",
            self.name,
            log.lines().next_back().unwrap_or_default()
        )
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // ORDER: the watchdog ends before the process id is free. Otherwise it could kill the next
        // process with this id.
        let _ = self.watchdog.write_all(b"\n");
        let _ = self.child.wait();
    }
}

/// The work of a worker that was killed in the middle of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenOver {
    /// Marks in the killed worker's snapshots. The other worker landed them.
    pub(crate) marks: u64,
    /// The number of workers that were killed until a kill came in the middle of a snapshot.
    pub(crate) kills: u32,
}

/// The interval between looks at the snapshots.
const LOOK: Duration = Duration::from_millis(1);
/// The longest wait for any step.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest number of kills until one comes in the middle of a snapshot.
const KILLS_MAX: u32 = 10;

/// Starts a second worker beside `other`, and kills it with SIGKILL while one of its snapshots is
/// half settled. Waits until `other` holds the dead worker's partitions. If the worker was faster
/// than the kill, starts and kills another one.
///
/// # Errors
/// A worker ends by itself, no kill comes at the right time, or no worker takes over.
pub(crate) async fn kill_one(
    hot: &Hot,
    other: &mut WorkerProcess,
    settings: &Path,
) -> anyhow::Result<TakenOver> {
    for kills in 1..=KILLS_MAX {
        let mut victim = WorkerProcess::start(&format!("worker-{}", kills + 1), settings)?;
        let half = timeout(PATIENCE, half_settled(hot, &mut victim))
            .await
            .context("no snapshot was ever half settled")??;
        let name = victim.name.clone();
        drop(victim);
        let left = Backlog::read(hot).await?.partitions;
        let left: Vec<_> = left
            .into_iter()
            .filter(|(_, peek)| is_held(peek, &name) && peek.snapshot > 0)
            .collect();
        if left
            .iter()
            .any(|(partition, peek)| *partition == half.partition && half.is_still(peek))
        {
            timeout(PATIENCE, taken_over(hot, other, &left))
                .await
                .context("no worker took over from the killed one")??;
            return Ok(TakenOver {
                marks: left.iter().map(|(_, peek)| peek.snapshot).sum(),
                kills,
            });
        }
    }
    anyhow::bail!("{KILLS_MAX} workers were killed, none of them in the middle of a snapshot")
}

/// A snapshot with some marks settled.
#[derive(Debug, Clone, Copy)]
struct Half {
    partition: Partition,
    /// Distinguishes it from the partition's next snapshot.
    oldest: Option<Timestamp>,
    /// Its number of marks at the first look.
    whole: u64,
}

impl Half {
    fn is_still(&self, peek: &PartitionPeek) -> bool {
        peek.oldest() == self.oldest && (1..self.whole).contains(&peek.snapshot)
    }
}

fn is_held(peek: &PartitionPeek, worker: &str) -> bool {
    peek.holder.as_deref() == Some(worker)
}

/// Waits until one of the worker's snapshots is smaller than at its first look.
async fn half_settled(hot: &Hot, worker: &mut WorkerProcess) -> anyhow::Result<Half> {
    let mut seen: BTreeMap<Partition, Half> = BTreeMap::new();
    loop {
        worker.check()?;
        for (partition, peek) in Backlog::read(hot).await?.partitions {
            if peek.snapshot == 0 || !is_held(&peek, &worker.name) {
                seen.remove(&partition);
                continue;
            }
            let first = Half {
                partition,
                oldest: peek.oldest(),
                whole: peek.snapshot,
            };
            let half = seen.entry(partition).or_insert(first);
            if half.oldest != peek.oldest() {
                *half = first;
            }
            if half.is_still(&peek) {
                return Ok(*half);
            }
        }
        sleep(LOOK).await;
    }
}

/// Waits until a worker holds these partitions and has finished their leftover snapshots.
async fn taken_over(
    hot: &Hot,
    worker: &mut WorkerProcess,
    left: &[(Partition, PartitionPeek)],
) -> anyhow::Result<()> {
    let mut open: BTreeMap<Partition, &PartitionPeek> = left
        .iter()
        .map(|(partition, peek)| (*partition, peek))
        .collect();
    let started = Instant::now();
    while !open.is_empty() {
        worker.check()?;
        for (partition, peek) in Backlog::read(hot).await?.partitions {
            let is_finished =
                |before: &&PartitionPeek| peek.snapshot == 0 || peek.oldest() != before.oldest();
            if is_held(&peek, &worker.name) && open.get(&partition).is_some_and(is_finished) {
                open.remove(&partition);
            }
        }
        sleep(LOOK).await;
    }
    tracing::debug!(
        takeover_ms = started.elapsed().as_millis(),
        "the snapshots of the killed worker are finished"
    );
    Ok(())
}
