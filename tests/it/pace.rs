//! The load that a worker puts on the database follows the database's speed.

use std::time::Duration;

use anyhow::Result;
use storage_tests::proxy::{Link, Weather};
use storage_tests::{Stack, World, rows, stack, until};

/// The largest batch. It is so small that a few writes make many batches.
const ROWS: u32 = 64;
const OWNERS: u32 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn the_pace_falls_while_the_database_is_slow_and_rises_again_after_it() -> Result<()> {
    let (redis, mariadb) = (stack::redis().await?, stack::mariadb().await?);
    let link = Link::start(mariadb.port()).await?;
    let direct = World::fresh().await?;
    let behind = direct
        .database
        .replace(&mariadb.port().to_string(), &link.port().to_string());
    let mut world = World::with_urls(&redis.url(), &behind, &direct.settings.redis.prefix)?;
    (
        world.settings.landing.batch_rows,
        world.settings.landing.connections,
    ) = (ROWS, 2);
    let stack = Stack::with(world).await?;
    let worker = stack.worker();

    let pace = || (worker.pace().rows(), worker.pace().transactions());
    let all = (usize::try_from(ROWS)?, 2);
    let mut round = 0_u32;
    // Writes precede each look, so that there is always something to land.
    let mut play = async |what: &str, holds: &dyn Fn() -> bool| {
        let look = async || {
            round += 1;
            for id in 0..OWNERS {
                stack
                    .player(&id.to_string())
                    .update([("round", round.to_string())])
                    .await?;
            }
            Ok(holds())
        };
        until(what, look).await
    };
    play("all that is allowed is asked of a fast database", &|| {
        pace() == all
    })
    .await?;
    link.set(Weather::Delayed(Duration::from_millis(20)));
    play("less is asked of a slow one", &|| {
        pace().0 <= all.0 / 4 && pace().1 == 1
    })
    .await?;
    link.set(Weather::Fair);
    play("all is asked again", &|| pace() == all).await?;

    stack.landed().await?;
    worker.stop().await?;
    let last = round.to_string();
    let stored = rows(&direct.database).await?;
    assert_eq!(
        stored
            .iter()
            .filter(|row| row.value == last.as_bytes())
            .count(),
        usize::try_from(OWNERS)?
    );
    Ok(())
}
