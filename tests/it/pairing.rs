//! Both tiers know that they belong together (H76). The tests use a wrong database, a second Redis,
//! a second prefix, and another number of partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_config::{LandingSettings, SessionSettings};
use storage_dirty::Hot;
use storage_dirty::redis::Hooks;
use storage_dirty::redis::{Broken, Intercept, RedisStore};
use storage_landing::LandingWorker;
use storage_model::{RandomIds, SystemClock};
use storage_sdk::{Kind, Settings, Storage};
use storage_servers::{RedisServer, Reply};
use storage_tests::{Stack, World, rows, stack, until};
use storage_tiers::{TierError, Tiers};

async fn blank_redis() -> Result<RedisServer> {
    RedisServer::start(storage_servers::RedisOptions::default()).await
}

/// Opens both tiers of these settings as a worker does.
pub(crate) async fn tiers(settings: &Settings) -> Result<Tiers> {
    let hot = storage_dirty::open(settings, std::sync::Arc::new(SystemClock)).await?;
    let cold = storage_sql::Opening::new(&settings.sql)
        .for_pairing()
        .open()
        .await?;
    Ok(Tiers::new(hot, cold, 1_000))
}

fn moved(settings: &Settings, redis: &str) -> Result<Settings> {
    let mut moved = settings.clone();
    moved.redis.url = redis.parse()?;
    Ok(moved)
}

async fn keys(redis: &RedisServer, pattern: &str) -> Result<usize> {
    let Reply::Array(keys) = redis.call(&["KEYS", pattern]).await? else {
        anyhow::bail!("no list of keys")
    };
    Ok(keys.len())
}

async fn tables(database: &str) -> Result<i64> {
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(database).await?;
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    Ok(sqlx::query_scalar(count).fetch_one(&mut connection).await?)
}

