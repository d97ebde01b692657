//! Programs that start at once.

use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use storage_sdk::Storage;
use storage_tests::stack::bounded;
use storage_tests::{Stack, until};
use tokio::process::Child;

use super::{config, worker_called};

/// The creation of the tables takes some of the time in which the others start.
const ROUNDS: usize = 6;

/// Three workers as processes, each with a log.
fn workers(folder: &Path, config: &Path) -> Result<Vec<(Child, std::path::PathBuf)>> {
    let names = ["first", "second", "third"];
    let start = |name| {
        let log = folder.join(name);
        anyhow::Ok((worker_called(config, name, &log)?, log))
    };
    names.into_iter().map(start).collect()
}

async fn stopped(mut worker: Child) -> Result<ExitStatus> {
    let id = i32::try_from(worker.id().context("it runs")?)?;
    kill_process(Pid::from_raw(id).context("an id")?, Signal::TERM)?;
    bounded("it ends", async { Ok(worker.wait().await?) }).await
}

/// A deployment starts everything at the same moment. Whoever comes second waits for the first.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_start_at_once_on_an_empty_database_all_work() -> Result<()> {
    for _ in 0..ROUNDS {
        let (folder, config, world) = config().await?;
        let workers = workers(folder.path(), &config)?;
        let (server, other) = tokio::join!(
            Stack::with(world.clone()),
            Storage::open(world.settings.clone())
        );
        let (server, _other) = (server?, other?);
        server.player("ann").update([("gold", "10")]).await?;
        server.landed().await?;
        for (mut worker, log) in workers {
            until("each worker lands or has ended", async || {
                Ok(worker.try_wait()?.is_some()
                    || std::fs::read_to_string(&log)?.contains(": landing"))
            })
            .await?;
            assert!(
                worker.try_wait()?.is_none(),
                "{}",
                std::fs::read_to_string(&log)?
            );
            assert!(stopped(worker).await?.success());
        }
    }
    Ok(())
}
