//! Workers that are told to stop in the middle of any work (H48).

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use sqlx::Connection as _;
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::{Stack, World, rows, stack, until};

use super::pauses::Program;

/// A world with a database of its own, and its settings file with this limit in seconds for a
/// statement.
async fn own_database(
    seconds: u32,
) -> Result<(MariaDbServer, tempfile::TempDir, std::path::PathBuf, Stack)> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let sql = format!("statement_timeout = \"{seconds}s\"\nacquire_timeout = \"1s\"\n[landing]");
    std::fs::write(&config, world.text.replace("[landing]", &sql))?;
    Ok((mariadb, folder, config, Stack::with(world).await?))
}

async fn play(stack: &Stack, value: &str) -> Result<()> {
    for id in 0..40 {
        stack
            .player(&id.to_string())
            .update([("gold", value.to_owned())])
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_with_0_at_any_moment_and_gives_its_locks_back() -> Result<()> {
    let (mariadb, _folder, config, stack) = own_database(5).await?;
    let free = async || {
        anyhow::Ok(
            stack
                .backlog()
                .await?
                .partitions
                .iter()
                .all(|(_, peek)| peek.holder.is_none()),
        )
    };
    for round in 0..6_u32 {
        play(&stack, &round.to_string()).await?;
        let worker = Program::start(&config, "stopped")?;
        let marks = stack.backlog().await?.marks();
        match round {
            // Before the worker holds a partition, once it does, and in the middle of landing.
            0 => worker.says("landing").await?,
            1 => until("it holds something", async || Ok(!free().await?)).await?,
            2 | 3 => {
                until("it has begun", async || {
                    Ok(stack.backlog().await?.marks() < marks)
                })
                .await?
            }
            // While the database does not answer: the worker gives up a batch that hangs after its
            // limit.
            4 => {
                stack.landed().await?;
                mariadb.pause()?;
                play(&stack, "late").await?;
                let taken = async || {
                    anyhow::Ok(
                        stack
                            .backlog()
                            .await?
                            .partitions
                            .iter()
                            .any(|(_, peek)| peek.snapshot > 0),
                    )
                };
                // Before a batch it may compare the tiers, which fails after the same limit.
                let waits = async || {
                    Ok(taken().await? || worker.has_said("landing waits and tries again")?)
                };
                until("it waits for the database", waits).await?;
            }
            _ => stack.landed().await?,
        }
        worker.signal(Signal::TERM)?;
        assert_eq!(worker.ended().await?, Some(0), "round {round}");
        assert!(free().await?, "round {round}: locks are left");
        mariadb.resume()?;
    }
    play(&stack, "last").await?;
    the_next_lands(&config, &stack, "last").await
}

/// If a lock ran out while the batch is under way, another worker would land the batch once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_to_stop_keeps_its_locks_until_its_batch_is_finished() -> Result<()> {
    let (mariadb, _folder, config, stack) = own_database(60).await?;
    let worker = Program::start(&config, "stops")?;
    play(&stack, "1").await?;
    stack.landed().await?;
    let locker = locked(&mariadb, &stack).await?;
    worker.signal(Signal::TERM)?;
    worker.says("a second signal exits at once").await?;
    let told = stack.backlog().await?.now;
    // Twice as long as locks last.
    until("locks would have run out", async || {
        Ok(stack.backlog().await?.now.since(told) > Duration::from_secs(4))
    })
    .await?;
    let backlog = stack.backlog().await?;
    let holders = backlog
        .partitions
        .iter()
        .map(|(_, peek)| peek.holder.as_deref());
    assert!(
        holders.clone().all(|holder| holder == Some("stops")),
        "{:?}",
        holders.collect::<Vec<_>>()
    );
    locker.close().await?;
    assert_eq!(worker.ended().await?, Some(0));
    Ok(())
}

/// The next worker lands the rest. Then the row of every player has this value.
async fn the_next_lands(config: &Path, stack: &Stack, value: &str) -> Result<()> {
    let worker = Program::start(config, "next")?;
    stack.landed().await?;
    worker.signal(Signal::TERM)?;
    assert_eq!(worker.ended().await?, Some(0));
    let stored = rows(&stack.database).await?;
    assert_eq!(
        (
            stored.len(),
            stored
                .iter()
                .filter(|row| row.value == value.as_bytes())
                .count()
        ),
        (40, 40)
    );
    Ok(())
}

/// The number of statements that wait for a locked table.
const WAITS: &str =
    "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'";

/// Lets a worker wait for the database in the middle of a batch, until the returned connection is
/// closed.
async fn locked(mariadb: &MariaDbServer, stack: &Stack) -> Result<sqlx::MySqlConnection> {
    let mut locker = sqlx::MySqlConnection::connect(&stack.database).await?;
    sqlx::raw_sql("LOCK TABLES landing_rows WRITE")
        .execute(&mut locker)
        .await?;
    play(stack, "2").await?;
    until("it is at a batch", async || {
        Ok(mariadb.sql(WAITS).await?.trim() != "0")
    })
    .await?;
    Ok(locker)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_game_server_closes_at_its_deadline_though_the_database_does_not_answer() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    world.settings.sql.statement_timeout = Duration::from_hours(1);
    let stack = Stack::with(world).await?;
    let mut locker = sqlx::MySqlConnection::connect(&stack.database).await?;
    sqlx::raw_sql("LOCK TABLES landing_rows WRITE")
        .execute(&mut locker)
        .await?;
    let cold = stack.player("cold");
    let reading = tokio::spawn(async move { cold.get_all().await });
    until("it is read", async || {
        Ok(mariadb.sql(WAITS).await?.trim() != "0")
    })
    .await?;
    // The read would wait as long as a statement may take.
    stack.storage.close(Duration::ZERO).await;
    reading.abort();
    Ok(locker.close().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_worker_in_the_middle_of_a_batch_and_the_next_one_goes_on()
-> Result<()> {
    let (mariadb, _folder, config, stack) = own_database(60).await?;
    let hangs = Program::start(&config, "hangs")?;
    play(&stack, "1").await?;
    stack.landed().await?;
    let locker = locked(&mariadb, &stack).await?;
    hangs.signal(Signal::TERM)?;
    hangs.says("a second signal exits at once").await?;
    hangs.signal(Signal::TERM)?;
    assert_eq!(hangs.ended().await?, Some(130));
    locker.close().await?;
    the_next_lands(&config, &stack, "2").await
}
