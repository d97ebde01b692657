//! A storage on servers outlives the runtime that opened it (H60).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_sdk::{ByteOwner, Durability, Kind, Safety, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{World, stack, until};
use tokio::runtime::{Builder, Runtime};

/// Far longer than any step here takes.
const LONG: Duration = Duration::from_secs(30);

/// A storage whose opener's runtime has ended, and the runtime of the servers and all later calls.
struct Orphan {
    redis: RedisServer,
    storage: Storage,
    runtime: Runtime,
}

impl Orphan {
    fn new(set: impl FnOnce(&mut World)) -> Result<Self> {
        let (runtime, opener) = (
            Runtime::new()?,
            Builder::new_current_thread().enable_all().build()?,
        );
        let (redis, mut world) = runtime.block_on(async {
            let redis = RedisServer::start(RedisOptions::default()).await?;
            let world = World::on(&redis.url(), stack::mariadb().await?).await?;
            anyhow::Ok((redis, world))
        })?;
        set(&mut world);
        let storage = opener.block_on(Storage::open(world.settings))?;
        opener.block_on(async {
            player(&storage, "first")?
                .update([("gold", "1")])
                .await
                .context("the first write")
        })?;
        drop(opener);
        Ok(Self {
            redis,
            storage,
            runtime,
        })
    }

    fn player(&self, id: &str) -> Result<ByteOwner> {
        player(&self.storage, id)
    }
}

fn player(storage: &Storage, id: &str) -> Result<ByteOwner> {
    Ok(storage.world("game", "eu")?.bytes().owner("player", id)?)
}

#[test]
fn the_policy_is_checked_on_after_the_runtime_of_the_opener_ended() -> Result<()> {
    let orphan =
        Orphan::new(|world| world.settings.hot.policy_check_interval = Duration::from_secs(1))?;
    let ann = orphan.player("ann")?;
    orphan.runtime.block_on(async {
        ann.update([("gold", "1")]).await?;
        orphan
            .redis
            .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
            .await?;
        let refused = async || {
            Ok(ann
                .update([("gold", "2")])
                .await
                .is_err_and(|error| error.kind() == Kind::UnsafeEviction))
        };
        until("writes are refused", refused).await
    })
}

#[test]
fn the_watermarks_hold_on_after_the_runtime_of_the_opener_ended() -> Result<()> {
    let orphan = Orphan::new(|world| {
        let backpressure = &mut world.settings.backpressure;
        (backpressure.soft_marks, backpressure.hard_marks) = (20, 60);
        (backpressure.delay_max, backpressure.interval) =
            (Duration::from_millis(5), Duration::from_millis(10));
    })?;
    orphan.runtime.block_on(async {
        for number in 0..20_000 {
            match orphan
                .player(&number.to_string())?
                .update([("gold", "1")])
                .await
            {
                Err(error) if error.kind() == Kind::Overloaded => return Ok(()),
                written => drop(written?),
            }
        }
        anyhow::bail!("no write was refused")
    })
}

#[test]
fn reads_loads_and_writes_go_on_in_runtimes_of_their_own() -> Result<()> {
    let orphan = Orphan::new(|_| {})?;
    let ann = orphan.player("ann")?;
    let fresh = || Builder::new_current_thread().enable_all().build();
    for round in 1..=10_i64 {
        assert_eq!(
            fresh()?
                .block_on(async { ann.incr("gold", 1).await })?
                .value(),
            round
        );
        let landed = Durability::Landed { timeout: LONG };
        let ack =
            fresh()?.block_on(async { ann.update([("name", "Ann")]).durability(landed).await })?;
        assert_eq!(ack.durability(), Safety::Landed);
        fresh()?.block_on(ann.flush(LONG))?;
        let read = fresh()?.block_on(ann.get(["gold"]))?;
        assert_eq!(read["gold"].as_deref(), Some(round.to_string().as_bytes()));
        // Each of these reads asks the database.
        let cold = orphan.player(&format!("cold{round}"))?;
        ensure!(fresh()?.block_on(cold.get_all())?.is_empty());
    }
    assert_eq!(fresh()?.block_on(orphan.storage.close(LONG)).under_way, 0);
    Ok(())
}

