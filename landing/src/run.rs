//! The loop of a landing worker: when to look, to wait and to stop.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storage_coalesce::locked;
use storage_config::{LandingSettings, SessionSettings};
use storage_dirty::Lock;
use storage_model::{Ids, SinkName, times};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::claim::Claims;
use crate::expiring::Expiring;
use crate::failure::is_lost;
use crate::hooks::Permit;
use crate::limiter::{Limiter, Limits};
use crate::metrics::{Counts, Metrics};
use crate::notes::LandedNotes;
use crate::pulse::Pulse;
use crate::relay::{self, Relay};
use crate::sink::Sink;
use crate::worker::Worker;
use storage_tiers::caught::caught;
use storage_tiers::{TierError, Tiers};

/// A landing worker. Any number of them can run at once, in one process or in many.
///
/// It keeps no data of its own. A worker that is killed at any instruction loses nothing. Another
/// worker takes over when its locks expire.
#[derive(Debug, Clone)]
pub struct LandingWorker {
    worker: Arc<Worker>,
    relays: Vec<Arc<Relay>>,
}

impl LandingWorker {
    /// A worker that does not run yet. Without a `worker_name` it makes a name from `worker` and
    /// the token of its locks. Of `sessions` it uses `lease`.
    #[must_use]
    pub fn new(
        tiers: Tiers,
        settings: &LandingSettings,
        sessions: &SessionSettings,
        ids: &dyn Ids,
    ) -> Self {
        let (token, jitter) = (ids.next().to_string(), ids.next());
        let holder = match &settings.worker_name {
            Some(name) => name.clone(),
            None => format!("worker-{token}"),
        };
        let lock = Lock { holder, token };
        let limits = Limits::from(settings);
        let worker = Worker {
            tiers,
            settings: settings.clone(),
            limits,
            lease: sessions.lease,
            limiter: Limiter::new(limits),
            claims: Claims::new(lock),
            permit: Permit::default(),
            metrics: Metrics::default(),
            dropped: Mutex::default(),
            replayed: Mutex::default(),
            looked: Mutex::default(),
            compared: Mutex::default(),
            expiring: Expiring::default(),
            landed_notes: LandedNotes::default(),
            stuck: Mutex::default(),
            pulse: Pulse::default(),
            jitter,
            hurry: watch::Sender::new(false),
        };
        Self {
            worker: Arc::new(worker),
            relays: Vec::new(),
        }
    }

    /// From now on lands at once what waits, without a pause in which more would gather. For a process
    /// that is about to end.
    pub fn hurry(&self) {
        self.worker.hurry.send_replace(true);
    }

    /// Adds a sink, which gets all landed events of the partitions that this worker holds. A second
    /// sink of a name replaces the first. All workers of a world need the same sinks.
    #[must_use]
    pub fn with_sink(mut self, name: SinkName, sink: Arc<dyn Sink>) -> Self {
        self.relays.retain(|relay| !relay.is_of(&name));
        self.relays.push(Arc::new(Relay::new(name, sink)));
        self
    }

