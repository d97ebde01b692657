//! A panic in a background task of a storage (H49).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_coalesce::locked;
use storage_config::Settings;
use storage_dirty::redis::Hooks;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::{Hot, RedisStore};
use storage_landing::LandingWorker;
use storage_model::RandomIds;
use storage_sdk::{Kind, Storage};
use storage_servers::RedisServer;
use storage_sql::{Opening, open};
use storage_tests::{Stack, World, rows, stack, until};
use storage_tiers::Tiers;

/// Panics on the first call at each place.
#[derive(Debug, Default)]
struct Once {
    armed: std::sync::atomic::AtomicBool,
    places: Mutex<Vec<String>>,
}

impl Once {
    fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    /// The places where it panicked.
    fn places(&self) -> Vec<String> {
        locked(&self.places).clone()
    }

    #[expect(clippy::panic, reason = "it is for that")]
    fn at(&self, place: String) {
        if !self.armed.load(Ordering::SeqCst) {
            return;
        }
        {
            let mut places = locked(&self.places);
            if places.contains(&place) {
                return;
            }
            places.push(place.clone());
        }
        panic!("on purpose {place}");
    }
}

#[async_trait]
impl Intercept for Once {
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken> {
        self.at(format!("before {}", names.last().unwrap_or(&"")));
        Ok(())
    }

