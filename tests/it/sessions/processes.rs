//! Sessions of game servers that run as processes and are killed, stopped, or told to end.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use storage_tests::{World, bounded, rows, stack};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A process that holds an owner, and its output.
struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The place of the settings for holders.
struct Place {
    folder: TempDir,
    database: String,
}

async fn place() -> Result<Place> {
    let world = World::fresh().await?;
    let folder = tempfile::tempdir()?;
    let text = format!(
        "{}[sessions]\nlease = \"1s\"\nname = \"game 1\"\n",
        world.text
    );
    std::fs::write(folder.path().join("storage.toml"), text)?;
    stack::mariadb().await?;
    Ok(Place {
        folder,
        database: world.database,
    })
}

impl Place {
    fn start(&self, more: &[&str]) -> Result<Holder> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holder"))
            .arg("--config")
            .arg(self.folder.path().join("storage.toml"))
            .args(["--owner", "ann"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Holder { child, lines })
    }
}

impl Holder {
    /// The number in the next line, which begins with this word.
    async fn next(&mut self, word: &str) -> Result<u64> {
        let line = bounded(word, async { Ok(self.lines.next_line().await?) })
            .await?
            .unwrap_or_default();
        let number = line
            .strip_prefix(word)
            .with_context(|| format!("{word:?} was awaited, and not {line:?}"))?;
        Ok(number.trim().parse()?)
    }

    /// The next line that begins with this word. Lines before it are skipped.
    async fn line(&mut self, word: &str) -> Result<String> {
        bounded(word, async {
            loop {
                let line = self
                    .lines
                    .next_line()
                    .await?
                    .with_context(|| format!("it ended without {word:?}"))?;
                if line.starts_with(word) {
                    return Ok(line);
                }
            }
        })
        .await
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Ok(kill_process(id.context("a process without id")?, signal)?)
    }

    /// Kills the process. Returns the last number that it reported as saved.
    async fn kill(mut self, mut last: u64) -> Result<u64> {
        self.child.start_kill()?;
        while let Some(line) =
            bounded("it ends", async { Ok(self.lines.next_line().await?) }).await?
        {
            if let Some(number) = line.strip_prefix("saved ") {
                last = number.parse()?;
            }
        }
        self.child.wait().await?;
        Ok(last)
    }
}

/// F6 and F7: another process of the same name takes its place and begins with a whole save.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_killed_leaves_whole_saves_to_the_next_of_its_name() -> Result<()> {
    let place = place().await?;
    let mut last = 0;
    for saves in [3, 10, 1, 40, 7] {
        let mut holder = place.start(&[])?;
        let begins = holder.next("begins ").await?;
        assert!(
            begins == last || begins == last + 1,
            "{last} was acknowledged, and it begins with {begins}"
        );
        last = begins;
        for _ in 0..saves {
            last = holder.next("saved ").await?;
        }
        last = holder.kill(last).await?;
    }
    Ok(())
}

/// F10: it wakes up and goes on with its work.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_stopped_for_longer_than_its_lease_writes_nothing_when_it_goes_on()
-> Result<()> {
    let place = place().await?;
    let mut first = place.start(&[])?;
    first.line("saved 5").await?;
    first.signal(Signal::STOP)?;
    // The second holder waits for the end of the lease.
    let mut second = place.start(&[])?;
    let begins = second.next("begins ").await?;
    assert!(begins >= 5, "5 was acknowledged");
    second.line(&format!("saved {}", begins + 3)).await?;
    first.signal(Signal::CONT)?;
    assert_eq!(first.line("lost").await?, "lost game_1 took the owner");
    first.line("closed").await?;
    second.signal(Signal::TERM)?;
    assert_eq!(second.line("closed").await?, "closed 1 0 0");
    let mut third = place.start(&[])?;
    assert!(third.next("begins ").await? >= begins + 3);
    third.signal(Signal::TERM)?;
    third.line("closed").await?;
    Ok(())
}

/// F5.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_end_saves_its_last_edit_and_another_one_lands_it() -> Result<()> {
    let place = place().await?;
    let mut holder = place.start(&[])?;
    holder.line("saved 5").await?;
    holder.signal(Signal::TERM)?;
    assert_eq!(holder.line("closed").await?, "closed 1 0 0");
    // At once, without waiting for a lease.
    let mut next = place.start(&[])?;
    let begins = next.next("begins ").await?;
    assert!(begins >= 5);
    next.signal(Signal::TERM)?;
    next.line("closed").await?;
    assert_eq!(rows(&place.database).await?.len(), 0, "no worker runs here");
    Ok(())
}
