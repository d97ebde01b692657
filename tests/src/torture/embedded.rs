//! The embedded mode: one game server with everything inside it. It is killed, stopped, closed and
//! opened again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rustix::process::Signal;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Executor as _};
use storage_config::Settings;
use storage_sdk::Storage;
use tempfile::TempDir;
use tokio::time::sleep;

use super::arena::settings;
use super::args::Args;
use super::children::Program;
use super::crew::{Game, Orders};
use super::faults::{Fault, Group, Phase};
use super::finals::read_all;
use super::history::{self, Call, End, Operation};
use super::moment::{micros, now};
use super::nemesis::{self, Planned};
use super::oracle::judge::Values;
use super::oracle::{Finals, Flaw, Rewind, judge};
use super::report::Report;
use super::run::{begin, keep};
use crate::rows;

/// One game server and its file.
struct Arena {
    game: Game,
    database: String,
    settings: Settings,
    folder: TempDir,
    rewinds: Vec<Rewind>,
}

impl Arena {
    fn start(args: &Args, exe: &Path) -> Result<Self> {
        let folder =
            TempDir::with_prefix("storage-torture-").context("cannot make a temporary folder")?;
        let database = format!("sqlite:{}", folder.path().join("game.db").display());
        let text = settings("memory:", &database, false);
        let config = folder.path().join("game.toml");
        std::fs::write(&config, &text)?;
        let program = Program {
            path: exe.to_owned(),
            folder: folder.path().to_owned(),
        };
        let orders = Orders {
            seed: args.seed,
            servers: 1,
            poison: false,
            large: false,
        };
        let game = Game::start(&program, &config, 0, orders)?;
        Ok(Self {
            game,
            database,
            settings: Settings::from_toml(&text, "torture")?,
            folder,
            rewinds: Vec::new(),
        })
    }

    async fn inject(&mut self, fault: Fault, rng: &mut StdRng) -> Result<Option<Phase>> {
        // The game server plays for a while before it is hit again.
        sleep(Duration::from_millis(rng.random_range(300..1_500))).await;
        match fault {
            Fault::GameKill => {
                let down = now();
                self.game.running.kill().await?;
                // The landed data survives. All other data may be lost.
                let rows = rows(&self.database)
                    .await?
                    .into_iter()
                    .map(|row| (row.name.clone(), row))
                    .collect();
                self.rewinds.push(Rewind {
                    down,
                    up: now(),
                    rows,
                });
                self.game.restart()?;
            }
            Fault::GamePause => {
                self.game.running.signal(Signal::STOP)?;
                sleep(Duration::from_millis(rng.random_range(200..3_000))).await;
                self.game.running.signal(Signal::CONT)?;
            }
            Fault::FileLock => {
                let mut foreign = SqliteConnection::connect(&self.database).await?;
                foreign.execute("BEGIN IMMEDIATE").await?;
                sleep(Duration::from_millis(rng.random_range(300..2_500))).await;
                foreign.execute("ROLLBACK").await?;
                foreign.close().await?;
            }
            _ => {
                self.close().await?;
                self.game.restart()?;
            }
        }
        Ok(Some(Phase::Writing))
    }

    async fn close(&mut self) -> Result<()> {
        let status = self.game.close().await?;
        ensure!(
            status.success(),
            "the game server ended with {status}: {}",
            self.game.running.tail()
        );
        Ok(())
    }

    fn operations(&self) -> Result<Vec<Operation>> {
        let grace = micros(self.settings.hot.operation_deadline) + 1_000_000;
        let mut operations = Vec::new();
        for (path, process) in self.game.histories() {
            if path.exists() {
                operations.extend(history::read(&path, process, grace)?);
            }
        }
        Ok(operations)
    }

    async fn finals(&self, operations: &[Operation]) -> Result<Finals> {
        let owners: BTreeSet<String> = operations
            .iter()
            .map(|one| one.owner.clone())
            .filter(|owner| !owner.is_empty())
            .collect();
        let rows = rows(&self.database)
            .await?
            .into_iter()
            .map(|row| (row.name.clone(), row))
            .collect();
        let storage = Storage::open(self.settings.clone()).await?;
        let cold = read_all(&storage, &owners).await?;
        let hot: Values = read_all(&storage, &owners).await?;
        storage.close(Duration::from_secs(10)).await;
        Ok(Finals { rows, hot, cold })
    }
}

/// V8: a storage that closed in order has landed everything.
fn closings(operations: &[Operation]) -> Vec<Flaw> {
    let closed =
        operations
            .iter()
            .filter_map(|operation| match (&operation.call, &operation.end) {
                (Call::Close, End::Done(left)) if *left > 0 => Some((operation, left)),
                _ => None,
            });
    closed
        .map(|(operation, left)| {
            Flaw::new(
                "V8",
                "",
                format!("generation {} closed with {left} left", operation.process.1),
            )
        })
        .collect()
}

/// One run of the embedded mode.
///
/// # Errors
/// The run itself fails.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    let faults = args.faults()?;
    let mut arena = Arena::start(args, exe)?;
    let time = Duration::from_secs(args.seconds);
    let plan = nemesis::plan(&faults, Group::Process, time, args.seed);
    let inject = async |planned: Planned, rng: &mut StdRng| arena.inject(planned.fault, rng).await;
    let mut injections = nemesis::torment(args, &faults, Group::Process, &plan, inject).await?;
    if faults.is_empty() {
        sleep(time).await;
    }
    sleep(Duration::from_millis(500)).await;
    arena.close().await?;
    let operations = arena.operations()?;
    nemesis::count_operations(&mut injections, &operations);
    let finals = arena.finals(&operations).await?;
    let mut report = begin(args, &operations, closings(&operations));
    report.faults = nemesis::coverage(&faults, &injections);
    report.missed = nemesis::missed(&plan, &injections);
    report.judged(judge(&operations, &arena.rewinds, &finals));
    keep(args, arena.folder.path())?;
    Ok(report)
}
