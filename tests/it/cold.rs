//! Reads and changes of owners that are only in the database.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use futures::future::join_all;
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use storage_config::Settings;
use storage_dirty::redis::{Broken, Hooks, Intercept};
use storage_dirty::{Hot, RedisStore};
use storage_sdk::{Evicted, Kind, Outcome, SessionOptions, Storage, StorageBuilder};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::{Stack, World, bounded, stack, until};
use storage_tiers::Tiers;
use tokio::sync::Notify;

async fn cold_player(stack: &Stack, id: &str) -> Result<storage_sdk::ByteOwner> {
    let player = stack.player(id);
    player
        .update([("gold", "10"), ("bag", "sword"), ("gone", "x")])
        .await?;
    player.remove(["gone"]).await?;
    player.unload(std::time::Duration::from_secs(10)).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    player.evict().await?;
    Ok(player)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works_on_a_cold_owner_as_on_a_hot_one() -> Result<()> {
    let stack = Stack::open().await?;
    assert_eq!(
        cold_player(&stack, "1").await?.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..])
    );
    assert_eq!(cold_player(&stack, "2").await?.get_all().await?.len(), 2);
    assert_eq!(
        cold_player(&stack, "3")
            .await?
            .incr("gold", 5)
            .await?
            .value(),
        15
    );
    assert_eq!(
        cold_player(&stack, "4")
            .await?
            .remove(["bag", "never"])
            .await?
            .changed(),
        1
    );
    let five = cold_player(&stack, "5").await?;
    assert_eq!(five.restore(["gone"]).await?.changed(), 1);
    assert_eq!(
        five.get(["gone"]).await?["gone"].as_deref(),
        Some(&b"x"[..])
    );
    assert!(cold_player(&stack, "6").await?.exists().await?);
    let seven = cold_player(&stack, "7").await?;
    let version = seven.version().await?;
    seven.evict().await?;
    seven.update([("gold", "11")]).if_version(version).await?;
    let conflict = seven
        .update([("gold", "12")])
        .if_version(version)
        .await
        .unwrap_err();
    assert_eq!(conflict.kind(), Kind::Conflict);
    let eight = cold_player(&stack, "8").await?;
    assert!(
        eight
            .update([("gold", "0")])
            .if_absent()
            .await
            .unwrap_err()
            .is_conflict()
    );
    assert_eq!(eight.update([("new", "0")]).if_absent().await?.changed(), 1);
    assert_eq!(cold_player(&stack, "9").await?.delete_owner().await?, 2);
    assert!(!stack.player("9").exists().await?);
    assert_eq!(
        cold_player(&stack, "10")
            .await?
            .purge(["gone", "gold"])
            .await?
            .changed(),
        1
    );
    assert_eq!(stack.player("10").restore(["gone"]).await?.changed(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blind_update_of_a_cold_owner_keeps_its_other_fields() -> Result<()> {
    let stack = Stack::open().await?;
    let player = cold_player(&stack, "1").await?;
    player.update([("gold", "11")]).await?;
    let all = player.get_all().await?;
    assert_eq!(
        (all["gold"].as_deref(), all["bag"].as_deref()),
        (Some(&b"11"[..]), Some(&b"sword"[..]))
    );
    assert_eq!(all["gone"], None);
    Ok(())
}

/// Holds back the return of leases.
#[derive(Debug, Default)]
struct KeepsLeases(Notify);

#[async_trait]
impl Intercept for KeepsLeases {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"release") {
            self.0.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miss_is_answered_although_its_lease_can_not_be_returned() -> Result<()> {
    let stack = Stack::open().await?;
    let player = cold_player(&stack, "1").await?;
    let keeps = Arc::new(KeepsLeases::default());
    let hooks = Hooks::intercept(keeps.clone());
    let hot = RedisStore::open_through(&stack.settings.redis, &stack.settings.hot, hooks).await?;
    let hot = Arc::new(hot);
    let tiers = Tiers::new(Hot::of(&hot), stack.storage.tiers().cold().clone(), 1_000);
    let loaded = bounded("the miss", async { Ok(tiers.load(player.owner()).await?) }).await?;
    assert!(loaded.is_some_and(|full| full.read.header.is_some()));
    bounded("the return of the lease", async {
        keeps.0.notified().await;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_misses_of_one_owner_read_the_database_once_per_process() -> Result<()> {
    let stack = Stack::open().await?;
    let player = cold_player(&stack, "1").await?;
    let other = Storage::open(stack.settings.clone()).await?;
    let same = other.world("game", "eu")?.bytes().owner("player", "1")?;
    let before = stack.storage.stats().await?;
    // The database answers nothing until every reader has missed.
    let mut locker = MySqlConnection::connect(&stack.database).await?;
    sqlx::raw_sql("LOCK TABLES landing_rows WRITE")
        .execute(&mut locker)
        .await?;
    let reads = (0..1_000).map(|turn| {
        if turn % 2 == 0 {
            player.get(["gold"])
        } else {
            same.get(["gold"])
        }
    });
    let all_missed = async {
        until("everybody has missed", async || {
            let misses = stack.storage.stats().await?.hot_misses + other.stats().await?.hot_misses;
            Ok(misses - before.hot_misses == 1_000)
        })
        .await?;
        sqlx::raw_sql("UNLOCK TABLES").execute(&mut locker).await?;
        anyhow::Ok(())
    };
    let (reads, unlocked) = futures::future::join(join_all(reads), all_missed).await;
    unlocked?;
    for read in reads {
        assert_eq!(read?["gold"].as_deref(), Some(&b"10"[..]));
    }
    let loads =
        stack.storage.stats().await?.hot_loads - before.hot_loads + other.stats().await?.hot_loads;
    assert!((1..=2).contains(&loads), "{loads} loads");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_of_one_owner_in_four_processes_read_the_database_once() -> Result<()> {
    let stack = Stack::open().await?;
    cold_player(&stack, "1").await?;
    let mut storages = Vec::new();
    for _ in 0..4 {
        storages.push(Storage::open(stack.settings.clone()).await?);
    }
    let players = storages
        .iter()
        .map(|storage| Ok(storage.world("game", "eu")?.bytes().owner("player", "1")?));
    let players: Vec<_> = players.collect::<Result<_>>()?;
    let reads = (0..1_000)
        .zip(players.iter().cycle())
        .map(|(_, player)| player.get(["gold"]));
    for read in join_all(reads).await {
        assert_eq!(read?["gold"].as_deref(), Some(&b"10"[..]));
    }
    let mut loads = 0;
    for storage in &storages {
        loads += storage.stats().await?.hot_loads;
    }
    assert_eq!(loads, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_with_the_right_to_load_delays_the_others_only_until_it_runs_out()
-> Result<()> {
    let stack = Stack::open().await?;
    let player = cold_player(&stack, "1").await?;
    let owners = [player.owner().clone()];
    assert_eq!(
        stack
            .storage
            .tiers()
            .hot()
            .owners
            .lease(&owners, std::time::Duration::from_millis(300))
            .await,
        [Ok(true)]
    );
    assert_eq!(
        stack
            .storage
            .tiers()
            .hot()
            .owners
            .lease(&owners, std::time::Duration::from_millis(300))
            .await,
        [Ok(false)]
    );
    assert_eq!(
        player.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..])
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_never_existed_is_asked_for_once_and_a_first_write_is_seen_at_once()
-> Result<()> {
    let stack = Stack::open().await?;
    let nobody = stack.player("nobody");
    for _ in 0..10 {
        assert!(nobody.get_all().await?.is_empty());
    }
    assert!(!nobody.exists().await?);
    assert_eq!(stack.storage.stats().await?.hot_loads, 1);
    nobody.update([("name", "Somebody")]).await?;
    assert_eq!(
        nobody.get(["name", "gold"]).await?["name"].as_deref(),
        Some(&b"Somebody"[..])
    );
    assert!(nobody.exists().await?);
    Ok(())
}

async fn a_large_owner_is_read_whole_and_by_field(mut settings: Settings) -> Result<()> {
    settings.hot.load_rows_max = 10;
    let storage = StorageBuilder::landing(Storage::builder(settings), true)
        .open()
        .await?;
    let big = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "big")?;
    big.update((0..50).map(|n| (format!("f{n}"), n.to_string())))
        .await?;
    until("it has landed and is evicted", async || {
        Ok(storage.stats().await?.marks == 0 && big.evict().await? == Evicted::Gone)
    })
    .await?;
    let found = big.get(["f7", "none"]).await?;
    assert_eq!(
        (found["f7"].as_deref(), found.len()),
        (Some(&b"7"[..]), 1),
        "only the requested fields"
    );
    assert_eq!(big.get_all().await?.len(), 50);
    assert_eq!(big.incr("f8", 1).await?.value(), 9);
    assert_eq!(big.incr("fresh", 1).await?.value(), 1);
    assert_eq!(big.get_all().await?.len(), 51);
    assert_eq!(big.delete_owner().await?, 51);
    assert!(!big.exists().await?);

    let small = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "small")?;
    small.update([("f1", "1"), ("f2", "2")]).await?;
    until("it has landed and is evicted", async || {
        Ok(storage.stats().await?.marks == 0 && small.evict().await? == Evicted::Gone)
    })
    .await?;
    let found = small.get(["f1", "none"]).await?;
    assert_eq!(
        (found["f1"].as_deref(), found.len()),
        (Some(&b"1"[..]), 1),
        "only the requested fields, though all were loaded"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_with_more_rows_than_a_load_takes_is_still_read_whole_and_by_field() -> Result<()>
{
    a_large_owner_is_read_whole_and_by_field(World::fresh().await?.settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn so_it_is_in_the_embedded_mode() -> Result<()> {
    let folder = tempfile::tempdir()?;
    a_large_owner_is_read_whole_and_by_field(Settings::embedded(folder.path().join("game.db")))
        .await
}

/// A script that takes all of it would hold up everybody else.
async fn an_owner_of_too_many_bytes(mut settings: Settings) -> Result<()> {
    settings.hot.load_bytes_max = 64 << 10;
    let storage = StorageBuilder::landing(Storage::builder(settings), true)
        .open()
        .await?;
    let world = storage.world("game", "eu")?;
    let big = world.bytes().owner("player", "big")?;
    let names = ["a", "b", "c", "d", "e"];
    big.update(names.map(|name| (name, vec![b'x'; 30_000])))
        .await?;
    big.update([("gold", "10")]).await?;
    let leave = async || {
        until("it has landed and is evicted", async || {
            Ok(storage.stats().await?.marks == 0 && big.evict().await? == Evicted::Gone)
        })
        .await
    };
    leave().await?;
    assert_eq!(big.get_all().await?.len(), 6);
    assert_eq!(
        big.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..])
    );
    assert_eq!(big.get(names).await?.len(), 5, "too many bytes to be kept");
    assert_eq!(big.incr("gold", 1).await?.value(), 11);
    leave().await?;
    let Err(refused) = big.remove(names).await else {
        bail!("the owner is too large to be loaded")
    };
    assert_eq!(
        (refused.kind(), refused.outcome()),
        (Kind::Invalid, Outcome::NotApplied)
    );
    let text = refused.to_string();
    for part in [
        "game/eu/player/big",
        " B in ",
        "hot.load_bytes_max is 65536",
        "fewer fields",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    big.remove(["a", "b"]).await?;
    let Err(refused) = big.session(SessionOptions::default()).await else {
        bail!("the owner is too large to be held")
    };
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
    assert!(
        refused.to_string().contains("hot.load_bytes_max"),
        "{refused}"
    );
    leave().await?;
    assert_eq!(big.delete_owner().await?, 4);
    assert!(!big.exists().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_with_more_bytes_than_a_load_takes_is_read_and_what_can_not_be_is_told()
-> Result<()> {
    an_owner_of_too_many_bytes(World::fresh().await?.settings).await?;
    let folder = tempfile::tempdir()?;
    an_owner_of_too_many_bytes(Settings::embedded(folder.path().join("game.db"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_cold_owners_come_back_in_the_order_asked() -> Result<()> {
    let stack = Stack::open().await?;
    let players: Vec<_> = (0..300).map(|id| stack.player(&id.to_string())).collect();
    for (id, player) in players.iter().enumerate() {
        player.update([("id", id.to_string())]).await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for player in &players {
        player.evict().await?;
    }
    let bytes = stack.storage.world("game", "eu")?.bytes();
    let read = bytes.get_many(&players, ["id"]).await;
    for (id, record) in read.into_iter().enumerate() {
        assert_eq!(record?["id"].as_deref(), Some(id.to_string().as_bytes()));
    }
    let mut listed = bytes.owners("player").await?;
    let mut ids = Vec::new();
    while let Some(page) = listed.next().await? {
        ids.extend(page.into_iter().map(|owner| owner.id().to_owned()));
    }
    let mut sorted = (0..300).map(|id| id.to_string()).collect::<Vec<_>>();
    sorted.sort();
    assert_eq!(ids, sorted);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_needs_a_database_that_hangs_ends_when_its_time_is_up() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    world.settings.hot.operation_deadline = Duration::from_millis(500);
    let stack = Stack::with(world).await?;
    mariadb.pause()?;
    // Its partition was never prepared.
    let first = stack.player("ann").update([("gold", "1")]).await;
    let error = first.expect_err("the database hangs");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Timeout, Outcome::NotApplied),
        "{error}"
    );
    mariadb.resume()?;
    until("it works again", async || {
        Ok(stack.player("ann").update([("gold", "1")]).await.is_ok())
    })
    .await?;
    // The amount is only in the database.
    let cold = cold_player(&stack, "bob").await?;
    mariadb.pause()?;
    let error = cold.incr("gold", 5).await.expect_err("the database hangs");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Timeout, Outcome::NotApplied),
        "{error}"
    );
    mariadb.resume()?;
    Ok(())
}
