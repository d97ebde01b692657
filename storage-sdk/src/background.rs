//! The background tasks of a storage, at home: maintenance, back-pressure and the pairing of the
//! tiers. In embedded mode also landing.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use storage_coalesce::locked;
use storage_landing::LandingWorker;
use storage_model::times;
use storage_tiers::Tiers;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep, timeout_at};

use crate::backpressure::Backpressure;
use crate::refresh::Refreshes;
use crate::unheard;

/// The time between two calls that refresh owners after reads, and the pause after a panic.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// The tasks of a storage. They end when it is closed, or when the last handle of any kind is
/// dropped.
#[derive(Debug)]
pub(crate) struct Background {
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    worker: Option<LandingWorker>,
    restarts: Arc<AtomicU64>,
}

/// The objects that the tasks work on.
#[derive(Debug, Clone)]
pub(crate) struct Upkeep {
    pub(crate) tiers: Tiers,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) refreshes: Arc<Refreshes>,
    pub(crate) check_every: Duration,
}

/// One background task.
struct BackgroundTask {
    name: &'static str,
    backpressure: Arc<Backpressure>,
    stopped: watch::Receiver<bool>,
    restarts: Arc<AtomicU64>,
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        // The runtime ended, and the task with it. From now on nothing checks the hot tier, or
        // lands (H60).
        if !*self.stopped.borrow() {
            self.backpressure.end();
        }
    }
}

impl Background {
    pub(crate) fn start(upkeep: &Upkeep, worker: Option<LandingWorker>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let background = Self {
            stop,
            tasks: Mutex::default(),
            worker,
            restarts: Arc::default(),
        };
        if upkeep.tiers.is_read_only() {
            return background;
        }
        let part = |name| BackgroundTask {
            name,
            backpressure: Arc::clone(&upkeep.backpressure),
            stopped: stopped.clone(),
            restarts: Arc::clone(&background.restarts),
        };
        {
            let home = upkeep.tiers.home().handle();
            let mut tasks = locked(&background.tasks);
            let held = upkeep.clone();
            tasks.spawn_on(
                part("maintenance").keep(move |ended| until(ended, maintain(held.clone()))),
                &home,
            );
            let held = upkeep.clone();
            tasks.spawn_on(
                part("back-pressure").keep(move |ended| until(ended, look(held.clone()))),
                &home,
            );
            let held = upkeep.clone();
            tasks.spawn_on(
                part("pairing").keep(move |ended| until(ended, compare(held.clone()))),
                &home,
            );
            if let Some(worker) = background.worker.clone() {
                let run = move |ended| {
                    let worker = worker.clone();
                    async move { worker.run(ended).await }
                };
                tasks.spawn_on(part("landing").keep(run), &home);
            }
        }
        background
    }

    /// Starts one more task, which ends with the others.
    pub(crate) fn begin<W>(
        &self,
        name: &'static str,
        tiers: &Tiers,
        backpressure: &Arc<Backpressure>,
        work: impl Fn() -> W + Send + Sync + 'static,
    ) where
        W: Future<Output = ()> + Send + 'static,
    {
        let (backpressure, restarts) = (Arc::clone(backpressure), Arc::clone(&self.restarts));
        let part = BackgroundTask {
            name,
            backpressure,
            stopped: self.stop.subscribe(),
            restarts,
        };
        let mut tasks = locked(&self.tasks);
        tasks.spawn_on(
            part.keep(move |ended| until(ended, work())),
            &tiers.home().handle(),
        );
    }

    pub(crate) fn worker(&self) -> Option<&LandingWorker> {
        self.worker.as_ref()
    }

    /// The number of restarts of tasks after a panic.
    pub(crate) fn restarts(&self) -> u64 {
        let landing = self
            .worker
            .as_ref()
            .map_or(0, |worker| worker.counts().panics);
        self.restarts
            .load(Ordering::Relaxed)
            .saturating_add(landing)
    }

    /// Ends the tasks, in an orderly way until `deadline`.
    pub(crate) async fn stop(&self, deadline: Instant) {
        let _ = self.stop.send(true);
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while let Ok(Some(_)) = timeout_at(deadline, tasks.join_next()).await {}
    }
}

