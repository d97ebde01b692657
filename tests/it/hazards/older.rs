//! A Redis that comes back older than it was, while a write waits for its answer (H4, H51).

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_model::Retry;
use storage_sdk::{Counters, Outcome, Storage, Write};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Proxy, Stack, World, rows, stack, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_whose_answer_was_lost_with_its_redis_is_not_counted_twice() -> Result<()> {
    is_counted_once(async |redis, _| {
        redis.kill()?;
        redis.restart().await
    })
    .await
}

/// Somebody empties Redis, whose connections stay open, and another process is the first to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_whose_answer_was_lost_is_not_counted_twice_though_another_process_adopted() -> Result<()> {
    is_counted_once(async |redis, near| {
        redis.call(&["FLUSHALL"]).await?;
        near.player("ann").update([("name", "Ann")]).await?;
        Ok(())
    })
    .await
}

/// The first call gives up before Redis is emptied, and its caller repeats it, as the README says.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_not_counted_twice_by_a_call_that_repeats_one_which_was_given_up() -> Result<()> {
    is_repeated_in_vain(async |first| {
        let error = first.deadline(Duration::from_secs(1)).await.err().context("no answer came")?;
        assert_eq!((error.outcome(), error.retry()), (Outcome::Unknown, Retry::SameId), "{error}");
        Ok(())
    })
    .await
}

/// The first call is dropped while it waits, as by a time-out of its caller's.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_not_counted_twice_by_a_call_that_repeats_one_which_was_dropped() -> Result<()> {
    is_repeated_in_vain(async |first| {
        anyhow::ensure!(tokio::time::timeout(Duration::from_millis(500), first).await.is_err(), "no answer came");
        Ok(())
    })
    .await
}

/// A counter is incremented under an id, which is applied and lands, but `first` learns of no answer. When Redis has forgotten it, a
/// repeat under the id is told so.
async fn is_repeated_in_vain(first: impl AsyncFnOnce(Write<Counters>) -> Result<()>) -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let proxy = Proxy::start(redis.port()).await?;
    let far = World::with_urls(&format!("redis://127.0.0.1:{}", proxy.port()), &world.database, &world.settings.redis.prefix)?;
    let far = Storage::open(far.settings).await?;
    let player = far.scope("game", "eu")?.bytes().owner("player", "ann")?;
    player.update([("count", "0")]).await?;
    let near = Stack::with(world).await?;
    let worker = near.worker();
    near.landed().await?;

    let id = far.next_id();
    proxy.lose_every_reply_to(1, b"EVALSHA");
    first(player.incr("count", 1).with_id(id)).await?;
    until("it has landed", async || Ok(rows(&near.database).await?.iter().any(|row| row.value == b"1"))).await?;
    redis.call(&["FLUSHALL"]).await?;
    near.player("ann").update([("name", "Ann")]).await?;
    proxy.lose_every_reply_to(0, b"");
    for _ in 0..2 {
        let again = player.incr("count", 1).with_id(id).await.err().context("nobody can tell whether it was counted")?;
        assert_eq!((again.outcome(), again.retry()), (Outcome::Unknown, Retry::Reread), "{again}");
    }
    assert_eq!(player.get(["count"]).await?["count"].as_deref(), Some(&b"1"[..]));
    worker.stop().await
}

/// A counter is incremented, which is applied and lands; its answer does not come, nor that of any repeat, until `loss` has emptied
/// Redis.
async fn is_counted_once(loss: impl AsyncFnOnce(&RedisServer, &Stack) -> Result<()>) -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let proxy = Proxy::start(redis.port()).await?;
    let prefix = &world.settings.redis.prefix;
    let far = World::with_urls(&format!("redis://127.0.0.1:{}", proxy.port()), &world.database, prefix)?;
    let far = Storage::open(far.settings).await?;
    let player = far.scope("game", "eu")?.bytes().owner("player", "ann")?;
    player.update([("count", "0")]).await?;
    let near = Stack::with(world).await?;
    let worker = near.worker();
    near.landed().await?;

    proxy.lose_every_reply_to(1, b"EVALSHA");
    let count = async { player.incr("count", 1).deadline(Duration::from_secs(30)).await };
    let lose = async {
        let counted = async || Ok(rows(&near.database).await?.iter().any(|row| row.value == b"1"));
        until("it has landed", counted).await?;
        loss(&redis, &near).await?;
        proxy.lose_every_reply_to(0, b"");
        anyhow::Ok(())
    };
    let (counted, lost) = tokio::join!(count, lose);
    lost?;
    let error = counted.err().context("nobody can tell whether it was counted")?;
    assert_eq!((error.outcome(), error.retry()), (Outcome::Unknown, Retry::Reread), "{error}");
    assert_eq!(player.get(["count"]).await?["count"].as_deref(), Some(&b"1"[..]));
    assert_eq!(player.incr("count", 1).await?.value(), 2, "others are counted as ever");
    worker.stop().await
}