/// Each database of one server, and each prefix, is a hot tier of its own.
#[tokio::test(flavor = "multi_thread")]
async fn another_database_number_of_one_redis_is_another_hot_tier() -> Result<()> {
    let redis = blank_redis().await?;
    let stack = Stack::with(World::on(&redis.url(), stack::mariadb().await?).await?).await?;
    let mut second = stack.settings.clone();
    second.redis.url = format!("{}/1", redis.url()).parse()?;
    tiers(&second).await?.belong().await?;
    let error = tiers(&stack.settings).await?.belong().await.unwrap_err();
    assert!(matches!(error, TierError::Unpaired(_)), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_database_is_refused_and_lands_nothing() -> Result<()> {
    let stack = Stack::open().await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let other = World::fresh().await?;
    let mut wrong = stack.settings.clone();
    wrong.sql.url = other.settings.sql.url.clone();
    let error = tiers(&wrong).await?.belong().await.unwrap_err();
    assert!(matches!(error, TierError::Unpaired(_)), "{error}");
    assert!(
        error.to_string().contains("set sql.url") && error.to_string().contains("adopt"),
        "{error}"
    );
    assert_eq!(
        tables(&other.database).await?,
        0,
        "nothing was written into the wrong database"
    );
    // It also fails if that database has a world of its own.
    let _other = Stack::with(other).await?;
    let error = Storage::open(wrong).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unpaired);
    assert!(
        error.to_string().contains("belongs to database")
            && error.to_string().contains("correct sql.url"),
        "{error}"
    );
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(
        rows(&stack.database).await?.len(),
        1,
        "the right database has it"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_redis_that_is_adopted_takes_over_and_the_first_one_is_refused() -> Result<()> {
    let (first, second) = (blank_redis().await?, blank_redis().await?);
    let world = World::on(&first.url(), stack::mariadb().await?).await?;
    let on_second = moved(&world.settings, &second.url())?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;

    tiers(&on_second).await?.adopt().await?;
    let other = Storage::open(on_second.clone()).await?;
    // The first hot tier notices by itself. From then on it acknowledges no write, since no worker
    // would land it.
    until("writes to the first Redis are refused", async || {
        Ok(stack
            .player("ann")
            .update([("gold", "2")])
            .await
            .is_err_and(|error| error.kind() == Kind::Unpaired))
    })
    .await?;
    let error = stack
        .player("ann")
        .update([("gold", "2")])
        .await
        .unwrap_err();
    let port = second
        .url()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    for word in ["took over on 2", "UTC", port.as_str(), "adopt"] {
        assert!(
            error.to_string().contains(word),
            "{word} is missing: {error}"
        );
    }
    assert_eq!(
        stack.player("ann").get(["gold"]).await?.version(),
        stack.player("ann").get_all().await?.version()
    );
    let tiers_of_first = tiers(&stack.settings).await?;
    assert!(matches!(
        tiers_of_first.belong().await,
        Err(TierError::Unpaired(_))
    ));
    assert_eq!(
        Storage::open(stack.settings.clone())
            .await
            .unwrap_err()
            .kind(),
        Kind::Unpaired
    );
    other
        .world("game", "eu")?
        .bytes()
        .owner("player", "bob")?
        .update([("gold", "7")])
        .await?;

    // An explicit adoption takes the first one all the same. Then the other one is rejected.
    tiers_of_first.adopt().await?;
    until("writes to the first Redis go on", async || {
        Ok(stack.player("ann").update([("gold", "3")]).await.is_ok())
    })
    .await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(
        rows(&stack.database).await?.len(),
        1,
        "ann has landed, from the first Redis"
    );
    assert!(matches!(
        tiers(&on_second).await?.belong().await,
        Err(TierError::Unpaired(_))
    ));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_landing_of_a_redis_that_was_replaced_commits_nothing_more() -> Result<()> {
    let (first, second) = (blank_redis().await?, blank_redis().await?);
    let world = World::on(&first.url(), stack::mariadb().await?).await?;
    let on_second = moved(&world.settings, &second.url())?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let of_first = tiers(&stack.settings).await?;
    of_first.belong().await?;
    let landing =
        LandingSettings::default().with(|landing| landing.interval = Duration::from_millis(5));
    let worker = LandingWorker::new(of_first, &landing, &SessionSettings::default(), &RandomIds);
    tiers(&on_second).await?.adopt().await?;
    let stop = tokio::sync::Notify::new();
    let refused = async {
        until("the worker is refused", async || {
            Ok(worker.counts().failures > 0)
        })
        .await?;
        stop.notify_one();
        anyhow::Ok(())
    };
    let (refused, ()) = tokio::join!(refused, worker.run(stop.notified()));
    refused?;
    assert_eq!(
        rows(&stack.database).await?.len(),
        0,
        "the worker of the first Redis landed a row"
    );
    assert_eq!(stack.storage.stats().await?.marks, 1, "its mark stays");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_prefix_and_another_number_of_partitions_are_refused_before_anything_is_written()
-> Result<()> {
    let redis = blank_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let mut second = stack.settings.clone();
    second.redis.prefix = "second".into();
    let error = Storage::open(second).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unpaired);
    assert!(
        error.to_string().contains("set redis.prefix") && error.to_string().contains("sql.table"),
        "{error}"
    );
    assert_eq!(
        keys(&redis, "second*").await?,
        0,
        "nothing was written under the second prefix"
    );

    // The first program after a wipe does not set the number of partitions for all others.
    redis.call(&["FLUSHALL"]).await?;
    let mut other = stack.settings.clone();
    other.redis.partitions = 64;
    let error = Storage::open(other).await.unwrap_err();
    assert!(
        error.to_string().contains("set redis.partitions = 8"),
        "{error}"
    );
    assert_eq!(
        keys(&redis, "*-meta").await?,
        0,
        "the wrong number was not written"
    );
    stack.player("ann").update([("gold", "2")]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_redis_is_taken_by_all_programs_that_meet_it_at_once() -> Result<()> {
    let redis = blank_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    for round in 0..3 {
        if round == 1 {
            redis.kill()?;
            redis.restart().await?;
        } else {
            redis.call(&["FLUSHALL"]).await?;
        }
        let opened =
            futures::future::join_all((0..6).map(|_| Storage::open(stack.settings.clone()))).await;
        for (number, storage) in opened.into_iter().enumerate() {
            let player = storage?
                .world("game", "eu")?
                .bytes()
                .owner("player", format!("{round}/{number}"))?;
            player.update([("gold", "1")]).await?;
        }
        stack
            .player("ann")
            .update([("gold", round.to_string())])
            .await?;
    }
    Ok(())
}

/// Wipes Redis before the first look at the hot tier, and lets another program take over. A hash
/// may be older than the rows of a database that Redis is newly paired with, although both have
/// landed before.
#[derive(Debug)]
struct TakesOver {
    redis: RedisServer,
    other: Tiers,
    done: AtomicBool,
}

#[async_trait]
impl Intercept for TakesOver {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"pairing") && !self.done.swap(true, Ordering::SeqCst) {
            // A blank server with another history, so that the database records another one.
            for command in [
                &["FLUSHALL"][..],
                &["REPLICAOF", "127.0.0.1", "1"],
                &["REPLICAOF", "NO", "ONE"],
            ] {
                self.redis.call(command).await.map_err(|_| Broken)?;
            }
            self.other.adopt().await.map_err(|_| Broken)?;
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// The program has read the database from before the take-over, and the hot tier from after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_looks_while_another_one_takes_over_is_not_refused() -> Result<()> {
    let redis = blank_redis().await?;
    let url = redis.url();
    let world = World::on(&url, stack::mariadb().await?).await?;
    let other = tiers(&world.settings).await?;
    other.belong().await?;
    let gate = Arc::new(TakesOver {
        redis,
        other,
        done: AtomicBool::new(false),
    });
    let Settings { redis, hot, .. } = &world.settings;
    let hooks = Hooks::intercept(Arc::clone(&gate) as _);
    let hot = Arc::new(RedisStore::open_through(redis, hot, hooks).await?);
    let tiers = Tiers::new(Hot::of(&hot), gate.other.cold().clone(), 1_000);
    tiers.belong().await?;
    assert!(
        gate.done.swap(false, Ordering::SeqCst),
        "another program took over in between"
    );
    tiers.compare_pairing().await?;
    assert!(gate.done.load(Ordering::SeqCst), "and again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_given_to_another_database_shows_the_newer_of_both() -> Result<()> {
    let redis = blank_redis().await?;
    let older = Stack::with(World::on(&redis.url(), stack::mariadb().await?).await?).await?;
    older.player("ann").update([("gold", "1")]).await?;
    let worker = older.worker();
    older.landed().await?;
    let newer = Stack::open().await?;
    newer.player("ann").update([("gold", "2")]).await?;
    newer.player("ann").flush(Duration::from_secs(5)).await?;
    // So the first Redis has landed greater versions, also in ann's partition.
    for id in 0..64 {
        older
            .player(&id.to_string())
            .update([("gold", "9")])
            .await?;
    }
    older.landed().await?;
    worker.stop().await?;
    older.storage.close(Duration::from_secs(5)).await;
    newer.storage.close(Duration::from_secs(5)).await;
    let mut given = older.settings.clone();
    given.sql.url = newer.settings.sql.url.clone();
    tiers(&given).await?.adopt().await?;
    let storage = Storage::open(given).await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"2"[..]));
    Ok(())
}
