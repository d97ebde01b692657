//! A Redis that came back older while the database is away. It can't be compared, so nothing is
//! served from it.

use std::time::Duration;

use anyhow::Result;
use storage_sdk::{ByteOwner, Kind, Outcome};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, until};

/// Players whose gold is 20 in the database. The Redis that comes back holds 10, and the database
/// is away.
async fn rewound(
    redis: &RedisServer,
    mariadb: &MariaDbServer,
    stack: &Stack,
) -> Result<Vec<ByteOwner>> {
    let players: Vec<_> = (0..16).map(|id| stack.player(&id.to_string())).collect();
    let worker = stack.worker();
    for gold in ["10", "20"] {
        for player in &players {
            player.update([("gold", gold)]).await?;
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
    Ok(players)
}

async fn gold(player: &ByteOwner) -> Result<Option<String>> {
    Ok(player.get(["gold"]).await?["gold"]
        .as_ref()
        .map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_redis_is_refused_with_the_reason_until_the_database_answers() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&redis.url(), &mariadb).await?;
    world.settings.sql.acquire_timeout = Duration::from_millis(200);
    let stack = Stack::with(world).await?;
    let players = rewound(&redis, &mariadb, &stack).await?;

    let error = players[0].get(["gold"]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::ColdUnavailable);
    let reason = format!(
        "partition {} can't be used before it is compared with the database",
        players[0].owner().partition(8).0
    );
    assert!(error.to_string().contains(&reason), "{error}");
    for player in &players {
        for refused in [
            player.update([("gold", "30")]).await.unwrap_err(),
            player.incr("gold", 5).await.unwrap_err(),
        ] {
            assert_eq!(
                (refused.kind(), refused.outcome()),
                (Kind::ColdUnavailable, Outcome::NotApplied)
            );
        }
    }

    mariadb.restart().await?;
    until("the database answers", async || {
        Ok(gold(&players[0]).await.is_ok())
    })
    .await?;
    for player in &players {
        assert_eq!(
            gold(player).await?.as_deref(),
            Some("20"),
            "neither the old value nor a refused one"
        );
        assert_eq!(player.incr("gold", 1).await?.value(), 21);
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for row in rows(&stack.database).await? {
        assert_eq!(String::from_utf8_lossy(&row.value), "21", "{}", row.name);
    }
    Ok(())
}
