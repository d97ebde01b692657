//! Bad input gets a clear error that names the value, the limit and the way out, and changes
//! nothing.

use anyhow::Result;
use storage_sdk::{Kind, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack, until};

#[tokio::test(flavor = "multi_thread")]
async fn impossible_names_and_values_are_refused_before_anything_is_written() -> Result<()> {
    let stack = Stack::open().await?;
    let world = stack.storage.world("game", "eu")?;
    for (app, region) in [
        ("", "eu"),
        ("game", ""),
        (&*"x".repeat(65), "eu"),
        ("ga\nme", "eu"),
    ] {
        assert_eq!(
            stack.storage.world(app, region).unwrap_err().kind(),
            Kind::Invalid
        );
    }
    for (logic, id) in [
        ("", "1"),
        ("player", ""),
        (&*"x".repeat(65), "1"),
        ("player", &*"x".repeat(256)),
        ("player", "\u{7}"),
    ] {
        assert_eq!(
            world.bytes().owner(logic, id).unwrap_err().kind(),
            Kind::Invalid
        );
    }
    let ann = stack.player("ann");
    let too_large = vec![0_u8; (1 << 20) + 1];
    let many: Vec<(String, &str)> = (0..1_001).map(|n| (n.to_string(), "")).collect();
    let error = ann
        .update([("ok", vec![]), ("large", too_large)])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("\"large\"")
            && error.to_string().contains("1048577")
            && error.to_string().contains("1048576")
    );
    let names: Vec<&str> = many.iter().map(|(name, _)| &**name).collect();
    assert!(
        ann.get(names.clone())
            .await
            .unwrap_err()
            .to_string()
            .contains("1001")
    );
    for (names, said) in [(names, "1001"), (vec![], "no field")] {
        let reads = world
            .bytes()
            .get_many([&ann, &stack.player("bob")], names)
            .await;
        assert!(
            reads.len() == 2
                && reads
                    .iter()
                    .all(|read| read.as_ref().is_err_and(|e| e.to_string().contains(said))),
            "{reads:?}"
        );
    }
    assert!(
        ann.update(many)
            .await
            .unwrap_err()
            .to_string()
            .contains("1001")
    );
    assert_eq!(
        ann.update([("", "x")]).await.unwrap_err().kind(),
        Kind::Invalid
    );
    let twice = ann
        .incr_many([("gold", 1), ("xp", 1), ("gold", 2)])
        .await
        .unwrap_err();
    assert!(
        twice.kind() == Kind::Invalid && twice.to_string().contains("\"gold\" twice"),
        "{twice}"
    );
    assert_eq!(
        ann.update(Vec::<(&str, &str)>::new())
            .await
            .unwrap_err()
            .kind(),
        Kind::Invalid
    );
    assert_eq!(
        ann.get(["x".repeat(256).as_str()])
            .await
            .unwrap_err()
            .kind(),
        Kind::Invalid
    );
    assert!(ann.get_all().await?.is_empty());
    assert_eq!(stack.storage.stats().await?.marks, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_partition_count_than_the_stored_one_is_refused() -> Result<()> {
    let stack = Stack::open().await?;
    let mut other = stack.settings.clone();
    other.redis.partitions = 16;
    let error = Storage::open(other.clone()).await.unwrap_err().to_string();
    assert!(error.contains('8') && error.contains("16"), "{error}");
    other.redis.prefix = "fresh".into();
    let error = Storage::open(other).await.unwrap_err().to_string();
    assert!(
        error.contains('8') && error.contains("16"),
        "the database knows it too: {error}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_may_evict_unlanded_data_is_refused_at_the_start_and_later() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        maxmemory_policy: Some("allkeys-lru".into()),
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.hot.policy_check_interval = std::time::Duration::from_secs(1);
    let error = Storage::open(world.settings.clone()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::UnsafeEviction);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");

    redis
        .call(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"])
        .await?;
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    ann.update([("v", "1")]).await?;
    redis
        .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"])
        .await?;
    until("writes are refused", async || {
        Ok(ann
            .update([("v", "2")])
            .await
            .is_err_and(|error| error.kind() == Kind::UnsafeEviction))
    })
    .await?;
    redis
        .call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
        .await?;
    until("writes go on", async || {
        Ok(ann.update([("v", "3")]).await.is_ok())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_url_or_password_is_named_without_the_password() -> Result<()> {
    let good = World::fresh().await?;
    let open = async |redis: &str, database: &str| {
        let world = World::with_urls(redis, database, &good.settings.redis.prefix).unwrap();
        Storage::open(world.settings).await.unwrap_err()
    };
    let hot = stack::redis().await?.url();
    let error = open(&hot, &good.database.replace("secret", "hunter2")).await;
    assert!(
        !error.to_string().contains("hunter2") && error.to_string().contains("1045"),
        "{error}"
    );
    assert_eq!(
        open("redis://127.0.0.1:1", &good.database).await.kind(),
        Kind::HotUnavailable
    );
    let redis = RedisServer::start(RedisOptions {
        password: Some("right".into()),
        ..RedisOptions::default()
    })
    .await?;
    let url = redis.url().replace("right", "hunter2");
    let error = open(&url, &good.database).await;
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    Ok(())
}