    async fn after(&self, names: &[&'static str]) -> Result<(), Broken> {
        self.at(format!("after {}", names.last().unwrap_or(&"")));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panics_at_each_of_its_steps_goes_on_and_loses_nothing() -> Result<()> {
    let stack = Stack::open().await?;
    let settings = &stack.settings;
    let once = Arc::new(Once::default());
    let hooks = Hooks::intercept(once.clone());
    let hot = RedisStore::open_through(&settings.redis, &settings.hot, hooks).await?;
    let cold = Opening::new(&settings.sql)
        .through(once.clone())
        .open()
        .await?;
    let tiers = Tiers::new(Hot::of(&Arc::new(hot)), cold, 1_000);
    let mut landing = settings.landing.clone();
    landing.backoff_max = Duration::from_millis(100);
    let worker = LandingWorker::new(tiers, &landing, &settings.sessions, &RandomIds);
    once.arm(true);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = worker.clone();
    let task = tokio::spawn(async move { running.run(async { drop(stopped.await) }).await });
    for round in 0..10 {
        for id in 0..40 {
            stack
                .player(&id.to_string())
                .update([("round", round.to_string())])
                .await?;
        }
        stack.landed().await?;
    }
    let _ = stop.send(());
    task.await?;
    let places = once.places();
    for step in [
        "announce",
        "lock",
        "peek",
        "snapshot",
        "scan",
        "end_collect",
        "settle",
        "begin",
        "fence",
        "upsert",
    ] {
        assert!(
            places.contains(&format!("before {step}")),
            "no panic before {step}: {places:?}"
        );
        assert!(
            places.contains(&format!("after {step}")),
            "no panic after {step}: {places:?}"
        );
    }
    assert!(places.contains(&"after commit".to_owned()), "{places:?}");
    let stored = rows(&stack.database).await?;
    assert_eq!(
        (
            stored.len(),
            stored.iter().filter(|row| row.value == b"9").count()
        ),
        (40, 40)
    );
    Ok(())
}

/// Panics at the rows of a transaction over several partitions.
#[derive(Debug, Default)]
struct Crowded {
    fences: AtomicU32,
    panics: AtomicU32,
}

#[async_trait]
impl Intercept for Crowded {
    #[expect(clippy::panic, reason = "it is for that")]
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken> {
        match names {
            ["begin"] => self.fences.store(0, Ordering::SeqCst),
            ["fence"] => drop(self.fences.fetch_add(1, Ordering::SeqCst)),
            ["upsert"] if self.fences.load(Ordering::SeqCst) > 1 => {
                self.panics.fetch_add(1, Ordering::SeqCst);
                panic!("on purpose, at a crowd");
            }
            _ => {}
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_panics_each_time_is_cut_by_partitions_as_one_that_fails_is() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.connections = 1;
    let stack = Stack::with(world).await?;
    for id in 0..40 {
        stack
            .player(&id.to_string())
            .update([("gold", "1")])
            .await?;
    }
    let crowded = Arc::new(Crowded::default());
    let cold = Opening::new(&stack.settings.sql)
        .through(crowded.clone())
        .open()
        .await?;
    let tiers = Tiers::new(stack.storage.tiers().hot().clone(), cold, 1_000);
    let Settings {
        landing, sessions, ..
    } = &stack.settings;
    let worker = LandingWorker::new(tiers, landing, sessions, &RandomIds);
    let task = tokio::spawn(async move { worker.run(std::future::pending()).await });
    stack.landed().await?;
    task.abort();
    assert!(
        crowded.panics.load(Ordering::SeqCst) > 0,
        "there was no crowd"
    );
    assert_eq!(rows(&stack.database).await?.len(), 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_mode_lands_on_after_its_landing_task_panicked() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut settings = Settings::embedded(folder.path().join("game.db"));
    settings.landing.interval = Duration::from_millis(20);
    settings.landing.backoff_max = Duration::from_millis(200);
    let once = Arc::new(Once::default());
    let cold = Opening::new(&settings.sql)
        .through(once.clone())
        .open()
        .await?;
    let storage = Storage::builder(settings.clone()).cold(cold).open().await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    ann.update([("gold", "0")]).await?;
    once.arm(true);
    for gold in 1..20 {
        ann.update([("gold", gold.to_string())]).await?;
        until("it has landed", async || {
            Ok(storage.stats().await?.marks == 0)
        })
        .await?;
    }
    assert!(
        once.places().contains(&"before commit".to_owned()),
        "{:?}",
        once.places()
    );
    let restarts = storage.stats().await?.background_restarts;
    assert!(
        restarts >= 2,
        "{restarts} are counted of {:?}",
        once.places()
    );
    assert_eq!(
        storage.close(Duration::from_secs(30)).await.unlanded,
        Some(0)
    );
    let again = open(&settings.sql).await?;
    assert_eq!(
        again.rows.load(&[ann.owner().clone()], 9).await?[0].rows[0]
            .cell
            .value(),
        b"19"
    );
    Ok(())
}

/// A storage whose pipelines pass the intercept.
async fn opened(settings: Settings, gate: Arc<Once>) -> Result<Storage> {
    let hooks = Hooks::intercept(gate);
    let hot = RedisStore::open_through(&settings.redis, &settings.hot, hooks).await?;
    let storage = Storage::builder(settings)
        .hot(Hot::of(&Arc::new(hot)))
        .open();
    Ok(storage.await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_goes_on_after_a_panic() -> Result<()> {
    let redis = RedisServer::start(storage_servers::RedisOptions::default()).await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.hot.policy_check_interval = Duration::from_secs(1);
    let once = Arc::new(Once::default());
    let storage = opened(world.settings, once.clone()).await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    ann.update([("gold", "1")]).await?;
    once.arm(true);
    let panicked = |place: &str| once.places().iter().any(|at| at == place);
    until("maintenance has panicked twice", async || {
        Ok(panicked("before info") && panicked("after info"))
    })
    .await?;
    once.arm(false);
    let counted = async || Ok(storage.stats().await?.background_restarts >= 2);
    until("they are counted", counted).await?;
    redis
        .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await?;
    let refused = async || {
        Ok(ann
            .update([("gold", "2")])
            .await
            .is_err_and(|error| error.kind() == Kind::UnsafeEviction))
    };
    until("the policy was noticed", refused).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watermarks_are_watched_on_after_a_panic() -> Result<()> {
    let mut world = World::fresh().await?;
    let backpressure = &mut world.settings.backpressure;
    (
        backpressure.soft_marks,
        backpressure.hard_marks,
        backpressure.interval,
    ) = (20, 60, Duration::from_millis(10));
    let once = Arc::new(Once::default());
    let storage = opened(world.settings, once.clone()).await?;
    once.arm(true);
    // No other task looks at the backlog here.
    until("the look has panicked", async || {
        Ok(once.places().contains(&"before peek".to_owned()))
    })
    .await?;
    once.arm(false);
    until("it is counted", async || {
        Ok(storage.stats().await?.background_restarts > 0)
    })
    .await?;
    let players = storage.world("game", "eu")?.bytes();
    let mut number = 0_u32;
    let refused = async || {
        number += 1;
        let written = players
            .owner("player", number)?
            .update([("gold", "1")])
            .await;
        Ok(written.is_err_and(|error| error.kind() == Kind::Overloaded))
    };
    until("writes are refused", refused).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_panics_fails_its_own_callers_alone_and_is_counted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let settings = Settings::embedded(folder.path().join("game.db"));
    let once = Arc::new(Once::default());
    let cold = Opening::new(&settings.sql)
        .through(once.clone())
        .open()
        .await?;
    let storage = Storage::builder(settings)
        .cold(cold)
        .landing(false)
        .open()
        .await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    ann.update([("gold", "1")]).await?;
    let cold = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "bob")?;
    once.arm(true);
    until("the load goes through", async || {
        Ok(cold.get_all().await.is_ok())
    })
    .await?;
    assert!(
        once.places().contains(&"before load_one".to_owned()),
        "{:?}",
        once.places()
    );
    assert!(storage.stats().await?.background_restarts > 0);
    Ok(())
}