impl BackgroundTask {
    /// Runs work until its end is requested. Restarts it after a panic. A panic is a defect, but
    /// the storage must still check the hot tier and land (H49).
    async fn keep<W: Future<Output = ()>>(self, work: impl Fn(Ending) -> W) {
        while AssertUnwindSafe(work(Box::pin(ended(self.stopped.clone()))))
            .catch_unwind()
            .await
            .is_err()
        {
            self.restarts.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                task = self.name,
                "a background task panicked and starts again"
            );
            unheard::warn_once();
            until(Box::pin(ended(self.stopped.clone())), sleep(REFRESH_EVERY)).await;
        }
    }
}

/// Ready when a storage is closed.
type Ending = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn ended(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn until(ended: Ending, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = ended => {}
        () = work => {}
    }
}

/// Looks whether the tiers still belong together. Once they do not, writes fail.
async fn compare(upkeep: Upkeep) {
    let mut looks = interval_at(Instant::now() + times::COMPARE_EVERY, times::COMPARE_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = upkeep.tiers.compare_tiers().await {
            tracing::debug!(%error, "the tiers could not be compared");
        }
        // Landing and the comparison have logged why.
        if upkeep.tiers.refusal().is_some() {
            unheard::warn_once();
        }
    }
}

/// Refreshes owners after reads, and checks whether the hot tier is still safe for unlanded data.
async fn maintain(upkeep: Upkeep) {
    let hot = upkeep.tiers.hot();
    let mut checks = interval(upkeep.check_every);
    let mut refreshes = interval(REFRESH_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    refreshes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = checks.tick() => {
                if let Err(error) = hot.tier.check().await {
                    tracing::error!(%error, "the hot tier failed its check");
                    unheard::warn_once();
                }
            }
            _ = refreshes.tick() => {
                // A failed refresh is not repeated. A later read of the owner asks for another one.
                let owners = upkeep.refreshes.take();
                if !owners.is_empty() && let Err(error) = hot.owners.refresh_ttl(&owners).await {
                    tracing::debug!(%error, "the time to live of owners was not refreshed; they may expire sooner");
                }
            }
        }
    }
}

/// Watches the backlog. Without watermarks there is nothing to watch.
async fn look(upkeep: Upkeep) {
    upkeep.backpressure.watch(upkeep.tiers.hot()).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use storage_config::BackpressureSettings;
    use storage_tiers::Home;

    use super::*;
    use crate::Kind;

    fn part(backpressure: &Arc<Backpressure>) -> (watch::Sender<bool>, BackgroundTask) {
        let (stop, stopped) = watch::channel(false);
        (
            stop,
            BackgroundTask {
                name: "test",
                backpressure: Arc::clone(backpressure),
                stopped,
                restarts: Arc::default(),
            },
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_begun_anew_and_counted_and_ends_when_it_is_told_to() {
        let backpressure = Arc::new(Backpressure::new(
            BackpressureSettings::default(),
            Home::of_caller(),
        ));
        let (stop, part) = part(&backpressure);
        let (begun, restarts) = (Arc::new(AtomicU32::new(0)), Arc::clone(&part.restarts));
        let counted = Arc::clone(&begun);
        let task = tokio::spawn(part.keep(move |ended| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(number >= 3, "on purpose");
                ended.await;
            }
        }));
        while begun.load(Ordering::SeqCst) < 4 {
            tokio::task::yield_now().await;
            tokio::time::advance(REFRESH_EVERY).await;
        }
        assert_eq!(restarts.load(Ordering::SeqCst), 3);
        stop.send(true).unwrap();
        task.await.unwrap();
        assert_eq!(
            backpressure.admit(REFRESH_EVERY, false).await,
            Ok(REFRESH_EVERY)
        );
    }

    #[tokio::test]
    async fn a_task_that_ends_with_its_runtime_has_writes_refused() {
        let backpressure = Arc::new(Backpressure::new(
            BackpressureSettings::default(),
            Home::of_caller(),
        ));
        let (_stop, part) = part(&backpressure);
        drop(part);
        let refused = backpressure.admit(REFRESH_EVERY, false).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Closed);
    }
}