#[test]
fn a_runtime_that_ends_in_the_middle_of_its_calls_fails_none_of_another() -> Result<()> {
    let orphan = Orphan::new(|_| {})?;
    let ended = Arc::new(AtomicBool::new(false));
    let (storage, all_ended) = (orphan.storage.clone(), Arc::clone(&ended));
    let ending = std::thread::spawn(move || -> Result<()> {
        for round in 0..30_u32 {
            let runtime = Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?;
            for task in 0..20 {
                let (shared, own) = (
                    player(&storage, "ann")?,
                    player(&storage, &format!("{round}-{task}"))?,
                );
                runtime.spawn(async move {
                    loop {
                        let _ = tokio::join!(
                            async { shared.update([("by", "another")]).await },
                            own.get_all()
                        );
                    }
                });
            }
            let seen = player(&storage, "ann")?;
            runtime.block_on(async { drop(seen.get(["by"]).await) });
            runtime.shutdown_background();
        }
        all_ended.store(true, Ordering::SeqCst);
        Ok(())
    });
    let ann = orphan.player("ann")?;
    let mut count = 0;
    orphan.runtime.block_on(async {
        while !ended.load(Ordering::SeqCst) && !ending.is_finished() {
            count += 1;
            assert_eq!(ann.incr("gold", 1).await?.value(), count);
            let cold = player(&orphan.storage, &format!("cold{count}"))?;
            ensure!(cold.get_all().await?.is_empty());
        }
        anyhow::Ok(())
    })?;
    ending
        .join()
        .map_err(|_| anyhow::anyhow!("the other thread panicked"))??;
    ensure!(count > 0, "no call was made in between");
    Ok(())
}

/// The first runtime stands still and is not dropped. It drives neither its connections nor its
/// tasks.
#[test]
fn a_runtime_that_stands_still_holds_up_no_other() -> Result<()> {
    let runtime = Runtime::new()?;
    let mut world = runtime.block_on(World::fresh())?;
    let redis = &mut world.settings.redis;
    let short = Duration::from_millis(200);
    (
        redis.connect_timeout,
        redis.response_timeout,
        redis.wait_timeout,
    ) = (short, short, short);
    let stands_still = Builder::new_current_thread().enable_all().build()?;
    let storage = stands_still.block_on(Storage::open(world.settings))?;
    let ann = player(&storage, "ann")?;
    stands_still.block_on(async {
        // All at once, so that a carrier takes them. The carrier has not yet seen that its queue is
        // empty.
        let all = (0..20).map(|_| async { ann.incr("gold", 1).await });
        futures::future::try_join_all(all).await
    })?;
    let begun = ann.clone();
    stands_still.spawn(async move { begun.get_all().await });
    runtime.block_on(async {
        let goes_on = async {
            for count in 21..=40 {
                assert_eq!(ann.incr("gold", 1).await?.value(), count);
                ensure!(
                    player(&storage, &format!("cold{count}"))?
                        .get_all()
                        .await?
                        .is_empty()
                );
                assert_eq!(
                    ann.get(["gold"]).await?["gold"].as_deref(),
                    Some(count.to_string().as_bytes())
                );
            }
            let all = (0..20).map(|_| async { ann.incr("gold", 1).await });
            futures::future::try_join_all(all).await?;
            ann.flush(LONG).await?;
            anyhow::Ok(())
        };
        stack::bounded("another runtime goes on", goes_on).await?;
        assert_eq!(
            ann.get(["gold"]).await?["gold"].as_deref(),
            Some(&b"60"[..])
        );
        assert_eq!(storage.close(LONG).await.under_way, 0);
        anyhow::Ok(())
    })
}
