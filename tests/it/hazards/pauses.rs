//! Workers that stand still for longer than their locks last (H26, H27, H29).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection as _, Row as _};
use storage_tests::{Stack, World, rows, until};
use tokio::process::{Child, Command};

/// A worker process.
pub(super) struct Program {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Program {
    pub(super) fn start(config: &Path, name: &str) -> Result<Self> {
        let log = config.with_extension(name);
        let child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["run", "--config"])
            .arg(config)
            .env("STORAGE__LANDING__WORKER_NAME", name)
            .stderr(std::fs::File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log,
        })
    }

    /// Waits until its log has these words.
    pub(super) async fn says(&self, words: &str) -> Result<()> {
        until(&format!("{} says {words:?}", self.name), async || {
            self.has_said(words)
        })
        .await
    }

    /// Whether its log has these words by now.
    pub(super) fn has_said(&self, words: &str) -> Result<bool> {
        Ok(std::fs::read_to_string(&self.log)?.contains(words))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id().context("the process has ended")?)?;
        Ok(rustix::process::kill_process(
            rustix::process::Pid::from_raw(id).context("a process id")?,
            signal,
        )?)
    }

    /// Waits for its end. Returns its exit code.
    pub(super) async fn ended(mut self) -> Result<Option<i32>> {
        storage_tests::stack::bounded("the process has ended", async {
            Ok(self.child.wait().await?.code())
        })
        .await
    }

    /// Waits until the worker holds all partitions, or none.
    async fn holds(&self, stack: &Stack, all: bool) -> Result<()> {
        until(
            &format!(
                "{} holds {}",
                self.name,
                if all { "all" } else { "nothing" }
            ),
            async || {
                let partitions = stack.backlog().await?.partitions;
                let mine = partitions
                    .iter()
                    .filter(|(_, peek)| peek.holder.as_ref() == Some(&self.name))
                    .count();
                Ok(mine == if all { partitions.len() } else { 0 })
            },
        )
        .await
    }
}

/// A world with short locks in both tiers, its settings file, and a table that rejects a version that
/// falls.
async fn watched_world() -> Result<(tempfile::TempDir, PathBuf, Stack)> {
    let mut world = World::fresh().await?;
    world.text = world
        .text
        .replace("lock_ttl = \"2s\"", "lock_ttl = \"1s\"")
        // A program that stands still inside a transaction keeps its locks for so long (H44).
        .replace("[landing]", "statement_timeout = \"5s\"\n[landing]");
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    // Small batches, so that a pass has many steps to stand still at.
    std::fs::write(&config, format!("{}batch_rows = 5\n", world.text))?;
    let stack = Stack::with(world).await?;
    let mut connection = MySqlConnection::connect(&stack.database).await?;
    sqlx::raw_sql(
        "CREATE TABLE fallen (field VARBINARY(255), old BIGINT UNSIGNED, new BIGINT UNSIGNED) ENGINE = InnoDB; \
         CREATE TRIGGER falling BEFORE UPDATE ON landing_rows FOR EACH ROW \
         IF NEW.up_version < OLD.up_version OR (NEW.up_version = OLD.up_version AND NEW.value <> OLD.value) THEN \
         INSERT INTO fallen VALUES (OLD.field, OLD.up_version, NEW.up_version); END IF",
    )
    .execute(&mut connection)
    .await?;
    connection.close().await?;
    Ok((folder, config, stack))
}

/// The number of rows that older ones replaced.
async fn fallen(database: &str) -> Result<i64> {
    let mut connection = MySqlConnection::connect(database).await?;
    let count = sqlx::query("SELECT COUNT(*) FROM fallen")
        .fetch_one(&mut connection)
        .await?
        .try_get(0)?;
    connection.close().await?;
    Ok(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stood_still_until_its_locks_ran_out_does_no_harm_when_it_goes_on()
-> Result<()> {
    const PAUSES: u64 = 2;
    let (_folder, config, stack) = watched_world().await?;
    let players: Vec<_> = (0..40)
        .map(|id| stack.player(&format!("{id:02}")))
        .collect();
    let mut round = 0_u64;
    let mut write = async |rounds: u64| -> Result<u64> {
        for _ in 0..rounds {
            round += 1;
            for player in &players {
                player
                    .update([("a", round.to_string()), ("b", round.to_string())])
                    .await?;
            }
        }
        Ok(round)
    };
    let sleeper = Program::start(&config, "sleeper")?;
    sleeper.holds(&stack, true).await?;
    for pause in 0..PAUSES {
        write(3).await?;
        // Each pause begins at another moment: at once, or in the middle of the pass.
        let before = stack.backlog().await?.marks();
        if pause % 2 == 1 {
            until("some of it has landed", async || {
                Ok(stack.backlog().await?.marks() < before)
            })
            .await?;
        }
        sleeper.signal(Signal::STOP)?;
        write(1).await?;
        // The locks run out. Another worker takes them all and lands the rest.
        until("nobody holds anything", async || {
            Ok(stack
                .backlog()
                .await?
                .partitions
                .iter()
                .all(|(_, peek)| peek.holder.is_none()))
        })
        .await?;
        let heir = Program::start(&config, "heir")?;
        heir.holds(&stack, true).await?;
        stack.landed().await?;
        write(1).await?;
        sleeper.signal(Signal::CONT)?;
        write(3).await?;
        stack.landed().await?;
        heir.signal(Signal::TERM)?;
        assert_eq!(heir.ended().await?, Some(0));
        sleeper.holds(&stack, true).await?;
    }
    let last = write(1).await?.to_string();
    stack.landed().await?;
    sleeper.signal(Signal::TERM)?;
    assert_eq!(sleeper.ended().await?, Some(0));
    let stored = rows(&stack.database).await?;
    assert_eq!(
        (
            stored.len(),
            stored
                .iter()
                .filter(|row| row.value == last.as_bytes())
                .count()
        ),
        (80, 80)
    );
    assert_eq!(
        fallen(&stack.database).await?,
        0,
        "a row was replaced by an older one"
    );
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    Ok(())
}
