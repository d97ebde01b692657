//! The losses that a write of each durability survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use storage_model::{Broken, Intercept, Owner};
use storage_sdk::{
    Ack, Counters, Durability, Error, Kind, Outcome, Retry, Safety, SaveObject, Storage,
};
use storage_servers::{ClusterOptions, RedisCluster, RedisOptions, RedisServer};
use storage_sql::Opening;
use storage_sql::conformance::gate::Gate;
use storage_tests::{Proxy, Stack, World, rows, size, stack, until};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);
const REPLICATED: Durability = Durability::Replicated {
    replicas: 1,
    timeout: LONG,
};
const FSYNCED: Durability = Durability::Fsynced { timeout: LONG };

async fn on(redis: &RedisServer) -> Result<Stack> {
    Stack::with(World::on(&redis.url(), stack::mariadb().await?).await?).await
}

/// Counts several players up at the same time until something breaks. Returns the last acknowledged
/// count of each player.
async fn count_until_it_breaks(
    stack: &Stack,
    durability: Durability,
    breaks: impl AsyncFnOnce() -> Result<()>,
) -> Result<Vec<i64>> {
    let (counted, broken) = (AtomicU64::new(0), AtomicBool::new(false));
    let count = (0..20).map(async |id: i32| {
        let player = stack.player(&id.to_string());
        let mut told = 0;
        while !broken.load(Ordering::SeqCst) {
            if let Ok(counters) = player.incr("gold", 1).durability(durability).await {
                told = counters.value();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
        told
    });
    let breaks = async {
        let told = until("some were told", async || {
            Ok(counted.load(Ordering::SeqCst) > 60)
        })
        .await;
        let broke = breaks().await;
        broken.store(true, Ordering::SeqCst);
        told.and(broke)
    };
    let (told, broke) = tokio::join!(join_all(count), breaks);
    broke.map(|()| told)
}

/// Each player has at least its last acknowledged count.
async fn none_is_lost(stack: &Stack, told: &[i64]) -> Result<()> {
    for (id, told) in told.iter().enumerate() {
        let has = stack.player(&id.to_string()).incr("gold", 0).await?.value();
        ensure!(has >= *told, "player {id} was told {told} and has {has}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fsynced_writes_survive_a_redis_that_is_killed() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    if redis.call(&["WAITAOF", "0", "0", "0"]).await.is_ok() {
        redis
            .call(&["CONFIG", "SET", "appendfsync", "everysec"])
            .await?;
    }
    let stack = on(&redis).await?;
    let worker = stack.worker();
    for _ in 0..3 {
        let told = count_until_it_breaks(&stack, FSYNCED, async || redis.kill()).await?;
        redis.restart().await?;
        none_is_lost(&stack, &told).await?;
    }
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_writes_survive_a_master_that_is_killed_and_lost() -> Result<()> {
    let mut master = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&master.url(), stack::mariadb().await?).await?;
    for _ in 0..5 {
        let replica = RedisServer::start(RedisOptions::default()).await?;
        replica.follow(&master).await?;
        let mut here =
            World::with_urls(&master.url(), &world.database, &world.settings.redis.prefix)?;
        // The calls that are under way when the master dies give up after this.
        here.settings.hot.operation_deadline = Duration::from_secs(1);
        let told = count_until_it_breaks(&Stack::with(here).await?, REPLICATED, async || {
            master.kill()
        })
        .await?;
        replica.promote().await?;
        let there = World::with_urls(
            &replica.url(),
            &world.database,
            &world.settings.redis.prefix,
        )?;
        none_is_lost(&Stack::with(there).await?, &told).await?;
        master = replica;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicated_writes_survive_the_failover_of_a_cluster() -> Result<()> {
    let options = ClusterOptions {
        replicas_per_master: 1,
        node_timeout: SHORT * 5,
        ..ClusterOptions::default()
    };
    let cluster = RedisCluster::start_with(options).await?;
    let stack = Stack::with(World::on(&cluster.url(), stack::mariadb().await?).await?).await?;
    let told = count_until_it_breaks(&stack, REPLICATED, async || cluster.node(0)?.kill()).await?;
    cluster.settled().await?;
    none_is_lost(&stack, &told).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_master_acknowledges_cached_writes_that_are_lost_but_no_replicated_ones()
-> Result<()> {
    let (old, new) = (
        RedisServer::start(RedisOptions::default()).await?,
        RedisServer::start(RedisOptions::default()).await?,
    );
    new.follow(&old).await?;
    let stack = on(&old).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).durability(REPLICATED).await?;
    new.promote().await?; // a failover that the old master does not know of
    ann.update([("gold", "2")]).await?;
    let lost = ann
        .update([("gold", "3")])
        .durability(Durability::Replicated {
            replicas: 1,
            timeout: SHORT,
        })
        .await;
    ensure!(lost.is_err(), "only the old master has it: {lost:?}");

    let settings = &stack.settings.redis;
    let there = Stack::with(World::with_urls(
        &new.url(),
        &stack.database,
        &settings.prefix,
    )?)
    .await?;
    assert_eq!(
        there.player("ann").get(["gold"]).await?["gold"].as_deref(),
        Some(&b"1"[..])
    );
    Ok(())
}

/// Lets a write wait before the transaction of its landing, and lets something happen to Redis
/// during that wait.
async fn while_it_lands(
    redis: &RedisServer,
    meanwhile: impl AsyncFnOnce(&Stack) -> Result<()>,
) -> Result<(Stack, Result<Counters, Error>)> {
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let gate = Arc::new(Gate::before("begin"));
    let cold = Opening::new(&world.settings.sql)
        .through(gate.clone())
        .open()
        .await?;
    // The first storage to open pairs the tiers, in a transaction of its own.
    let other = Stack::with(world.clone()).await?;
    let lands = Storage::builder(world.settings.clone())
        .cold(cold)
        .open()
        .await?;
    other.player("ann").incr("gold", 1).await?;
    let ann = lands.world("game", "eu")?.bytes().owner("player", "ann")?;
    let landed = Durability::Landed { timeout: LONG };
    let writing = tokio::spawn(async move { ann.incr("gold", 10).durability(landed).await });
    gate.reached().await;
    meanwhile(&other).await?;
    gate.open();
    Ok((other, writing.await?))
}

/// Holds the first transaction back, and counts the commits.
#[derive(Debug)]
struct Counting {
    gate: Gate,
    commits: AtomicU64,
}

#[async_trait]
impl Intercept for Counting {
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken> {
        let commits = names.iter().filter(|name| **name == "commit").count();
        self.commits.fetch_add(commits as u64, Ordering::SeqCst);
        self.gate.before(names).await
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// Each of them alone would land the whole group again.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_one_group_that_wait_for_the_database_share_their_landings() -> Result<()> {
    const WRITERS: usize = 32;
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let counting = Arc::new(Counting {
        gate: Gate::before("begin"),
        commits: AtomicU64::new(0),
    });
    let cold = Opening::new(&world.settings.sql)
        .through(counting.clone())
        .open()
        .await?;
    // The first storage to open pairs the tiers, and the first write prepares the partition, each in a
    // transaction of its own.
    let other = Stack::with(world.clone()).await?;
    other.player("{g}/first").update([("v", "1")]).await?;
    let lands = Storage::builder(world.settings.clone())
        .cold(cold)
        .open()
        .await?;
    let item = |number: usize| format!("{{g}}/{number}");
    let write = |number: usize| {
        let world = lands.world("game", "eu").unwrap();
        let bytes = world.bytes();
        let head = bytes.owner("player", "{g}/head").unwrap();
        let item = bytes.owner("player", item(number)).unwrap();
        tokio::spawn(async move {
            let landed = Durability::Landed { timeout: LONG };
            let both = world
                .transaction()
                .owner(&head, |part| part.add("items", 1))
                .owner(&item, |part| part.set("number", "1"));
            both.durability(landed).await.map(drop)
        })
    };
    let mut writing = vec![write(0)];
    counting.gate.reached().await;
    writing.extend((1..WRITERS).map(write));
    until("all are written", async || {
        let head = other.player("{g}/head");
        Ok(head.get(["items"]).await?.int("items")? == Some(i64::try_from(WRITERS)?))
    })
    .await?;
    counting.gate.open();
    for one in writing {
        one.await??;
    }
    let commits = counting.commits.load(Ordering::SeqCst);
    ensure!(commits <= 16, "{commits} landings of {WRITERS} writes");
    let owners = (0..WRITERS).map(|number| Owner::new("game", "eu", "player", &item(number)));
    let owners = owners.collect::<Result<Vec<_>, _>>()?;
    let loaded = storage_sql::open(&world.settings.sql)
        .await?
        .rows
        .load(&owners, 9)
        .await?;
    ensure!(
        loaded.iter().all(|owner| owner.rows.len() == 1),
        "{loaded:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_redis_forgets_before_its_commit_is_not_said_to_have_landed() -> Result<()> {
    for rewritten in [false, true] {
        let redis = RedisServer::start(RedisOptions::default()).await?;
        let (_other, told) = while_it_lands(&redis, async |other| {
            redis.call(&["FLUSHALL"]).await?;
            // Another process adopts the partition and may go on with the data that is left.
            let ann = other.player("ann");
            assert!(ann.get(["gold"]).await?.is_empty());
            if rewritten {
                ann.incr("gold", 100).await?;
            }
            Ok(())
        })
        .await?;
        let error = told.err().context("it was said to have landed")?;
        assert_eq!(
            (error.outcome(), error.retry()),
            (Outcome::Unknown, Retry::Reread),
            "{error}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_redis_keeps_lands_also_in_the_next_epoch() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let (other, told) = while_it_lands(&redis, async |other| {
        let ann = other.player("ann");
        let partition = ann.owner().partition(other.settings.redis.partitions);
        redis
            .call(&[
                "DEL",
                &format!("{}-part:{{{partition}}}", other.settings.redis.prefix),
            ])
            .await?;
        assert_eq!(
            ann.get(["gold"]).await?["gold"].as_deref(),
            Some(&b"11"[..])
        );
        Ok(())
    })
    .await?;
    assert_eq!((told?.value(), rows(&other.database).await?.len()), (11, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_by_a_process_that_has_just_started_is_told_that_the_write_has_landed()
-> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let (first, id) = (
        Stack::with(world.clone()).await?,
        storage_sdk::OpId::new([7; 16]),
    );
    first.player("ann").incr("gold", 1).id(id).await?;
    first.player("ann").incr("gold", 10).await?;
    let again = Stack::with(world).await?;
    let landed = Durability::Landed { timeout: LONG };
    let repeat = again
        .player("ann")
        .incr("gold", 1)
        .id(id)
        .durability(landed)
        .await?;
    assert_eq!(
        (repeat.value(), repeat.ack().durability()),
        (1, Safety::Landed)
    );
    assert_eq!(rows(&again.database).await?[0].value, b"11");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_before_the_wait_never_passes_for_a_replica() -> Result<()> {
    let (master, replica) = (
        RedisServer::start(RedisOptions::default()).await?,
        RedisServer::start(RedisOptions::default()).await?,
    );
    replica.follow(&master).await?;
    let proxy = Proxy::start(master.port()).await?;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let stack = Stack::with(World::on(&url, stack::mariadb().await?).await?).await?;
    stack
        .player("ann")
        .update([("gold", "0")])
        .durability(REPLICATED)
        .await?;
    replica.pause()?;
    let asked = Durability::Replicated {
        replicas: 1,
        timeout: SHORT,
    };
    let (mut certain, mut possible) = (0, 0);
    for number in 0..8 {
        proxy.lose_every(3 + number % 3);
        let incr = stack
            .player("ann")
            .incr("gold", 1)
            .durability(asked)
            .deadline(Duration::from_secs(1));
        let error = refused(incr.await.map(|counters| counters.ack().clone()))?;
        certain += i64::from(error.outcome() == Outcome::Applied);
        possible += i64::from(error.outcome() != Outcome::NotApplied);
    }
    ensure!(
        proxy.lost() > 5 && possible > 0,
        "only {} replies were lost, {possible} writes may have been applied",
        proxy.lost()
    );
    proxy.lose_every(0);
    replica.resume()?;
    let counted = stack
        .player("ann")
        .incr("gold", 0)
        .durability(REPLICATED)
        .await?
        .value();
    ensure!(
        (certain..=possible).contains(&counted),
        "{counted} were applied, {certain} for certain, {possible} at most"
    );
    Ok(())
}

fn refused(told: Result<Ack, Error>) -> Result<Error> {
    match told {
        Ok(ack) => anyhow::bail!("acknowledged as {:?}", ack.durability()),
        Err(error) => Ok(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_too_slow_leaves_the_write_applied() -> Result<()> {
    let (master, replica) = (
        RedisServer::start(RedisOptions::default()).await?,
        RedisServer::start(RedisOptions::default()).await?,
    );
    replica.follow(&master).await?;
    let stack = on(&master).await?;
    let ann = stack.player("ann");
    let ack = ann.update([("gold", "1")]).durability(REPLICATED).await?;
    assert_eq!(ack.durability(), Safety::Replicated { replicas: 1 });

    replica.pause()?;
    let asked = Durability::Replicated {
        replicas: 1,
        timeout: SHORT,
    };
    let error = ann
        .update([("gold", "2")])
        .durability(asked)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Timeout, Outcome::Applied),
        "{error}"
    );
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let bulk = stack
        .storage
        .world("game", "eu")?
        .bytes()
        .bulk()
        .durability(asked)
        .incr(&ann, "gold", 1)
        .await;
    assert_eq!(
        bulk.iter()
            .map(|each| each.as_ref().map_err(Error::outcome))
            .collect::<Vec<_>>(),
        [Err(Outcome::Applied)]
    );
    assert_eq!(ann.incr("gold", 0).await?.value(), 3);

    let two = Durability::Replicated {
        replicas: 2,
        timeout: SHORT,
    };
    let error = ann
        .update([("gold", "4")])
        .durability(two)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Durability, Outcome::NotApplied),
        "{error}"
    );
    assert_eq!(ann.incr("gold", 0).await?.value(), 3);
    Ok(())
}

#[derive(Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "trade", durability = Durability::Landed { timeout: LONG })]
struct Trade {
    #[save_object(owner_id)]
    id: u64,
}

#[derive(Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player", durability = Durability::Landed { timeout: LONG })]
struct Player {
    #[save_object(owner_id)]
    id: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_durability_counts() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.durability.default = FSYNCED;
    world
        .settings
        .durability
        .logic_types
        .insert("player".to_owned(), Durability::Cached);
    let storage = Storage::builder(world.settings)
        .durability("guild", Durability::Landed { timeout: LONG })
        .open()
        .await?;
    let world = storage.world("game", "eu")?;
    let room = world.bytes().owner("room", 1_u64)?;
    assert_eq!(
        room.update([("a", "1")]).await?.durability(),
        Safety::Fsynced,
        "of all"
    );
    assert_eq!(
        world.objects().save(&Trade { id: 1 }).await?.durability(),
        Safety::Landed,
        "of the Rust type"
    );
    assert_eq!(
        world.objects().save(&Player { id: 1 }).await?.durability(),
        Safety::Cached,
        "of the logic type, by settings"
    );
    let guild = world.bytes().owner("guild", 1_u64)?;
    assert_eq!(
        guild.incr("a", 1).await?.ack().durability(),
        Safety::Landed,
        "of the logic type, by the builder"
    );
    assert_eq!(
        room.update([("a", "1")])
            .durability(Durability::Cached)
            .await?
            .durability(),
        Safety::Cached,
        "of the write"
    );
    let each = world
        .bytes()
        .bulk()
        .update(&room, [("a", "2")])
        .incr(&guild, "a", 1)
        .await;
    let each: Vec<_> = each
        .into_iter()
        .map(|ack| ack.map(|ack| ack.durability()))
        .collect::<Result<_, _>>()?;
    assert_eq!(
        each,
        [Safety::Fsynced, Safety::Landed],
        "each write of a bulk by itself"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_mode_refuses_what_it_can_not_give() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("game.db")).await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    for durability in [REPLICATED, FSYNCED] {
        let error = ann
            .update([("gold", "1")])
            .durability(durability)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Durability, Outcome::NotApplied)
        );
        assert!(error.to_string().contains("ask for Landed"), "{error}");
    }
    assert!(!ann.exists().await?);
    assert_eq!(
        ann.update([("gold", "1")])
            .durability(Durability::Landed { timeout: LONG })
            .await?
            .durability(),
        Safety::Landed
    );
    let never = Durability::Fsynced {
        timeout: Duration::ZERO,
    };
    assert_eq!(
        ann.update([("gold", "1")])
            .durability(never)
            .await
            .unwrap_err()
            .kind(),
        Kind::Invalid
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_game_server_was_told_outlives_it() -> Result<()> {
    let world = World::fresh().await?;
    let asked = [
        ("cached", Durability::Cached),
        ("fsynced", FSYNCED),
        ("landed", Durability::Landed { timeout: LONG }),
    ];
    let there = world.clone();
    let died = std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let stack = Stack::with(there).await?;
            for (name, durability) in asked {
                stack
                    .player(name)
                    .update([("gold", "1")])
                    .durability(durability)
                    .await?;
            }
            std::mem::forget(stack);
            anyhow::Ok(())
        })?;
        // Like a killed process: none of its tasks runs on, and nothing is closed.
        runtime.shutdown_background();
        Ok(())
    });
    died.join()
        .map_err(|_| anyhow::anyhow!("the game server panicked"))??;
    let stack = Stack::with(world).await?;
    for (name, _) in asked {
        assert_eq!(
            stack.player(name).get(["gold"]).await?["gold"].as_deref(),
            Some(&b"1"[..]),
            "{name}"
        );
    }
    Ok(())
}

/// Items of one collection are linked by its head, so each landing takes all of them. The long form shows the rates.
#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_one_group_that_wait_for_the_database_are_faster_than_one() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let mut rates = Vec::new();
    for writers in [1, 32] {
        let until = Instant::now() + Duration::from_secs(size(1, 20));
        let begun = Instant::now();
        let writing = (0..writers).map(|writer| write_items(&stack, writers, writer, until));
        let counts = futures::future::try_join_all(writing).await?;
        let written: u32 = counts.into_iter().sum();
        let rate = f64::from(written) / begun.elapsed().as_secs_f64();
        println!("{writers} writers: {rate:.1} writes/s");
        rates.push(rate);
    }
    worker.stop().await?;
    ensure!(rates[1] > rates[0], "{rates:?}");
    Ok(())
}

/// Writes items with the head of their collection until then, and waits for the database each time.
async fn write_items(stack: &Stack, writers: u32, writer: u32, until: Instant) -> Result<u32> {
    let world = stack.storage.world("game", "eu")?;
    let head = world
        .bytes()
        .owner("player", format!("{{g{writers}}}/head"))?;
    let mut written = 0;
    while written == 0 || Instant::now() < until {
        let id = format!("{{g{writers}}}/{writer}-{written}");
        let item = world.bytes().owner("player", id)?;
        let both = world
            .transaction()
            .owner(&head, |part| part.add("items", 1))
            .owner(&item, |part| part.set("number", "1"));
        both.durability(Durability::Landed { timeout: LONG })
            .await?;
        written += 1;
    }
    Ok(written)
}
