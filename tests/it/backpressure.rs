//! The game server writes faster than the worker lands. The SDK delays writes and then rejects
//! them. No write is lost, and the back-pressure ends by itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_sdk::{Error, Kind, Outcome, Retry};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack, until};

/// A stack with watermarks that a test reaches at once.
async fn slowed(mut world: World) -> Result<Stack> {
    let backpressure = &mut world.settings.backpressure;
    (backpressure.soft_marks, backpressure.hard_marks) = (20, 60);
    backpressure.delay_max = Duration::from_millis(5);
    backpressure.interval = Duration::from_millis(10);
    Stack::with(world).await
}

fn is_overloaded(error: &Error) -> bool {
    error.kind() == Kind::Overloaded
        && error.outcome() == Outcome::NotApplied
        && matches!(error.retry(), Retry::After(_))
}

/// Writes new players until a write is rejected. Returns the number of acknowledged writes.
async fn fill(stack: &Stack, name: &str, value: &[u8]) -> Result<(usize, Error)> {
    for number in 0.. {
        let player = stack.player(&format!("{name}{number}"));
        if let Err(error) = player.update([("v", value.to_vec())]).await {
            return Ok((number, error));
        }
    }
    anyhow::bail!("there are no more numbers")
}

async fn accepted_again(stack: &Stack) -> Result<()> {
    until("writes are accepted again", async || {
        Ok(stack.player("again").update([("v", "2")]).await.is_ok())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_hard_watermark_writes_are_refused_and_all_else_goes_on_until_landing_has_caught_up()
-> Result<()> {
    let stack = slowed(World::fresh().await?).await?;
    let ann = stack.player("ann");
    let id = stack.storage.next_id();
    ann.incr("gold", 1).id(id).await?;
    let (acknowledged, error) = fill(&stack, "p", b"1").await?;
    ensure!(
        is_overloaded(&error) && error.to_string().contains("marks wait to be landed"),
        "{error:?}"
    );
    assert_eq!(stack.storage.stats().await?.backpressure_percent, 100);
    let bulk = stack
        .storage
        .world("game", "eu")?
        .bytes()
        .bulk()
        .incr(&ann, "gold", 1)
        .await;
    ensure!(
        bulk.iter()
            .all(|each| each.as_ref().is_err_and(is_overloaded)),
        "{bulk:?}"
    );

    assert_eq!(
        ann.incr("gold", 1).id(id).await?.value(),
        1,
        "a repeat gets the result of the first"
    );
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"1"[..]));
    ann.flush(Duration::from_secs(30)).await?;
    let worker = stack.worker();
    accepted_again(&stack).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), acknowledged + 2);
    until("nothing presses any more", async || {
        Ok(stack.storage.stats().await?.backpressure_percent == 0)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn between_the_watermarks_writes_are_only_slowed_down() -> Result<()> {
    let stack = slowed(World::fresh().await?).await?;
    for number in 0..40 {
        stack
            .player(&number.to_string())
            .update([("v", "1")])
            .await?;
    }
    until("it was seen", async || {
        Ok(stack.storage.stats().await?.backpressure_percent == 50)
    })
    .await?;
    stack.player("0").update([("v", "2")]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_hangs_unlanded_marks_stay_bounded_and_drain_when_it_goes_on()
-> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    world.settings.sql.statement_timeout = Duration::from_secs(1);
    let stack = slowed(world).await?;
    let worker = stack.worker();
    // Each partition is prepared, which needs the database.
    for number in 0..40 {
        stack
            .player(&format!("first{number}"))
            .update([("v", "1")])
            .await?;
    }
    stack.landed().await?;
    mariadb.pause()?;
    let (acknowledged, error) = fill(&stack, "p", b"1").await?;
    ensure!(is_overloaded(&error), "{error:?}");
    let marks = stack.storage.stats().await?.marks;
    for _ in 0..200 {
        let refused = stack.player("late").update([("v", "1")]).await;
        ensure!(refused.as_ref().is_err_and(is_overloaded), "{refused:?}");
    }
    assert_eq!(
        stack.storage.stats().await?.marks,
        marks,
        "nothing more is held"
    );
    mariadb.resume()?;
    accepted_again(&stack).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), 40 + acknowledged + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_the_database_refuses_count_as_unlanded() -> Result<()> {
    let stack = slowed(World::fresh().await?).await?;
    let worker = stack.worker();
    refuse_all(&stack.database).await?;
    let (_, error) = fill(&stack, "p", b"1").await?;
    ensure!(is_overloaded(&error), "{error:?}");
    until("they are rejected", async || {
        Ok(stack.storage.stats().await?.marks == 0)
    })
    .await?;
    let stats = stack.storage.stats().await?;
    ensure!(
        stats.error_marks >= 60 && stats.backpressure_percent == 100,
        "{stats:?}"
    );
    worker.stop().await
}

/// Lets the database reject every row except the canary.
async fn refuse_all(url: &str) -> Result<()> {
    use sqlx::Connection as _;
    let mut connection = sqlx::mysql::MySqlConnection::connect(url).await?;
    sqlx::raw_sql("ALTER TABLE landing_rows ADD CONSTRAINT none CHECK (owner_id = 'canary')")
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_full_refuses_writes_whole_reads_on_lands_and_recovers() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        maxmemory: Some("8mb".into()),
        maxmemory_policy: Some("volatile-lru".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let backpressure = &mut world.settings.backpressure;
    (backpressure.soft_memory, backpressure.hard_memory) = (0, 0);
    let stack = Stack::with(world).await?;
    let cold = stack.player("cold");
    cold.update([("v", "1")]).await?;
    cold.unload(Duration::from_secs(30)).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    cold.evict().await?;

    let value = vec![b'x'; 20_000];
    let (acknowledged, error) = fill(&stack, "p", &value).await?;
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::OutOfMemory, Outcome::NotApplied),
        "{error}"
    );
    ensure!(
        matches!(error.retry(), Retry::After(_)),
        "{:?}",
        error.retry()
    );
    let refused = stack.player(&format!("p{acknowledged}"));
    ensure!(!refused.exists().await?, "nothing of it was written");
    let first = stack.player("p0");
    // Larger than the memory that the server may have freed since.
    let both = first
        .update([("v", b"new".to_vec()), ("w", vec![b'x'; 500_000])])
        .await
        .unwrap_err();
    assert_eq!(
        (both.kind(), both.outcome()),
        (Kind::OutOfMemory, Outcome::NotApplied)
    );
    assert_eq!(
        first.get_all().await?.iter().count(),
        1,
        "not half of it either"
    );
    for _ in 0..2 {
        assert_eq!(
            cold.get(["v"]).await?["v"].as_deref(),
            Some(&b"1"[..]),
            "cold data is read, though it can't be kept"
        );
    }

    let worker = stack.worker();
    stack.landed().await?;
    for number in 0..50 {
        stack
            .player(&format!("again{number}"))
            .update([("v", value.clone())])
            .await?;
    }
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), acknowledged + 1 + 50);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn before_redis_is_full_writes_are_refused_by_its_memory() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        maxmemory: Some("8mb".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.backpressure.interval = Duration::from_millis(10);
    world.settings.backpressure.delay_max = Duration::from_millis(5);
    world.settings.hot.clean_ttl = Duration::from_secs(1);
    world.settings.hot.refresh_interval = Duration::ZERO;
    let stack = Stack::with(world).await?;
    let (acknowledged, error) = fill(&stack, "p", &[b'x'; 2_000]).await?;
    ensure!(
        is_overloaded(&error) && error.to_string().contains("maxmemory-policy is noeviction"),
        "{error:?}"
    );
    let worker = stack.worker();
    accepted_again(&stack).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), acknowledged + 1);
    Ok(())
}

