//! A database that forgets its commits gets them again, as long as they are on probation (H33).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use storage_config::{
    HotSettings, HotUrl, LandingSettings, RedisSettings, SessionSettings, Settings,
};
use storage_dirty::{Hot, MemoryStore};
use storage_landing::LandingWorker;
use storage_model::{ManualClock, RandomIds, Timestamp};
use storage_sdk::{ByteOwner, Evicted, Outcome, Storage};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::sim::chance::Chance;
use storage_tests::sim::database::transaction::Way;
use storage_tests::sim::database::{Database, ModelStore};
use storage_tests::{Stack, World, rows, stack, until};
use storage_tiers::Tiers;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A server that flushes its log once a second, and a world on it.
async fn forgetful(probation: Duration) -> Result<(MariaDbServer, Stack)> {
    let options = MariaDbOptions {
        flush_log_at_trx_commit: 0,
        ..MariaDbOptions::default()
    };
    let mariadb = MariaDbServer::start(options).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    world.settings.landing.probation = probation;
    world.settings.hot.clean_ttl = Duration::from_secs(1);
    world.settings.hot.refresh_interval = Duration::ZERO;
    world.settings.sql.acquire_timeout = Duration::from_millis(500);
    Ok((mariadb, Stack::with(world).await?))
}

/// The version of each row in the database.
async fn versions(stack: &Stack) -> Result<BTreeMap<String, u64>> {
    Ok(rows(&stack.database)
        .await?
        .into_iter()
        .map(|row| (row.name, row.version))
        .collect())
}

