//! Owners that were loaded once and left take no memory of Redis for good (H118). The long form loads a
//! million owners and waits until they are gone: `./scripts/long left::`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sqlx::Connection as _;
use storage_sdk::ByteOwner;
use storage_servers::{RedisOptions, RedisServer, Reply};
use storage_tests::{Stack, World, size, stack};

/// How long hashes and markers stay.
const STAY: Duration = Duration::from_mins(1);
/// The owners that are loaded at once.
const AT_ONCE: u64 = 1_000;
/// The records of partitions that the loads make, and that stay.
const RECORDS: u64 = 8;
/// The most bytes of Redis that all owners together may leave behind.
const LEFT_MAX: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn owners_that_were_loaded_once_and_left_take_no_memory_for_good() -> Result<()> {
    let owners: u64 = size(300, 1_000_000);
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.hot.clean_ttl = STAY;
    world.settings.hot.marker_ttl = STAY;
    world.settings.hot.refresh_interval = Duration::ZERO;
    let stack = Stack::with(world).await?;
    stack.player("first").update([("gold", "1")]).await?;
    put_rows(&stack.database, owners).await?;
    let (keys, bytes) = (count(&redis).await?, used(&redis).await?);
    for from in (0..owners).step_by(usize::try_from(AT_ONCE)?) {
        let some: Vec<ByteOwner> = (from..owners.min(from + AT_ONCE))
            .map(|id| stack.player(&id.to_string()))
            .collect();
        let records = stack.storage.world("game", "eu")?.bytes();
        for record in records.get_all_many(&some).await {
            ensure!(
                record?["gold"].as_deref() == Some(&b"10"[..]),
                "a row is missing"
            );
        }
    }
    let loaded = count(&redis).await?;
    // Of a million owners, most may have left again by then.
    let least = size(2 * owners, owners / 10);
    ensure!(loaded >= keys + least, "{loaded} keys");
    if size(true, false) {
        return each_key_goes(&redis, stack.settings.redis.prefix.as_str()).await;
    }
    println!(
        "{owners} owners: {bytes} B before, {} B loaded",
        used(&redis).await?
    );
    let until = Instant::now() + 10 * STAY;
    while count(&redis).await? > keys + RECORDS {
        ensure!(
            Instant::now() < until,
            "{} keys are left",
            count(&redis).await?
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The server gives its tables back in steps of its own.
    while used(&redis).await? > bytes + LEFT_MAX {
        ensure!(Instant::now() < until, "{} B are left", used(&redis).await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{owners} owners: {} B after they left", used(&redis).await?);
    Ok(())
}

/// Each key of an owner has a time to live.
async fn each_key_goes(redis: &RedisServer, prefix: &str) -> Result<()> {
    for kind in ["data", "exist", "lease"] {
        let Reply::Array(keys) = redis.call(&["KEYS", &format!("{prefix}-{kind}:*")]).await? else {
            anyhow::bail!("no keys")
        };
        for key in keys {
            let key = key.text()?.to_owned();
            let left = redis.call(&["PTTL", &key]).await?;
            let goes = matches!(left, Reply::Integer(left) if left != -1 && left <= 60_000);
            ensure!(goes || key.ends_with(":first"), "{key}: {left:?}");
        }
    }
    Ok(())
}

/// Puts rows of owners that Redis does not know into the database.
async fn put_rows(url: &str, owners: u64) -> Result<()> {
    const INSERT: &str = "INSERT INTO landing_rows (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del) \
                          SELECT 'game', 'eu', 'player', seq, 'gold', '10', 1000, 0 FROM seq_0_to_999999 WHERE seq < ?";
    let mut database = sqlx::mysql::MySqlConnection::connect(url).await?;
    sqlx::query(INSERT)
        .bind(owners)
        .execute(&mut database)
        .await?;
    Ok(database.close().await?)
}

async fn count(redis: &RedisServer) -> Result<u64> {
    match redis.call(&["DBSIZE"]).await? {
        Reply::Integer(keys) => Ok(u64::try_from(keys)?),
        other => anyhow::bail!("{other:?}"),
    }
}

async fn used(redis: &RedisServer) -> Result<u64> {
    let info = redis.call(&["INFO", "memory"]).await?;
    let mut lines = info.text()?.lines();
    let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
    Ok(used.context("no figure")?.trim().parse()?)
}