/// A field of INFO.
async fn info(redis: &RedisServer, name: &str) -> Result<u64> {
    let info = redis.call(&["INFO", "everything"]).await?;
    let lines = info.text()?;
    let line = lines
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.context("no such field")?.trim().parse()?)
}

/// A server that evicts is at its limit all the time. Nearly all of its keys have no time to live
/// here, and nearly all of its memory does.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_full_of_landed_data_takes_writes_as_long_as_it_evicts() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        maxmemory_policy: Some("volatile-lru".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.backpressure.interval = Duration::from_millis(10);
    let stack = Stack::with(world).await?;
    for number in 0..15 {
        let player = stack.player(&format!("left{number}"));
        player.update([("v", vec![b'x'; 400_000])]).await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    redis
        .call(&["DEBUG", "POPULATE", "20000", "stays", "10"])
        .await?;
    let limit = info(&redis, "used_memory").await? * 100 / 99;
    redis
        .call(&["CONFIG", "SET", "maxmemory", &limit.to_string()])
        .await?;
    for number in 0..150 {
        let player = stack.player(&format!("new{number}"));
        player.update([("v", vec![b'x'; 20_000])]).await?;
    }
    ensure!(info(&redis, "evicted_keys").await? > 0, "it was not full");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_and_finds_nothing_left_is_named_as_the_reason() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        maxmemory: Some("8mb".into()),
        maxmemory_policy: Some("volatile-lru".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.backpressure.interval = Duration::from_millis(50);
    let stack = Stack::with(world).await?;
    let value = [b'x'; 20_000];
    let (acknowledged, error) = fill(&stack, "p", &value).await?;
    ensure!(
        is_overloaded(&error) || error.kind() == Kind::OutOfMemory,
        "{error:?}"
    );
    until("the reason is named", async || {
        let refused = stack.player("more").update([("v", value.to_vec())]).await;
        Ok(refused.is_err_and(|error| {
            is_overloaded(&error) && error.to_string().contains("finds nothing to evict")
        }))
    })
    .await?;
    let worker = stack.worker();
    accepted_again(&stack).await?;
    stack.landed().await?;
    worker.stop().await?;
    ensure!(rows(&stack.database).await?.len() > acknowledged);
    Ok(())
}
