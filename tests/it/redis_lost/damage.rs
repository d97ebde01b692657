//! Damage that an operator or another program does to a Redis in use (H55).

use anyhow::Result;
use storage_model::Partition;
use storage_sdk::ByteOwner;
use storage_servers::{RedisOptions, RedisServer, Reply};
use storage_tests::{Stack, World, stack};
use storage_tiers::Difference;
use tokio::process::Command;

use super::own_redis;

async fn keys(redis: &RedisServer, pattern: &str) -> Result<Vec<String>> {
    match redis.call(&["KEYS", pattern]).await? {
        Reply::Array(keys) => keys.iter().map(|key| Ok(key.text()?.to_owned())).collect(),
        other => anyhow::bail!("{other:?}"),
    }
}

async fn delete(redis: &RedisServer, pattern: &str) -> Result<()> {
    let keys = keys(redis, pattern).await?;
    assert!(!keys.is_empty(), "nothing is called {pattern}");
    redis
        .call(&[&["DEL".to_owned()][..], &keys].concat())
        .await
        .map(drop)
}

async fn gold(player: &ByteOwner) -> Result<Option<String>> {
    Ok(player.get(["gold"]).await?["gold"]
        .as_ref()
        .map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_record_was_deleted_is_rebuilt_before_it_is_written_again() -> Result<()>
{
    let (redis, stack) = own_redis(true).await?;
    let players: Vec<_> = (0..16).map(|id| stack.player(&id.to_string())).collect();
    let worker = stack.worker();
    for player in &players {
        player.update([("gold", "10")]).await?;
    }
    stack.landed().await?;
    let ann = &players[0];
    let before = ann.version().await?;
    delete(&redis, "*-part:*").await?;
    for (id, player) in players.iter().enumerate() {
        match id % 2 {
            0 => assert_eq!(player.incr("gold", 1).await?.value(), 11),
            _ => assert_eq!(gold(player).await?.as_deref(), Some("10")),
        }
    }
    assert!(ann.version().await? > before);
    let partitions: Vec<_> = (0..8).map(Partition).collect();
    for state in stack
        .storage
        .tiers()
        .hot()
        .partitions
        .partition_states(&partitions)
        .await
    {
        assert!(
            state?
                .record
                .is_none_or(|record| record.epoch == record.generation),
            "all of it is compared"
        );
    }
    stack.landed().await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_exist_marker_keeps_nobody_from_loading() -> Result<()> {
    let (redis, stack) = own_redis(true).await?;
    let worker = stack.worker();
    for landed in [true, false] {
        let ann = stack.player(if landed { "clean" } else { "dirty" });
        ann.update([("gold", "10"), ("bag", "10")]).await?;
        stack.landed().await?;
        ann.evict().await?;
        delete(&redis, "*-exist:*").await?;
        // A hash that does not know all fields.
        ann.update([("bag", "20")]).await?;
        if landed {
            stack.landed().await?;
        }
        delete(&redis, "*-exist:*").await?;
        assert_eq!(gold(&ann).await?.as_deref(), Some("10"));
        assert_eq!(ann.incr("gold", 1).await?.value(), 11);
        stack.landed().await?;
    }
    worker.stop().await
}

/// The differences that a comparison of these owners finds, by field.
async fn compared(
    stack: &Stack,
    players: &[&ByteOwner],
) -> Result<Vec<(Option<String>, Difference)>> {
    let owners: Vec<_> = players
        .iter()
        .map(|player| player.owner().clone())
        .collect();
    let compared = stack.storage.tiers().compare(&owners).await?;
    Ok(compared
        .conflicts
        .into_iter()
        .map(|found| (found.field.map(|field| field.to_string()), found.difference))
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_finds_restored_deleted_and_changed_data_and_the_program_ends_with_1()
-> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    // Without probation, so that landed data is clean at once.
    std::fs::write(&config, format!("{}probation = \"0s\"\n", world.text))?;
    let mut settings = world.settings.clone();
    settings.landing.probation = std::time::Duration::ZERO;
    let stack = Stack::with(World { settings, ..world }).await?;
    let worker = stack.worker();
    let [ann, bob, eve, joe] = ["ann", "bob", "eve", "joe"].map(|id| stack.player(id));
    for player in [&ann, &bob, &eve, &joe] {
        player.update([("gold", "10"), ("bag", "10")]).await?;
    }
    stack.landed().await?;
    let key = keys(&redis, "*-data:*:ann").await?.remove(0);
    let Reply::Bytes(old) = redis.call(&["DUMP", &key]).await? else {
        anyhow::bail!("no dump")
    };
    let newer = ann.update([("gold", "20")]).await?.version();
    stack.landed().await?;
    assert_eq!(compared(&stack, &[&ann, &bob, &eve, &joe]).await?, []);
    let verify = async || {
        Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["verify", "--config"])
            .arg(&config)
            .output()
            .await
    };
    let output = verify().await?;
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("4 owners compared") && printed.contains("without a live row"),
        "{printed}"
    );

    redis
        .call(&[b"RESTORE", key.as_bytes(), b"60000", &old, b"REPLACE"])
        .await?;
    redis
        .call(&[
            "HSET",
            &keys(&redis, "*-data:*:bob").await?.remove(0),
            "gold",
            "plundered",
        ])
        .await?;
    redis
        .call(&[
            "HSET",
            &keys(&redis, "*-data:*:joe").await?.remove(0),
            ":v",
            "nonsense",
        ])
        .await?;
    worker.stop().await?;
    eve.update([("gold", "30")]).await?;
    delete(&redis, "*-marks:*").await?;
    let found = compared(&stack, &[&ann, &bob, &eve, &joe]).await?;
    let ahead = |(field, difference): &(Option<String>, Difference)| {
        field.as_deref() == Some("gold")
            && matches!(difference, Difference::Ahead { row, .. } if *row == newer)
    };
    assert!(found.iter().any(ahead), "{found:?}");
    // The plundered data, and the data that has lost its marks.
    let differs = found.iter().filter(|(field, difference)| {
        field.as_deref() == Some("gold") && *difference == Difference::Differs
    });
    assert_eq!(differs.count(), 2, "{found:?}");
    assert!(
        found.contains(&(None, Difference::HotUnreadable)),
        "{found:?}"
    );
    let output = verify().await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        printed.contains("game/eu/player/ann field \"gold\": the row is ahead")
            && printed.contains("4 conflicts"),
        "{printed}"
    );
    assert!(
        !printed.contains("plundered"),
        "no value is printed: {printed}"
    );
    Ok(())
}
