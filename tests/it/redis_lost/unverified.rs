//! A Redis that came back older while the database is away, and is served all the same.

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_config::Unverified;
use storage_sdk::{ByteOwner, Kind, Outcome};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, until};

/// Own servers, and what to do while the database is away.
async fn own_servers(unverified: Unverified) -> Result<(RedisServer, MariaDbServer, Stack)> {
    let redis = RedisServer::start(RedisOptions { clock: true, ..RedisOptions::default() }).await?;
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&redis.url(), &mariadb).await?;
    world.settings.redis.unverified = unverified;
    world.settings.sql.acquire_timeout = Duration::from_millis(200);
    let stack = Stack::with(world).await?;
    Ok((redis, mariadb, stack))
}

/// Players with two fields, both 20 in the database; the Redis that comes back knows of 10, and the database is away.
async fn rewound(redis: &RedisServer, mariadb: &MariaDbServer, stack: &Stack) -> Result<Vec<ByteOwner>> {
    let players: Vec<_> = (0..16).map(|id| stack.player(&id.to_string())).collect();
    let worker = stack.worker();
    for gold in ["10", "20"] {
        for player in &players {
            player.update([("gold", gold), ("bag", gold)]).await?;
        }
        stack.landed().await?;
        if gold == "10" {
            redis.call(&["SAVE"]).await?;
        }
    }
    worker.stop().await?;
    mariadb.kill()?;
    redis.kill()?;
    redis.restart().await?;
    // A write over a broken connection would be of unknown outcome, and no repeat could tell.
    for player in &players {
        let _ = player.get(["gold"]).await;
    }
    Ok(players)
}

async fn text(player: &ByteOwner, field: &str) -> Result<Option<String>> {
    Ok(player.get([field]).await?[field].as_ref().map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_to_an_older_redis_without_the_database_is_kept_and_hides_nothing_that_had_landed() -> Result<()> {
    // Also with versions that are below the landed ones, since the clock was set back.
    for back in [0, -3_600] {
        let (redis, mariadb, stack) = own_servers(Unverified::Serve).await?;
        let players = rewound(&redis, &mariadb, &stack).await?;
        redis.skew(back)?;
        for player in &players {
            assert_eq!(text(player, "gold").await?.as_deref(), Some("10"), "it is served as it is");
        }
        for (id, player) in players.iter().enumerate() {
            match id % 4 {
                0 => drop(player.update([("gold", "30")]).await?),
                1 => assert_eq!(player.incr("gold", 5).await?.value(), 15, "it builds on what Redis has"),
                2 => drop(player.remove(["gold"]).await?),
                _ => {}
            }
        }
        assert!(stack.storage.stats().await?.unverified_partitions > 0);

        mariadb.restart().await?;
        let worker = stack.worker();
        until("it was compared", async || Ok(stack.storage.stats().await?.unverified_partitions == 0)).await?;
        stack.landed().await?;
        for (id, player) in players.iter().enumerate() {
            let gold = [Some("30"), Some("15"), None, Some("20")][id % 4];
            assert_eq!(text(player, "gold").await?.as_deref(), gold, "player {id}, clock {back}");
            assert_eq!(text(player, "bag").await?.as_deref(), Some("20"), "player {id}, clock {back}: it had landed");
            assert_eq!(player.incr("bag", 1).await?.value(), 21);
        }
        stack.landed().await?;
        worker.stop().await?;
        for row in rows(&stack.database).await? {
            let id: usize = row.name.split('/').nth(1).unwrap_or_default().parse()?;
            let wanted = match row.name.ends_with("gold") {
                true => ["30", "15", "10", "20"][id % 4],
                false => "21",
            };
            assert_eq!(String::from_utf8_lossy(&row.value), wanted, "{}", row.name);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_nothing_is_purged_or_loaded_and_a_redis_that_lost_everything_is_not_served() -> Result<()> {
    let (redis, mariadb, stack) = own_servers(Unverified::Serve).await?;
    let players = rewound(&redis, &mariadb, &stack).await?;
    let ann = &players[0];
    ann.remove(["gold"]).await?;
    assert_eq!(ann.purge(["gold"]).await.unwrap_err().outcome(), Outcome::NotApplied);
    ann.restore(["gold"]).await?;
    assert_eq!(text(ann, "gold").await?.as_deref(), Some("10"));
    let partition = ann.owner().partition(8);
    let cold = (100..).map(|id| stack.player(&id.to_string())).find(|player| player.owner().partition(8) == partition);
    let cold = cold.context("some id is of a partition that is served")?;
    assert_eq!(cold.get(["gold"]).await.unwrap_err().kind(), Kind::ColdUnavailable);
    cold.update([("gold", "1")]).await?;
    redis.call(&["FLUSHALL"]).await?;
    assert_eq!(cold.update([("gold", "2")]).await.unwrap_err().kind(), Kind::ColdUnavailable);
    mariadb.restart().await?;
    assert_eq!(text(ann, "gold").await?.as_deref(), Some("20"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_redis_is_refused_while_the_database_is_away_if_the_settings_say_so() -> Result<()> {
    let (redis, mariadb, stack) = own_servers(Unverified::Refuse).await?;
    let players = rewound(&redis, &mariadb, &stack).await?;
    assert_eq!(players[0].get(["gold"]).await.unwrap_err().kind(), Kind::ColdUnavailable);
    assert_eq!(players[0].update([("gold", "2")]).await.unwrap_err().outcome(), Outcome::NotApplied);
    mariadb.restart().await?;
    assert_eq!(text(&players[0], "gold").await?.as_deref(), Some("20"));
    Ok(())
}
