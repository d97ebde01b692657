//! A Redis that forgot is noticed, and landed data survives (R14).

pub(crate) mod copies;
mod damage;
mod failover;
mod large;
mod load;
mod places;
mod uncompared;

use anyhow::Result;
use sqlx::Connection as _;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack};

async fn own_redis(appendonly: bool) -> Result<(RedisServer, Stack)> {
    let redis = RedisServer::start(RedisOptions {
        appendonly,
        ..RedisOptions::default()
    })
    .await?;
    let stack = Stack::with(World::on(&redis.url(), stack::mariadb().await?).await?).await?;
    Ok((redis, stack))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_with_its_data_goes_on_with_a_new_epoch() -> Result<()> {
    let (redis, stack) = own_redis(true).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    redis.kill()?;
    redis.restart().await?;
    let ack = ann.update([("gold", "2")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(
        stored
            .iter()
            .map(|row| (row.value.clone(), row.version))
            .collect::<Vec<_>>(),
        [(b"2".to_vec(), ack.version().get())]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_redis_lost_everything_landed_data_is_there_and_later_writes_win() -> Result<()> {
    let (redis, stack) = own_redis(false).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10"), ("name", "Ann")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    let before = ann.version().await?;
    redis.kill()?;
    redis.restart().await?;
    // A write on a connection that broke unnoticed would end unknown. A read notices and is
    // repeated.
    assert!(!stack.player("bob").exists().await?);
    let refused = ann.update([("gold", "0")]).if_absent().await.unwrap_err();
    assert!(refused.is_conflict(), "unknown is not absent: {refused:?}");
    assert_eq!(
        ann.incr("gold", 5).await?.value(),
        15,
        "a counter continues from its row"
    );
    let after = ann.update([("name", "Bo")]).await?.version();
    assert!(after > before);
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(
        stored
            .iter()
            .map(|row| row.value.clone())
            .collect::<Vec<_>>(),
        [b"15".to_vec(), b"Bo".to_vec()]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushall_in_the_middle_is_survived_like_a_wipe() -> Result<()> {
    let (redis, stack) = own_redis(true).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    redis.call(&["FLUSHALL"]).await?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..])
    );
    assert_eq!(ann.incr("gold", 1).await?.value(), 11);
    stack.landed().await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_older_never_shows_or_builds_on_less_than_what_has_landed()
-> Result<()> {
    let (redis, stack) = own_redis(false).await?;
    let players: Vec<_> = (0..40).map(|id| stack.player(&id.to_string())).collect();
    let set = async |gold: &'static str| -> Result<()> {
        for player in &players {
            player.update([("gold", gold), ("bag", gold)]).await?;
        }
        Ok(())
    };
    let worker = stack.worker();
    set("10").await?;
    stack.landed().await?;
    // Half of the older copy is unlanded, half is clean.
    worker.stop().await?;
    for player in players.iter().take(20) {
        player.update([("gold", "15")]).await?;
    }
    redis.call(&["SAVE"]).await?;
    let worker = stack.worker();
    set("20").await?;
    stack.landed().await?;
    worker.stop().await?;
    redis.kill()?;
    redis.restart().await?;

    for (id, player) in players.iter().enumerate() {
        match id % 4 {
            0 => assert_eq!(
                player.get(["gold"]).await?["gold"].as_deref(),
                Some(&b"20"[..]),
                "{id}"
            ),
            1 => assert_eq!(player.incr("gold", 1).await?.value(), 21, "{id}"),
            2 => drop(player.update([("bag", "30")]).await?),
            _ => assert_eq!(
                player.get_all().await?["bag"].as_deref(),
                Some(&b"20"[..]),
                "{id}"
            ),
        }
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for row in rows(&stack.database).await? {
        let id: usize = row.name.split('/').nth(1).unwrap_or_default().parse()?;
        let wanted = match (id % 4, row.name.ends_with("gold")) {
            (1, true) => "21",
            (2, false) => "30",
            _ => "20",
        };
        assert_eq!(String::from_utf8_lossy(&row.value), wanted, "{}", row.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_from_before_a_rewind_is_no_condition_that_holds() -> Result<()> {
    let (redis, stack) = own_redis(false).await?;
    let ann = stack.player("ann");
    let old = ann.update([("gold", "1")]).await?.version();
    let worker = stack.worker();
    stack.landed().await?;
    ann.evict().await?;
    redis.call(&["SAVE"]).await?;
    let new = ann.update([("gold", "2")]).await?.version();
    stack.landed().await?;
    worker.stop().await?;
    // Redis comes back with the old marker and without a hash.
    redis.kill()?;
    redis.restart().await?;
    // A write over a broken connection would have an unknown outcome, and no repeat could find it
    // out.
    for _ in 0..16 {
        let _ = stack.player("nobody").get(["gold"]).await;
    }
    assert!(
        ann.update([("gold", "3")])
            .if_version(old)
            .await
            .unwrap_err()
            .is_conflict(),
        "a newer version has landed"
    );
    ann.update([("gold", "4")]).if_version(new).await?;
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"4"[..]));
    Ok(())
}

/// There is no memory to keep the result of a comparison with the rows, and none becomes free
/// before something lands (R13).
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_came_back_older_and_is_full_is_landed_all_the_same() -> Result<()> {
    let (redis, stack) = own_redis(false).await?;
    let write = async |field: &'static str, value: &'static str| -> Result<()> {
        for id in 0..40 {
            let player = stack.player(&id.to_string());
            player.update([(field, value)]).await?;
        }
        Ok(())
    };
    write("bag", "1").await?;
    write("gold", "1").await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    write("gold", "2").await?;
    // A newer row of one player, as after a write that Redis forgot. The records do not show
    // whether it forgot other writes. And a row that no mark names is of another history.
    let newer = "UPDATE landing_rows SET value = '3', up_version = up_version + 1000000000 WHERE owner_id = '7' AND field = 'gold'";
    let other = "UPDATE landing_rows SET value = 'x' WHERE field = 'bag'";
    let mut connection = sqlx::MySqlConnection::connect(&stack.database).await?;
    sqlx::raw_sql(newer).execute(&mut connection).await?;
    sqlx::raw_sql(other).execute(&mut connection).await?;
    connection.close().await?;
    for partition in 0..stack.settings.redis.partitions {
        redis
            .call(&[
                "DEL",
                &format!("{}-part:{{{partition}}}", stack.settings.redis.prefix),
            ])
            .await?;
    }
    redis.call(&["CONFIG", "SET", "maxmemory", "1mb"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    let stored = rows(&stack.database).await?;
    let of = |value: &[u8]| stored.iter().filter(|row| row.value == value).count();
    // Rows or hash win as a whole (R16).
    assert_eq!((of(b"1"), of(b"2"), of(b"3"), of(b"x")), (39, 39, 1, 1));
    let read = stack.player("7").get(["bag", "gold"]).await?;
    let read = ["bag", "gold"].map(|name| read[name].as_deref());
    assert_eq!(read, [Some(&b"x"[..]), Some(&b"3"[..])]);
    worker.stop().await
}