    /// The worker's counters so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let lags = self.relays.iter().map(|relay| relay.behind());
        Counts {
            sink_lag: lags.max().unwrap_or_default(),
            replaced: self.worker.tiers.is_replaced(),
            ..self.worker.metrics.counts()
        }
    }

    /// How many rows the next batch takes: fewer after failures, and `batch_rows` at most.
    #[must_use]
    pub fn batch_rows(&self) -> usize {
        self.worker.limiter.rows()
    }

    /// The error of the last pass, if waiting does not help and an operator must act, for example
    /// after the database took a right away. `None` once a pass succeeds.
    #[must_use]
    pub fn stuck(&self) -> Option<TierError> {
        let stuck = self.worker.stuck.lock();
        stuck.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The time since the loop last began a pass or a batch. A batch may take several times
    /// `sql.statement_timeout` while a tier hangs.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.worker.pulse.age()
    }

    /// Whether the worker finishes its last batches, and claims no more partitions.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.worker.claims.is_closed()
    }

    fn note_pass(&self, ended: Result<(), &TierError>) {
        self.worker.tiers.note_landing(ended);
        let stuck = ended.err().filter(|error| error.is_for_operator()).cloned();
        *locked(&self.worker.stuck) = stuck;
    }

    /// The worker's tiers.
    #[must_use]
    pub fn tiers(&self) -> &Tiers {
        &self.worker.tiers
    }

    /// Lands until `shutdown` is ready. Then finishes the batches under way, gives its locks back,
    /// and returns. A sink may take 5 s for its last batch.
    ///
    /// Failures of either tier and panics are logged and retried without limit. While the database
    /// is away, no mark is given up or moved.
    ///
    /// # Cancel safety
    /// Dropping the future is like killing the worker: nothing is lost, and its locks expire.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let (stop, stopped) = watch::channel(false);
        let shutdown = async {
            shutdown.await;
            self.worker.claims.close();
            let _ = stop.send(true);
        };
        let (end, ended) = watch::channel(false);
        let work = async {
            tokio::join!(
                self.work(stopped.clone()),
                relay::serve(&self.relays, &self.worker, &stopped),
                self.worker.sweep_rows(stopped.clone())
            );
            let _ = end.send(true);
        };
        // The locks are kept until the last batch is finished.
        tokio::join!(
            shutdown,
            self.worker.watch_hooks(ended.clone()),
            self.worker.keep_claims(ended.clone()),
            self.worker.watch_holders(ended.clone()),
            self.worker.watch_tiers(ended),
            work
        );
        let Worker {
            tiers,
            claims,
            metrics,
            ..
        } = &*self.worker;
        let panics = &metrics.panics;
        if let Err(error) = caught(panics, async { Ok(claims.release(tiers.hot()).await?) }).await {
            tracing::warn!(%error, "locks could not be given back: they expire");
        }
    }

    async fn work(&self, mut stopped: watch::Receiver<bool>) {
        let settings = &self.worker.settings;
        let mut backoff = Backoff::new(
            settings.backoff_min(),
            settings.backoff_max,
            self.worker.jitter,
        );
        let mut failures = 0_u32;
        let mut hurry = self.worker.hurry.subscribe();
        while !*stopped.borrow_and_update() {
            let begun = Instant::now();
            let interval = match *hurry.borrow_and_update() {
                true => HURRY.min(settings.interval),
                false => settings.interval,
            };
            self.worker.pulse.beat();
            let pause = match caught(&self.worker.metrics.panics, self.worker.pass()).await {
                Ok(()) => {
                    self.note_pass(Ok(()));
                    if failures > 0 {
                        tracing::info!(failures, "landing goes on");
                    }
                    failures = 0;
                    backoff.reset();
                    rest(begun.elapsed(), interval)
                }
                Err(error) => {
                    self.note_pass(Err(&error));
                    failures = failures.saturating_add(1);
                    let wait = match error {
                        // Another hot tier may fall silent.
                        TierError::Behind(_) => backoff.wait().min(times::COMPARE_EVERY),
                        _ => backoff.wait(),
                    };
                    self.report(&error, failures, wait);
                    wait
                }
            };
            tokio::select! {
                biased;
                () = wait(pause, &mut stopped) => {}
                // The worker, and so the sender, outlives this loop.
                _ = hurry.changed() => {}
            }
        }
    }

    fn report(&self, error: &TierError, failures: u32, wait: Duration) {
        self.worker.metrics.failed();
        let wait_ms = wait.as_millis();
        if matches!(error, TierError::Hot(error) if is_lost(error)) {
            tracing::info!(%error, "a partition changed hands");
        } else if error.is_for_operator() {
            tracing::error!(%error, failures, wait_ms, "landing stands still until an operator mends this: waiting data is kept");
        } else {
            tracing::warn!(%error, failures, wait_ms, "landing waits and tries again: no data is lost");
        }
    }
}

/// The interval of a worker in a hurry.
const HURRY: Duration = Duration::from_millis(20);

/// The pause after a pass of this length. Marks gather in the pause, so a field that is written all
/// the time lands once a pass.
///
/// A write just after its partition's turn waits for three things: the rest of the pass, the pause,
/// and its turn in the next pass. Together they last no longer than the interval, if the next pass
/// takes as long. After a pass of half an interval or more there is no pause.
fn rest(took: Duration, interval: Duration) -> Duration {
    interval.saturating_sub(took.saturating_mul(2))
}

/// Waits this long, or until the worker must stop.
pub(crate) async fn wait(pause: Duration, stopped: &mut watch::Receiver<bool>) {
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            _ = stopped.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_no_longer_than_the_interval_and_a_busy_worker_does_not_rest() {
        let ms = Duration::from_millis;
        for (took, expected) in [(0, 500), (10, 480), (200, 100), (250, 0), (10_000, 0)] {
            assert_eq!(rest(ms(took), ms(500)), ms(expected), "after {took} ms");
        }
        assert_eq!(rest(Duration::MAX, Duration::MAX), Duration::ZERO);
    }
}