/// The number of rows that are gone or older than before.
fn forgotten(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> usize {
    before
        .iter()
        .filter(|(name, version)| after.get(*name) < Some(version))
        .count()
}

/// Counts each of its players up, a few at a time, until it is told to stop. Returns the last count
/// of each.
async fn count_up(
    players: Vec<ByteOwner>,
    stopped: watch::Receiver<bool>,
) -> Result<BTreeMap<String, u64>> {
    let mut acknowledged = BTreeMap::new();
    for turn in 0.. {
        if *stopped.borrow() {
            break;
        }
        // Some players rest for a while, land, end their probation, expire and are loaded again.
        let of_turn = players
            .iter()
            .skip(turn / 100 % 4 * players.len() / 4)
            .take(players.len() / 4);
        let player = of_turn
            .clone()
            .nth(turn % of_turn.count().max(1))
            .context("a player")?;
        let count = acknowledged
            .entry(player.owner().id().to_owned())
            .or_insert(0);
        match player.incr("count", 1).await {
            Ok(counted) => {
                *count += 1;
                if counted.value() != i64::try_from(*count)? {
                    bail!(
                        "{} was counted to {}, not {count}",
                        player.owner(),
                        counted.value()
                    );
                }
            }
            // A cold player, while the database is away.
            Err(error) if error.outcome() == Outcome::NotApplied => {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(acknowledged)
}

/// The players whose row lacks the last acknowledged count, with that row.
async fn missing(acknowledged: &BTreeMap<String, u64>, stack: &Stack) -> Result<Vec<String>> {
    let rows = rows(&stack.database).await?;
    let stored: BTreeMap<_, _> = rows
        .iter()
        .map(|row| (row.name.as_str(), String::from_utf8_lossy(&row.value)))
        .collect();
    let compared = acknowledged
        .iter()
        .filter(|(_, count)| **count > 0)
        .filter_map(|(id, count)| {
            let found = stored.get(format!("player/{id}/count").as_str());
            (found.map(AsRef::as_ref) != Some(count.to_string().as_str()))
                .then(|| format!("{id}: {count}, has {found:?}"))
        });
    Ok(compared.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_again_and_again_and_forgets_loses_nothing() -> Result<()> {
    const WRITERS: usize = 3;
    const ROUNDS: usize = 10;
    // InnoDB flushes once a second, so a commit is durable after three.
    let (mariadb, stack) = forgetful(Duration::from_secs(3)).await?;
    let stack = stack.with_short_locks();
    let (stop, stopped) = watch::channel(false);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let players = (0..40)
            .map(|id| stack.player(&format!("{writer}-{id}")))
            .collect();
        writers.spawn(count_up(players, stopped.clone()));
    }
    let (mut lost, mut expired, mut requeued, mut round) = (0, 0, 0, 0);
    while round < ROUNDS || lost == 0 || expired == 0 {
        round += 1;
        anyhow::ensure!(
            round <= 3 * ROUNDS,
            "the database has forgotten {lost} rows, and {expired} marks ended their probation"
        );
        let worker = stack.worker();
        // In the first round the server runs long enough for marks to end their probation and for
        // owners to expire.
        let (rows, ended) = if expired == 0 { (500, 50) } else { (200, 0) };
        until("rows have landed", async || {
            let counts = worker.counts();
            Ok(counts.rows >= rows && counts.expired >= ended)
        })
        .await?;
        expired += worker.counts().expired;
        requeued += worker.counts().requeued;
        worker.kill();
        let before = versions(&stack).await?;
        mariadb.kill()?;
        mariadb.restart().await?;
        lost += forgotten(&before, &versions(&stack).await?);
    }
    stop.send(true)?;
    let mut acknowledged = BTreeMap::new();
    while let Some(counted) = writers.join_next().await {
        acknowledged.extend(counted??);
    }
    // Commits that the last crash might have taken land again, even if none was lost.
    anyhow::ensure!(
        requeued > 0,
        "no worker found anything on probation after a crash"
    );
    let on_probation = stack.storage.stats().await?.probation_marks;
    let worker = stack.worker();
    let live = until("the mark on probation is live again", async || {
        Ok(on_probation == 0 || worker.counts().requeued > 0)
    });
    if let Err(late) = live.await {
        bail!(
            "{late}: {on_probation} marks were, {:?}, {:?}",
            worker.counts(),
            stack.storage.stats().await?
        );
    }
    let landed = until("all that was acknowledged is in the database", async || {
        Ok(missing(&acknowledged, &stack).await?.is_empty())
    });
    if let Err(late) = landed.await {
        bail!(
            "{late}: {:?}, {:?}",
            missing(&acknowledged, &stack).await?,
            worker.counts()
        );
    }
    worker.stop().await?;
    println!(
        "{lost} rows forgotten in {round} crashes, {} writes acknowledged, 0 lost",
        acknowledged.values().sum::<u64>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_clean_restart_what_is_on_probation_lands_again_and_its_probation_ends()
-> Result<()> {
    let (mariadb, stack) = forgetful(Duration::from_millis(200)).await?;
    mariadb
        .sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        .await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1"), ("bag", "sword")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(stack.storage.stats().await?.probation_marks, 1);
    assert_eq!(
        ann.evict().await?,
        Evicted::WhenLanded,
        "the owner stays until the probation ends"
    );
    let before = rows(&stack.database).await?;
    mariadb.stop().await?;
    mariadb.restart().await?;
    let worker = stack.worker();
    until("its mark is live again", async || {
        Ok(worker.counts().requeued == 1)
    })
    .await?;
    until("its probation has ended", async || {
        Ok(stack.storage.stats().await?.probation_marks == 0)
    })
    .await?;
    assert_eq!(rows(&stack.database).await?, before);
    worker.stop().await?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"1"[..]),
        "evicted and loaded"
    );
    assert_eq!(ann.incr("gold", 1).await?.value(), 2);
    Ok(())
}

/// A failover to a lagging replica within the period causes this, and so does a restored backup.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_database_gets_what_it_lacks() -> Result<()> {
    let (mariadb, stack) = forgetful(Duration::from_secs(600)).await?;
    let (ann, partition) = (
        stack.player("ann"),
        stack.player("ann").owner().partition(8),
    );
    let (neighbours, others): (Vec<_>, Vec<_>) = (0..60)
        .map(|id| stack.player(&id.to_string()))
        .partition(|player| player.owner().partition(8) == partition);
    let half = others.len() / 2;
    let set = async |of: &[ByteOwner], gold: &'static str| -> Result<()> {
        for player in of {
            player.update([("gold", gold)]).await?;
        }
        Ok(())
    };
    set(&others[..half], "1").await?;
    // Ann is written after her neighbours and lands before them. So their landing does not raise
    // the highest version of the partition, and that version does not show whether they are lost.
    set(&neighbours, "1").await?;
    ann.update([("gold", "1")]).await?;
    ann.flush(Duration::from_secs(20)).await?;
    let (data, copy) = (mariadb.folder().join("data"), mariadb.folder().join("copy"));
    mariadb.stop().await?;
    copy_folder(&data, &copy)?;
    mariadb.restart().await?;
    let worker = stack.worker();
    set(&others[half..], "2").await?;
    stack.landed().await?;
    worker.stop().await?;
    let newest = versions(&stack).await?;
    mariadb.stop().await?;
    std::fs::remove_dir_all(&data)?;
    std::fs::rename(&copy, &data)?;
    mariadb.restart().await?;
    assert_eq!(forgotten(&newest, &versions(&stack).await?), 60);
    let worker = stack.worker();
    until("the database has all again", async || {
        Ok(versions(&stack).await? == newest)
    })
    .await?;
    worker.stop().await
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Only the worker's own time counts here. The hot tier's clock leaps (H11).
#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ends_no_probation() -> Result<()> {
    const PERIOD: Duration = Duration::from_secs(10);
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let hot: Hot = Hot::of(&Arc::new(MemoryStore::new(
        &RedisSettings::new(HotUrl::Memory),
        &HotSettings::default(),
        clock.clone(),
    )));
    let way = Way {
        database: Database::new(None),
        chance: Chance::new(0, false),
        process: Arc::default(),
    };
    let cold = ModelStore::cold(way);
    let mut settings = Settings::embedded(Path::new("model"));
    settings.landing.probation = PERIOD;
    let storage = Storage::builder(settings)
        .landing(false)
        .hot(hot.clone())
        .cold(cold.clone())
        .open()
        .await?;
    let begun = Instant::now();
    storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?
        .update([("gold", "1")])
        .await?;
    let worker = LandingWorker::new(
        Tiers::new(hot, cold, 100).on_probation(PERIOD),
        &LandingSettings::default(),
        &SessionSettings::default(),
        &RandomIds,
    );
    let landing = tokio::spawn(async move { worker.run(std::future::pending()).await });
    until("it has landed", async || {
        Ok(storage.stats().await?.probation_marks == 1)
    })
    .await?;
    until("its probation has ended", async || {
        // Not more often, since each leap takes away the worker's locks.
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.advance(Duration::from_hours(1));
        Ok(storage.stats().await?.probation_marks == 0)
    })
    .await?;
    assert!(begun.elapsed() >= PERIOD, "after {:?}", begun.elapsed());
    landing.abort();
    Ok(())
}
