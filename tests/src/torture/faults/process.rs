//! Landing workers and game servers that are killed, stand still, or are asked to end.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::phase::{Phase, Watcher};
use super::{Fault, pause};
use crate::torture::arena::Arena;
use crate::torture::crew::Worker;

/// The time for which a worker is watched for the wanted phase.
const PATIENCE: Duration = Duration::from_secs(15);

/// Stops a worker in the wanted phase. Then kills it, asks it to end, or leaves it stopped for a
/// while.
pub(super) async fn worker(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let at = rng.random_range(0..arena.workers.len());
    let mut worker = arena.workers.get(at).context("a worker")?.lock().await;
    let Some(phase) = stop_in(arena, &mut worker, wanted).await? else {
        return Ok(None);
    };
    match fault {
        Fault::WorkerKill => {
            worker.running.kill().await?;
            sleep(pause(rng, 50..1_500)).await;
            worker.restart()?;
        }
        Fault::WorkerTerm => {
            worker.running.signal(Signal::CONT)?;
            let status = worker.running.terminate().await?;
            ensure!(
                status.success(),
                "a landing worker ended with {status} after SIGTERM"
            );
            worker.restart()?;
        }
        _ => {
            let ttl = arena.settings.landing.lock_ttl;
            sleep(ttl + pause(rng, 200..1_500)).await;
            worker.running.signal(Signal::CONT)?;
        }
    }
    Ok(Some(phase))
}

/// Stops a worker with SIGSTOP while its partitions are in this phase. Only a worker that stands
/// still shows whether they still are.
async fn stop_in(arena: &Arena, worker: &mut Worker, wanted: Phase) -> Result<Option<Phase>> {
    let name = worker.name();
    let mut watcher = Watcher::default();
    let mut look = async || {
        let backlog = arena.backlog().await.ok()?;
        Some(watcher.phase(&backlog, |peek| {
            peek.holder.as_deref() == Some(name.as_str())
        }))
    };
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if !look().await.is_some_and(|phase| phase.is(wanted)) {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        worker.running.signal(Signal::STOP)?;
        match look().await {
            Some(phase) if phase.is(wanted) => return Ok(Some(phase)),
            _ => worker.running.signal(Signal::CONT)?,
        }
    }
    Ok(None)
}

/// Kills a game server in the middle of its writes.
pub(super) async fn game_kill(arena: &Arena, rng: &mut StdRng) -> Result<Option<Phase>> {
    let at = rng.random_range(0..arena.games.len());
    let mut game = arena.games.get(at).context("a game server")?.lock().await;
    game.running.kill().await?;
    sleep(pause(rng, 0..800)).await;
    game.restart()?;
    // The game server plays for a while before it is killed again.
    sleep(Duration::from_millis(500)).await;
    Ok(Some(Phase::Writing))
}

/// Stops a game server for longer than its writes may take.
pub(super) async fn game_pause(arena: &Arena, rng: &mut StdRng) -> Result<Option<Phase>> {
    let at = rng.random_range(0..arena.games.len());
    let mut game = arena.games.get(at).context("a game server")?.lock().await;
    game.running.signal(Signal::STOP)?;
    let longest = u64::try_from(arena.settings.hot.operation_deadline.as_millis())? + 1_000;
    sleep(pause(rng, 200..longest)).await;
    game.running.signal(Signal::CONT)?;
    Ok(Some(Phase::Writing))
}
