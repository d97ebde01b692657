//! The way of landed events to the sinks. Each sink has a task of its own in each worker, which
//! serves the worker's partitions. So no sink holds up landing or another sink.
//!
//! | module | concept |
//! | --- | --- |
//! | `mod` | [`Relay`]: the loop of a sink's task, when to wait and to stop |
//! | `round` | one round over the worker's partitions |
//! | `delivery` | sending a batch, parking refused events, storing the position |
//! | `refusals` | whether an event that is refused is at fault itself |
//! | `rests` | partitions that the sink does not take while it takes others |
//! | `batch` | the decisions about batches and gaps, pure functions |

mod batch;
mod delivery;
mod refusals;
mod rests;
mod round;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use storage_model::{Partition, SinkName};
use storage_tiers::TierError;
use storage_tiers::caught::caught;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Sink;
use crate::backoff::Backoff;
use crate::run::wait;
use crate::worker::Worker;

/// How long a stopping worker waits for the batch under way. After that the batch counts as not
/// sent.
const LAST_BATCH: Duration = Duration::from_secs(5);

/// A sink and its task.
#[derive(Debug)]
pub(crate) struct Relay {
    name: SinkName,
    sink: Arc<dyn Sink>,
    /// How many events the next read takes. Only the running round uses it.
    rows: AtomicUsize,
    /// The partition with which the next round begins. As above.
    first: AtomicU32,
    refusals: refusals::Refusals,
    rests: rests::Rests,
    /// How many events the sink is behind, in the partitions of this worker. Written by each round,
    /// read by [`LandingWorker::counts`](crate::LandingWorker::counts).
    behind: AtomicU64,
}

/// The end of a round.
enum RoundEnd {
    /// The sink has all events that had landed.
    Idle,
    /// There are more events.
    Busy,
    /// The sink can't take events now.
    Away(Away),
}

/// Why a sink takes no events now.
struct Away {
    partition: Partition,
    message: String,
    retry_after: Option<Duration>,
}

/// Gives the sinks their events, each in a task of its own.
pub(crate) async fn serve(
    relays: &[Arc<Relay>],
    worker: &Arc<Worker>,
    stopped: &watch::Receiver<bool>,
) {
    // A dropped set ends its tasks.
    let mut tasks = JoinSet::new();
    for relay in relays {
        let (relay, worker) = (Arc::clone(relay), Arc::clone(worker));
        let stopped = stopped.clone();
        tasks.spawn(async move { relay.run(&worker, stopped).await });
    }
    while tasks.join_next().await.is_some() {}
}

impl Relay {
    pub(crate) fn new(name: SinkName, sink: Arc<dyn Sink>) -> Self {
        Self {
            name,
            sink,
            rows: AtomicUsize::new(batch::ROWS_FIRST),
            first: AtomicU32::new(0),
            refusals: refusals::Refusals::default(),
            rests: rests::Rests::default(),
            behind: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_of(&self, name: &SinkName) -> bool {
        self.name == *name
    }

    /// How many events the sink is behind, in the partitions of this worker.
    pub(crate) fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Serves the sink until the worker stops. Failures and panics are logged, and retried without
    /// limit.
    pub(crate) async fn run(&self, worker: &Worker, mut stopped: watch::Receiver<bool>) {
        let mut failures = Failures::new(worker);
        while !*stopped.borrow_and_update() {
            let round = caught(&worker.metrics.panics, self.round(worker));
            let ended = tokio::select! {
                biased;
                ended = round => ended,
                () = overdue(stopped.clone()) => {
                    tracing::warn!(sink = %self.name, "the last batch took too long: its events are sent again");
                    return;
                }
            };
            let pause = self.pause(ended, &mut failures);
            wait(pause, &mut stopped).await;
        }
    }

    /// How long the sink rests after a round.
    fn pause(&self, ended: Result<RoundEnd, TierError>, failures: &mut Failures<'_>) -> Duration {
        match ended {
            Ok(RoundEnd::Idle) => {
                self.goes_on(failures);
                failures.worker.settings.interval
            }
            Ok(RoundEnd::Busy) => {
                self.goes_on(failures);
                Duration::ZERO
            }
            Ok(RoundEnd::Away(away)) => {
                let pause = failures.wait(away.retry_after);
                self.report(&away, failures.count, pause);
                pause
            }
            Err(error) => {
                let pause = failures.wait(None);
                self.report_tier(&error, failures.count, pause);
                pause
            }
        }
    }

    fn goes_on(&self, failures: &mut Failures<'_>) {
        let count = failures.end();
        if count > 0 {
            tracing::info!(sink = %self.name, failures = count, "the sink takes events again");
        }
    }

    fn report(&self, away: &Away, failures: u32, pause: Duration) {
        let (partition, error) = (away.partition.0, &away.message);
        let wait_ms = pause.as_millis();
        tracing::warn!(
            sink = %self.name, partition, error, failures, wait_ms,
            "the sink takes no events now: they stay in the database and are sent again"
        );
    }

    fn report_tier(&self, error: &TierError, failures: u32, pause: Duration) {
        let wait_ms = pause.as_millis();
        tracing::warn!(
            sink = %self.name, %error, failures, wait_ms,
            "the events of a sink could not be read or its position not stored: the sink waits"
        );
    }
}

/// The rounds of a sink that failed in a row.
struct Failures<'a> {
    worker: &'a Worker,
    backoff: Backoff,
    count: u32,
}

impl<'a> Failures<'a> {
    fn new(worker: &'a Worker) -> Self {
        let settings = &worker.settings;
        let backoff = Backoff::new(settings.backoff_min(), settings.backoff_max, worker.jitter);
        Self {
            worker,
            backoff,
            count: 0,
        }
    }

    /// Counts one more. Returns how long to wait, at least as long as the receiver asks.
    fn wait(&mut self, asked: Option<Duration>) -> Duration {
        self.count = self.count.saturating_add(1);
        self.worker.metrics.sink_failed();
        self.backoff.wait().max(asked.unwrap_or_default())
    }

    /// A round succeeded. Returns how many failed before it.
    fn end(&mut self) -> u32 {
        self.backoff.reset();
        std::mem::take(&mut self.count)
    }
}

/// Ready when a stopping worker has waited long enough for the last batch.
async fn overdue(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_ok() {
        sleep(LAST_BATCH).await;
    }
}
