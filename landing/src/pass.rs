//! One pass over a worker's partitions: what has work, the lanes that land it, and what is done
//! beside.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storage_dirty::{Entry, ErrorEntry, Mark, PartitionPeek, SnapshotId};
use storage_model::{OpId, Partition, Timestamp};
use tokio::time::Instant;

use crate::batch::{self, Part};
use crate::claim::Claims;
use crate::metrics::Metrics;
use crate::probation::Leaving;
use crate::turn::Turns;
use crate::{LandingOptions, step};
use storage_tiers::{TierError, Tiers};

/// What is common to the lanes of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) tiers: Tiers,
    pub(crate) options: LandingOptions,
    pub(crate) claims: Claims,
    pub(crate) metrics: Metrics,
    /// Who may be at the database, and how many rows go there at once.
    pub(crate) turns: Turns,
    /// When error maps were last looked through. Only the pass under way touches it.
    pub(crate) replayed: Mutex<Option<Instant>>,
    /// When the database was last compared with the one that marks on probation were landed to. As
    /// above.
    pub(crate) looked: Mutex<Option<Instant>>,
    /// When the tiers were last found to belong together. As above.
    pub(crate) compared: Mutex<Option<Instant>>,
    /// The windows of probation that were seen to leave. As above.
    pub(crate) leaving: Leaving,
    /// What the jitter of waits is drawn from.
    pub(crate) jitter: OpId,
}

/// How often it is looked at most whether the tiers still belong together, as game servers do.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// The partitions that have something to be done.
#[derive(Default)]
struct Work {
    /// How many marks wait.
    marks: u64,
    /// Marks to be landed, or that are to become live again.
    marked: VecDeque<Partition>,
    /// Error marks.
    parked: VecDeque<Partition>,
    /// Landed marks on probation.
    on_probation: Vec<Partition>,
    /// Such marks from before a change of the epoch.
    lost: Vec<Partition>,
}

impl Work {
    fn note(&mut self, partition: Partition, peek: &PartitionPeek) {
        self.marks += peek.live + peek.snapshot;
        self.marked
            .extend((peek.live + peek.snapshot > 0 || peek.relive).then_some(partition));
        self.parked.extend((peek.errors > 0).then_some(partition));
        self.on_probation
            .extend((peek.probation > 0).then_some(partition));
        self.lost.extend(peek.relive.then_some(partition));
    }
}

/// What the lanes of one pass share.
#[derive(Default)]
pub(crate) struct Round {
    /// Partitions that wait for a lane.
    queue: Mutex<VecDeque<Partition>>,
    /// The first failure of a partition that the others went on without.
    failed: Mutex<Option<TierError>>,
}

impl Round {
    pub(crate) fn next(&self) -> Option<Partition> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    /// Goes on without the partitions that failed, if the failure is theirs alone.
    pub(crate) fn pass_over<T: Default>(
        &self,
        result: Result<T, TierError>,
    ) -> Result<T, TierError> {
        match result {
            Err(error) if step::is_confined(&error) => {
                self.failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(error);
                Ok(T::default())
            }
            other => other,
        }
    }

    fn end(&self) -> Result<(), TierError> {
        self.failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok(()), Err)
    }
}

impl Worker {
    /// Lands everything that the held partitions have marked now.
    ///
    /// # Errors
    /// The first failure. One that concerns single partitions keeps no other from being landed.
    pub(crate) async fn pass(self: &Arc<Self>) -> Result<(), TierError> {
        let held = self.claims.held();
        let (mut work, mut away) = (Work::default(), None);
        for (partition, peek) in held.iter().zip(self.tiers.hot().peek(&held).await) {
            match peek {
                Ok(peek) => work.note(*partition, &peek),
                Err(error) => drop(away.get_or_insert(error)),
            }
        }
        if !(work.marked.is_empty() && work.parked.is_empty() && work.lost.is_empty()) {
            self.compare().await?;
        }
        let round = Arc::new(Round {
            queue: Mutex::new(work.marked),
            ..Round::default()
        });
        for partition in work.lost {
            round.pass_over(self.relive(partition).await)?;
        }
        self.run_lanes(&round, work.marks).await?;
        if self.replay_is_due() {
            self.replay(&round, work.parked).await?;
        }
        if !work.on_probation.is_empty() && self.probation_is_due() {
            self.end_probation(&round, &work.on_probation).await?;
        }
        round.end()?;
        if let Err(error) = self.tiers.hot().forget_calls(&held).await {
            tracing::warn!(%error, "the calls of game servers that are gone could not be forgotten; the next pass tries again");
        }
        away.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Compares the tiers now and then, before anything lands.
    async fn compare(&self) -> Result<(), TierError> {
        let last = *self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|at| at.elapsed() >= COMPARE_EVERY) {
            self.tiers.belong().await?;
            *self.compared.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether the error maps are to be looked through again. They are read whole, so not in each
    /// pass of a busy worker.
    fn replay_is_due(&self) -> bool {
        let mut last = self.replayed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= self.options.retry_min / 2);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// Tries error marks again whose time has come.
    async fn replay(&self, round: &Round, parked: VecDeque<Partition>) -> Result<(), TierError> {
        if parked.is_empty() {
            return Ok(());
        }
        let now = self.tiers.hot().time().await?;
        for partition in parked {
            let Some(_busy) = self.claims.begin(partition) else {
                continue;
            };
            round.pass_over(self.replay_partition(partition, now).await)?;
        }
        Ok(())
    }

    async fn replay_partition(
        &self,
        partition: Partition,
        now: Timestamp,
    ) -> Result<(), TierError> {
        let mut cursor = Some(0);
        while let Some(from) = cursor.filter(|_| !self.claims.is_closed()) {
            let page = self
                .tiers
                .hot()
                .errors(partition, from, self.options.batch_rows)
                .await?;
            cursor = page.next;
            let entries = due(page.entries, now);
            if entries.is_empty() {
                continue;
            }
            let part = Part {
                partition,
                snapshot: SnapshotId::default(),
                entries,
                replay: true,
            };
            for parts in batch::cut(vec![part], self.turns.pace(|pace| pace.rows())) {
                self.land(&parts).await?;
            }
        }
        Ok(())
    }
}

/// The error marks that are due, as entries; the newest version of a field once.
fn due(errors: Vec<ErrorEntry>, now: Timestamp) -> Vec<Entry> {
    let mut entries = BTreeMap::new();
    for error in errors.into_iter().filter(|error| error.next <= now) {
        if let Some((owner, field)) = error.target {
            let mark = Mark {
                owner,
                fields: vec![field],
            };
            entries.insert(
                mark.clone(),
                Entry {
                    raw: error.raw,
                    mark: Some(mark),
                    version: error.version,
                },
            );
        }
    }
    entries.into_values().collect()
}
