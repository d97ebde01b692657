//! The landing worker's loop: when to look, when to wait, when to stop.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_dirty::Lock;
use storage_model::Ids;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::LandingOptions;
use crate::backoff::Backoff;
use crate::claim::Claims;
use crate::metrics::{Counts, Metrics};
use crate::pace::{Limits, Pace};
use crate::pass::Worker;
use crate::probation::Leaving;
use crate::rescue::{self, Rescued};
use crate::turn::Turns;
use storage_tiers::caught::caught;
use storage_tiers::leases::Lapsed;
use storage_tiers::{Leases, TierError, Tiers};

/// Lifetimes of a lock until what a whole rescue landed is looked at again. A hot tier that takes
/// writes now and then, and none whenever a lock is to be kept, has new marks by then.
const WHOLE_RESCUE_TTLS: u32 = 10;

/// A landing worker. Any number of them may run at once, in one process or in many.
///
/// What it does not do is hold anything of its own: killed at any instruction, it loses nothing,
/// and another worker goes on when its locks run out.
#[derive(Debug, Clone)]
pub struct LandingWorker {
    worker: Arc<Worker>,
}

impl LandingWorker {
    /// A worker that does not run yet.
    #[must_use]
    pub fn new(tiers: Tiers, mut options: LandingOptions, ids: &dyn Ids) -> Self {
        let (token, jitter) = (ids.next().to_string(), ids.next());
        if options.name.is_empty() {
            options.name = format!("worker-{token}");
        }
        let lock = Lock {
            holder: options.name.clone(),
            token,
        };
        let limits = Limits {
            rows: options.batch_rows,
            bytes: options.batch_bytes,
            transactions: options.connections,
        };
        let worker = Worker {
            tiers,
            options,
            turns: Turns::new(limits),
            claims: Claims::new(lock),
            metrics: Metrics::default(),
            replayed: Mutex::default(),
            looked: Mutex::default(),
            compared: Mutex::default(),
            leaving: Leaving::default(),
            jitter,
        };
        Self {
            worker: Arc::new(worker),
        }
    }

