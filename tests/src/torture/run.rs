//! One run, from the start of the servers to the verdict.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use storage_coalesce::locked;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::arena::Arena;
use super::args::{Args, Topology};
use super::faults::Group;
use super::history::{self, Operation};
use super::nemesis::{self, Injection, Planned};
use super::oracle::{Flaw, judge};
use super::report::{Operations, Report};
use super::{balance, embedded, finals};

/// The time for which all processes play on after the last fault.
const AFTERWARDS: Duration = Duration::from_millis(1_500);

/// Plays, torments, heals, drains, compares. `exe` is this program, or one with its hidden
/// subcommands.
///
/// # Errors
/// The run itself fails: a server does not start, or a fault can't be made.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    let report = match args.topology {
        Topology::Embedded => embedded::run(args, exe).await?,
        _ => on_servers(args, exe).await?,
    };
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report)
}

async fn on_servers(args: &Args, exe: &Path) -> Result<Report> {
    let faults = args.faults()?;
    let arena = Arena::start(args, &faults, exe).await?;
    let time = Duration::from_secs(args.seconds);
    let groups = [Group::Process, Group::Hot, Group::Cold];
    let plans: Vec<Vec<Planned>> = groups
        .iter()
        .map(|group| nemesis::plan(&faults, *group, time, args.seed))
        .collect();
    let mut injections: Vec<Injection> = Vec::new();
    let (stop, stopped) = oneshot::channel();
    let database = arena.database.clone();
    let watching = tokio::spawn(async move { balance::watch(&database, stopped).await });
    let torments = groups.iter().zip(&plans).map(|(group, plan)| {
        let inject = async |planned: Planned, rng: &mut StdRng| {
            planned.fault.inject(&arena, planned.phase, rng).await
        };
        nemesis::torment(args, &faults, *group, plan, inject)
    });
    let tormented = futures::future::try_join_all(torments).await;
    if faults.is_empty() {
        sleep(time).await;
    }
    for tormented in tormented? {
        injections.extend(tormented);
    }
    sleep(AFTERWARDS).await;
    eprintln!("all is well again; draining");

    let mut flaws = stop_games(&arena).await?;
    let drained = finals::drained(&arena).await;
    drop(stop);
    let (looks, uneven) = watching.await?;
    eprintln!("a reader by SQL added up all purses {looks} times");
    flaws.extend(uneven);
    flaws.extend(stop_workers(&arena).await?);
    let operations = read_histories(&arena).await?;
    nemesis::count_operations(&mut injections, &operations);
    let owners: BTreeSet<String> = operations
        .iter()
        .map(|one| one.owner.clone())
        .filter(|owner| !owner.is_empty())
        .collect();
    let (finals, drain_seconds) = match drained {
        Ok(time) => {
            let (finals, seen) = finals::look(&arena, &owners).await?;
            flaws.extend(seen);
            (finals, time.as_secs_f64())
        }
        Err(flaw) => {
            flaws.push(flaw);
            (
                finals::look(&arena, &owners)
                    .await
                    .map(|(finals, _)| finals)
                    .unwrap_or_default(),
                0.0,
            )
        }
    };
    let mut rewinds = locked(&arena.rewinds).clone();
    rewinds.sort_by_key(|rewind| rewind.down);
    let plan: Vec<Planned> = plans.concat();
    let mut report = begin(args, &operations, flaws);
    report.drain_seconds = drain_seconds;
    report.dropped = finals::dropped(&arena).await?;
    report.faults = nemesis::coverage(&faults, &injections);
    report.missed = nemesis::missed(&plan, &injections);
    report.judged(judge(&operations, &rewinds, &finals));
    keep(args, arena.folder.path())?;
    Ok(report)
}

/// A report without a judgement.
pub(super) fn begin(args: &Args, operations: &[Operation], flaws: Vec<Flaw>) -> Report {
    Report {
        seed: args.seed,
        seconds: args.seconds,
        topology: args.topology,
        operations: Operations::of(operations),
        faults: Vec::new(),
        drain_seconds: 0.0,
        dropped: 0,
        fields: 0,
        undecided: 0,
        reads_compared: 0,
        flaws,
        missed: Vec::new(),
    }
}

async fn stop_games(arena: &Arena) -> Result<Vec<Flaw>> {
    let mut flaws = Vec::new();
    for game in &arena.games {
        let mut game = game.lock().await;
        let status = game.close().await?;
        if !status.success() {
            flaws.push(Flaw::new(
                "V8",
                "",
                format!("a game server ended with {status}: {}", game.running.tail()),
            ));
        }
    }
    Ok(flaws)
}

async fn stop_workers(arena: &Arena) -> Result<Vec<Flaw>> {
    let mut flaws = Vec::new();
    for worker in &arena.workers {
        let mut worker = worker.lock().await;
        let status = worker.running.terminate().await?;
        if !status.success() {
            flaws.push(Flaw::new(
                "V8",
                "",
                format!(
                    "a landing worker ended with {status}: {}",
                    worker.running.tail()
                ),
            ));
        }
    }
    Ok(flaws)
}

async fn read_histories(arena: &Arena) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    for game in &arena.games {
        for (path, process) in game.lock().await.histories() {
            if path.exists() {
                operations.extend(history::read(&path, process, arena.grace())?);
            }
        }
    }
    Ok(operations)
}

/// Copies histories and logs to the requested folder.
///
/// # Errors
/// A file can't be copied.
pub fn keep(args: &Args, folder: &Path) -> Result<()> {
    let Some(to) = &args.keep else { return Ok(()) };
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
