//! What a storage does by itself: maintenance, and landing in embedded mode.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join3;
use storage_landing::LandingWorker;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep, timeout_at};

use crate::brake::watch;
use crate::core::Core;

/// How often reads' touches are sent.
const TOUCH_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the tiers still belong together: one statement to the database each time.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// The tasks of a storage. They end when it is closed, or when its last handle is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    worker: Option<LandingWorker>,
}

impl Background {
    pub(crate) fn start(core: &Arc<Core>, check_every: Duration, worker: Option<LandingWorker>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let held = Arc::clone(core);
        let ended = ended(stopped.clone());
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ended => {}
                () = maintain_always(&held, check_every) => {}
            }
        });
        if let Some(worker) = worker.clone() {
            let ended = self::ended(stopped);
            tasks.spawn(async move { worker.run(ended).await });
        }
        Self { stop, tasks: Mutex::new(tasks), worker }
    }

    pub(crate) fn worker(&self) -> Option<&LandingWorker> {
        self.worker.as_ref()
    }

    /// Ends the tasks, in an orderly way until `deadline`.
    pub(crate) async fn stop(&self, deadline: Instant) {
        let _ = self.stop.send(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while let Ok(Some(_)) = timeout_at(deadline, tasks.join_next()).await {}
    }
}

/// Ready when the storage is closed or dropped.
async fn ended(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Maintenance that goes on after a panic, which is a defect but no reason to trust the hot tier unseen from then on (H49).
async fn maintain_always(core: &Core, check_every: Duration) {
    while AssertUnwindSafe(join3(maintain(core, check_every), watch(core), compare(core))).catch_unwind().await.is_err() {
        tracing::error!("maintenance panicked and begins anew");
        sleep(TOUCH_EVERY).await;
    }
}

/// Looks whether the tiers still belong together. Writes are refused from the moment it finds that they do not.
async fn compare(core: &Core) {
    let mut looks = interval_at(Instant::now() + COMPARE_EVERY, COMPARE_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = core.tiers.belong().await {
            tracing::debug!(%error, "the tiers could not be compared");
        }
    }
}

/// Sends touches, and looks whether the hot tier still may be trusted with unlanded data.
async fn maintain(core: &Core, check_every: Duration) {
    let hot = core.tiers.hot();
    let mut checks = interval(check_every);
    let mut touches = interval(TOUCH_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    touches.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = checks.tick() => {
                if let Err(error) = hot.check().await {
                    tracing::error!(%error, "the hot tier failed its check");
                }
            }
            _ = touches.tick() => {
                // What fails here is tried again at the next tick, and was warned of when it began.
                let _ = core.tiers.verify_trusted().await;
                let owners = core.touches.take();
                if !owners.is_empty() && let Err(error) = hot.touch(&owners).await {
                    tracing::debug!(%error, "owners were not touched; they may expire sooner");
                }
            }
        }
    }
}