    /// What it counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.worker.metrics.counts()
    }

    /// How much it asks of the database at once, as it finds the database now.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.worker.turns.pace(|pace| pace.clone())
    }

    /// The tiers it works on.
    #[must_use]
    pub fn tiers(&self) -> &Tiers {
        &self.worker.tiers
    }

    /// Lands until `shutdown` is ready; then finishes the batches under way, gives its locks back
    /// and returns.
    ///
    /// Failures of either tier are reported and waited out, for as long as it takes, and so are
    /// panics. While the database is away nothing is given up and no mark is moved.
    ///
    /// # Cancel safety
    /// Dropping it is like killing the worker: nothing is lost, and its locks run out.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let (stop, stopped) = watch::channel(false);
        let shutdown = async {
            shutdown.await;
            self.worker.claims.close();
            let _ = stop.send(true);
        };
        let (end, ended) = watch::channel(false);
        let work = async {
            self.work(stopped).await;
            let _ = end.send(true);
        };
        // The locks are kept until the last batch is finished.
        tokio::join!(
            shutdown,
            self.keep(ended.clone()),
            self.watch_holders(ended),
            work
        );
        let Worker {
            tiers,
            options,
            claims,
            metrics,
            ..
        } = &*self.worker;
        let panics = &metrics.panics;
        if let Err(error) = caught(panics, async {
            Ok(claims.release(tiers.hot().as_ref(), options).await?)
        })
        .await
        {
            tracing::warn!(%error, "locks could not be given back; they run out by themselves");
        }
    }

    /// Keeps announcement, share and locks, on its own rhythm, however long a batch takes.
    async fn keep(&self, mut ended: watch::Receiver<bool>) {
        let Worker {
            tiers,
            options,
            claims,
            metrics,
            ..
        } = &*self.worker;
        let rhythm = options.lock_ttl.min(options.worker_ttl) / 4;
        let mut rescue_from = Instant::now();
        while !*ended.borrow_and_update() {
            let round = caught(&metrics.panics, async {
                Ok(claims.keep(tiers.hot().as_ref(), options).await?)
            });
            let round = timeout(options.lock_ttl, round).await;
            match round {
                Ok(Err(error)) => {
                    tracing::warn!(%error, "locks could not be kept");
                    if Instant::now() >= rescue_from && rescue::hot_tier_takes_no_writes(&error) {
                        let whole = tokio::select! {
                            whole = self.rescue() => whole,
                            _ = ended.wait_for(|ended| *ended) => break,
                        };
                        rescue_from = Instant::now()
                            + options.lock_ttl * if whole { WHOLE_RESCUE_TTLS } else { 1 };
                    }
                }
                Ok(Ok(())) => rescue_from = Instant::now(),
                Err(_) => {}
            }
            wait(rhythm.min(options.interval), &mut ended).await;
        }
    }

    /// Watches the holders of sessions in the worker's partitions, so that a silent one loses its
    /// owners though no game server runs.
    async fn watch_holders(&self, mut ended: watch::Receiver<bool>) {
        let Worker {
            tiers,
            options,
            claims,
            metrics,
            ..
        } = &*self.worker;
        let (mut leases, mut lapsed) = (Leases::new(options.lease), Lapsed::default());
        while !*ended.borrow_and_update() {
            let held = claims.held();
            let round = caught(&metrics.panics, async {
                let hot = tiers.hot().as_ref();
                // What fails in one partition, the others go on without.
                for (partition, beats) in held.iter().zip(hot.beat(&held, None).await) {
                    let said = async {
                        leases
                            .see(*partition, &beats?, Instant::now())
                            .say(hot, *partition, None)
                            .await?;
                        lapsed.forget_old(hot, *partition, Instant::now()).await
                    };
                    if let Err(error) = said.await {
                        tracing::debug!(%error, partition = partition.0, "the holders of sessions could not be watched");
                    }
                }
                Ok(())
            });
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => return,
                watched = round => {
                    if let Err(error) = watched {
                        tracing::warn!(%error, "the holders of sessions could not be watched");
                    }
                }
            }
            wait(options.lease / 4, &mut ended).await;
        }
    }

    /// Lands all that waits from a hot tier that takes no writes; answers whether no partition is
    /// left. What the database refuses stays refused.
    async fn rescue(&self) -> bool {
        let Worker { tiers, metrics, .. } = &*self.worker;
        match caught(&metrics.panics, rescue::rescue(tiers)).await {
            Ok(
                rescued @ Rescued {
                    rows,
                    refused,
                    skipped,
                },
            ) => {
                metrics.rescued(rescued);
                tracing::warn!(
                    rows,
                    refused,
                    skipped,
                    "the hot tier takes no writes; what waits was landed, and its marks stay"
                );
                skipped == 0
            }
            Err(error) => {
                tracing::warn!(%error, "what waits could not be landed from a hot tier that takes no writes");
                false
            }
        }
    }

    async fn work(&self, mut stopped: watch::Receiver<bool>) {
        let options = &self.worker.options;
        let mut backoff =
            Backoff::new(options.backoff_min, options.backoff_max, self.worker.jitter);
        let mut failures = 0_u32;
        while !*stopped.borrow_and_update() {
            let begun = Instant::now();
            let pause = match caught(&self.worker.metrics.panics, self.worker.pass()).await {
                Ok(()) => {
                    self.worker.tiers.note_landing(Ok(()));
                    if failures > 0 {
                        tracing::info!(failures, "landing goes on");
                    }
                    failures = 0;
                    backoff.reset();
                    rest(begun.elapsed(), options.interval)
                }
                Err(error) => {
                    self.worker.tiers.note_landing(Err(&error));
                    failures = failures.saturating_add(1);
                    let wait = backoff.wait();
                    self.report(&error, failures, wait);
                    wait
                }
            };
            wait(pause, &mut stopped).await;
        }
    }

    fn report(&self, error: &TierError, failures: u32, wait: Duration) {
        self.worker.metrics.failed();
        let wait_ms = wait.as_millis();
        if matches!(error, TierError::Hot(error) if crate::step::is_lost(error)) {
            tracing::info!(%error, "a partition changed hands");
        } else if error.is_for_operator() {
            tracing::error!(%error, failures, wait_ms, "landing stands still until an operator mends this; what waits is kept");
        } else {
            tracing::warn!(%error, failures, wait_ms, "landing waits and tries again; nothing is lost");
        }
    }
}

/// The pause after a pass that took so long, in which marks gather, so that a field that is written
/// all the time lands once in it. What is written just after its partition's turn waits for the
/// rest of the pass, the pause and its turn in the next pass: no longer than the interval, if the
/// next takes as long. After a pass that took half of the interval there is no pause.
fn rest(took: Duration, interval: Duration) -> Duration {
    interval.saturating_sub(took.saturating_mul(2))
}

/// Waits this long, or until the worker is to stop.
async fn wait(pause: Duration, stopped: &mut watch::Receiver<bool>) {
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
