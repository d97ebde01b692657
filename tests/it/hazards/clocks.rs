//! A clock that is set back while marks wait, or leaps ahead while a write is under way (H6, H8,
//! H48).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join;
use storage_config::Settings;
use storage_landing::drained;
use storage_model::{ManualClock, Timestamp};
use storage_sdk::{Outcome, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Proxy, Stack, World, rows, stack, until};
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_marks_from_before_the_clock_was_set_back_and_not_for_those_made_meanwhile()
-> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        clock: true,
        ..RedisOptions::default()
    })
    .await?;
    let stack = Stack::with(World::on(&redis.url(), stack::mariadb().await?).await?).await?;
    for id in 0..50 {
        stack
            .player(&id.to_string())
            .update([("early", "1")])
            .await?;
    }
    redis.skew(-3_600)?;
    let (done, mut writes) = (tokio::sync::Notify::new(), 0_u64);
    let play = async {
        let finished = done.notified();
        tokio::pin!(finished);
        loop {
            tokio::select! {
                () = &mut finished => return anyhow::Ok(()),
                written = stack.player(&(writes % 50).to_string()).update([("late", writes.to_string())]) => drop(written?),
            }
            writes += 1;
        }
    };
    let drain = async {
        let worker = stack.worker();
        let left = drained(
            stack.storage.tiers().hot(),
            Instant::now() + Duration::from_secs(60),
            |_| {},
        )
        .await;
        done.notify_one();
        worker.stop().await?;
        anyhow::Ok(left?)
    };
    let (played, left) = join(play, drain).await;
    played?;
    assert_eq!(
        left?,
        [],
        "it ended before its deadline, though writes went on"
    );
    let early = rows(&stack.database)
        .await?
        .into_iter()
        .filter(|row| row.name.ends_with("/early"))
        .count();
    assert_eq!(early, 50);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_mode_lands_everything_when_it_closes_though_the_clock_was_set_back()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let settings = Settings::embedded(folder.path().join("game.db"));
    let clock = Arc::new(ManualClock::new(Timestamp(2_000_000_000_000_000)));
    let storage = Storage::builder(settings.clone())
        .clock(clock.clone())
        .open()
        .await?;
    let bytes = storage.world("game", "eu")?.bytes();
    for id in 0..200 {
        bytes
            .owner("player", id.to_string())?
            .update([("gold", id.to_string())])
            .await?;
    }
    clock.set(Timestamp(1_000_000_000_000_000));
    let report = storage.close(Duration::from_secs(30)).await;
    assert_eq!((report.unlanded, report.errors), (Some(0), Some(0)));
    let again = Storage::open(settings).await?;
    let bytes = again.world("game", "eu")?.bytes();
    for id in 0..200 {
        let read = bytes.owner("player", id.to_string())?.get(["gold"]).await?;
        assert_eq!(read["gold"].as_deref(), Some(id.to_string().as_bytes()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_repeat_came_too_late_by_a_wrong_clock_is_of_unknown_outcome() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        clock: true,
        ..RedisOptions::default()
    })
    .await?;
    let proxy = Proxy::start(redis.port()).await?;
    let mut world = World::on(
        &format!("redis://127.0.0.1:{}", proxy.port()),
        stack::mariadb().await?,
    )
    .await?;
    world.settings.redis.response_timeout = Duration::from_millis(200);
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    // The proxy holds the first copy back. Its repeat goes over another connection and finds that
    // the deadline has passed.
    let late = async |write: storage_sdk::Write| {
        proxy.hold_open_ones();
        redis.skew(3_600)?;
        let error = write.deadline(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        redis.skew(0)?;
        proxy.let_go();
        anyhow::Ok(())
    };
    late(ann.update([("gold", "2")]).id(stack.storage.next_id())).await?;
    until("the first copy is applied", async || {
        Ok(ann.get(["gold"]).await?["gold"].as_deref() == Some(b"2"))
    })
    .await?;
    // The store ends a call before it repeats the call's writes. So the first copy can never be
    // applied.
    late(ann.update([("gold", "3")])).await?;
    until("the first copy is refused", async || {
        let errors = redis.call(&["INFO", "errorstats"]).await?;
        Ok(errors.text()?.contains("errorstat_STALE:count=1"))
    })
    .await?;
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"2"[..]));
    Ok(())
}
