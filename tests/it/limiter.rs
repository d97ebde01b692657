//! How large the batches of a worker are while the database fails, and after it.

use std::time::Duration;

use anyhow::Result;
use sqlx::Connection as _;
use storage_tests::{Stack, World, rows, until};

/// The largest batch: twice the first one.
const ROWS: u32 = 128;
const OWNERS: u32 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn batches_shrink_while_the_database_fails_and_grow_again_after_it() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.batch_rows = ROWS;
    world.settings.sql.statement_timeout = Duration::from_secs(1);
    let stack = Stack::with(world).await?;
    let worker = stack.worker();

    let largest = usize::try_from(ROWS)?;
    let mut round = 0_u32;
    // Each look is preceded by writes, so that there is always something to land.
    let mut play = async |what: &str, holds: &dyn Fn(usize) -> bool| {
        let look = async || {
            round += 1;
            for id in 0..OWNERS {
                stack
                    .player(&id.to_string())
                    .update([("round", round.to_string())])
                    .await?;
            }
            Ok(holds(worker.batch_rows()))
        };
        until(what, look).await
    };
    play("batches grow to the largest one", &|rows| rows == largest).await?;
    // Each landing waits for the lock of its partition's record, until its time runs out.
    let mut locker = sqlx::mysql::MySqlConnection::connect(&stack.database).await?;
    let mut lock = locker.begin().await?;
    sqlx::query("SELECT epoch FROM landing_partition FOR UPDATE")
        .fetch_all(&mut *lock)
        .await?;
    play("batches shrink", &|rows| rows <= largest / 4).await?;
    lock.rollback().await?;
    play("batches grow again", &|rows| rows == largest).await?;

    stack.landed().await?;
    worker.stop().await?;
    let last = round.to_string();
    let stored = rows(&stack.database).await?;
    assert_eq!(
        stored
            .iter()
            .filter(|row| row.value == last.as_bytes())
            .count(),
        usize::try_from(OWNERS)?
    );
    Ok(())
}
