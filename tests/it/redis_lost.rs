//! R14: a Redis that forgot is noticed, and what has landed survives.

use anyhow::Result;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack};

async fn own_redis(appendonly: bool) -> Result<(RedisServer, Stack)> {
    let redis = RedisServer::start(RedisOptions { appendonly, ..RedisOptions::default() }).await?;
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
        stored.iter().map(|row| (row.value.clone(), row.version)).collect::<Vec<_>>(),
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
    assert!(ann.update([("gold", "0")]).if_absent().await.unwrap_err().is_conflict(), "unknown is not absent");
    assert_eq!(ann.incr("gold", 5).await?.value(), 15, "a counter continues from its row");
    let after = ann.update([("name", "Bo")]).await?.version();
    assert!(after > before);
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(stored.iter().map(|row| row.value.clone()).collect::<Vec<_>>(), [b"15".to_vec(), b"Bo".to_vec()]);
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
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"10"[..]));
    assert_eq!(ann.incr("gold", 1).await?.value(), 11);
    stack.landed().await?;
    worker.stop().await
}
