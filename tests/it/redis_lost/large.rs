//! Owners with more rows than a load takes, in a Redis that knows nothing of them.

use anyhow::{Context as _, Result};
use storage_sdk::Kind;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack};

#[tokio::test(flavor = "multi_thread")]
async fn a_large_owner_has_the_version_of_its_newest_row_whichever_fields_are_asked_for()
-> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.hot.load_rows_max = 10;
    let stack = Stack::with(world).await?;
    let big = stack.player("big");
    let worker = stack.worker();
    let first = big
        .update((0..50).map(|number| (format!("f{number}"), "1")))
        .await?
        .version();
    stack.landed().await?;
    let newest = big.update([("f49", "2")]).await?.version();
    stack.landed().await?;
    worker.stop().await?;

    redis.call(&["FLUSHALL"]).await?;
    let read = big.get(["f7", "none"]).await?;
    assert_eq!((read.version(), read.len()), (newest, 1));
    assert_eq!(big.version().await?, newest);
    redis.call(&["FLUSHALL"]).await?;
    let refused = big
        .update([("f7", "2")])
        .if_version(first)
        .await
        .err()
        .context("the owner has changed since")?;
    assert_eq!(refused.kind(), Kind::Conflict);
    redis.call(&["FLUSHALL"]).await?;
    assert!(
        big.update([("f7", "2")])
            .if_version(newest)
            .await?
            .version()
            > newest
    );
    Ok(())
}
