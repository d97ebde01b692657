//! The tasks of a pass. Each task reads marks and lands them in batches, until no mark waits.
//!
//! A task does one thing at a time: it reads marks, collects their fields, commits, and settles.
//! There are more tasks than concurrent transactions, so that some tasks read and settle while
//! others keep the database busy.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_dirty::{Map, Snapshot, SnapshotId};
use tokio::task::JoinSet;

use crate::claim::Busy;
use crate::failure::{is_confined, is_lost};
use crate::limiter::Limits;
use crate::marks::{self, Part};
use crate::round::Round;
use crate::transaction::commit_rows;
use crate::worker::Worker;
use storage_tiers::TierError;
use storage_tiers::caught::caught;

/// A partition with work, and the position in its snapshot.
struct Open<'a> {
    busy: Busy<'a>,
    snapshot: SnapshotId,
    cursor: u64,
}

/// How many tasks this many marks need: up to two for each concurrent transaction. A few marks need
/// no more tasks than there are transactions.
fn tasks(limits: Limits, marks: u64) -> usize {
    let transactions = limits.transactions.max(1);
    let batches = usize::try_from(marks).unwrap_or(usize::MAX) / limits.batch.rows.max(1);
    batches.clamp(transactions, transactions.saturating_mul(2))
}

impl Worker {
    /// Lands the partitions of a round in tasks, which use several cores.
    ///
    /// # Errors
    /// The first failure of a task, after all have ended.
    ///
    /// # Cancel safety
    /// A dropped call takes its tasks with it.
    pub(crate) async fn run_tasks(
        self: &Arc<Self>,
        round: &Arc<Round>,
        marks: u64,
    ) -> Result<(), TierError> {
        let mut running = JoinSet::new();
        for _ in 0..tasks(self.limits, marks) {
            let (worker, round) = (Arc::clone(self), Arc::clone(round));
            running.spawn(async move {
                caught(&worker.metrics.panics, worker.land_round(&round)).await
            });
        }
        let mut result = Ok(());
        while let Some(ended) = running.join_next().await {
            // Panics are caught inside. So the task was ended from outside, for example by a
            // runtime that stops.
            result = result.and(ended.unwrap_or_else(|error| {
                Err(TierError::Panicked {
                    words: error.to_string(),
                })
            }));
        }
        result
    }

    async fn land_round(&self, round: &Round) -> Result<(), TierError> {
        let mut open: Vec<Open<'_>> = Vec::new();
        loop {
            let (parts, next) = self.gather(round, open).await?;
            if parts.is_empty() && next.is_empty() {
                return Ok(());
            }
            for parts in marks::cut(parts, self.limiter.rows()) {
                if self.claims.is_closed() {
                    return Ok(());
                }
                round.pass_over(self.land_marks(&parts).await)?;
            }
            open = next
                .into_iter()
                .filter_map(|(open, more)| more.then_some(open))
                .collect();
        }
    }

    /// Lands one batch. If it fails because of one partition, lands each partition by itself.
    pub(crate) async fn land_marks(&self, parts: &[Part]) -> Result<(), TierError> {
        match self.attempt(parts).await {
            Err(error) if parts.len() > 1 && is_confined(&error) => {}
            other => return other,
        }
        let mut result = Ok(());
        for part in parts {
            match self.attempt(std::slice::from_ref(part)).await {
                Err(error) if !is_confined(&error) => return Err(error),
                Err(error) => result = Err(error),
                Ok(()) => {}
            }
        }
        result
    }

    async fn attempt(&self, parts: &[Part]) -> Result<(), TierError> {
        let landed = caught(&self.metrics.panics, commit_rows(self, parts)).await;
        match landed {
            Ok(size) => self.limiter.succeeded(size),
            Err(_) => self.limiter.failed(),
        }
        landed.map(drop)
    }

    /// Reads marks until there are enough for a batch, first from the open partitions and then from
    /// the queue. Answers the marks and their partitions. The flag of each partition tells whether
    /// more marks wait there.
    async fn gather<'a>(
        &'a self,
        round: &Round,
        open: Vec<Open<'a>>,
    ) -> Result<(Vec<Part>, Vec<(Open<'a>, bool)>), TierError> {
        let mut waiting: VecDeque<_> = open.into();
        let mut parts = Vec::new();
        let mut read = Vec::new();
        let mut marks = 0;
        while marks < self.limits.batch.rows {
            let Some(mut one) = (match waiting.pop_front() {
                Some(open) => Some(open),
                None => self.open(round).await?,
            }) else {
                break;
            };
            let page = self
                .tiers
                .hot()
                .scan(
                    one.busy.partition,
                    Map::Snapshot,
                    one.cursor,
                    self.limits.batch.rows - marks,
                )
                .await;
            let Some(page) = round.pass_over(page.map(Some).map_err(TierError::from))? else {
                continue;
            };
            marks += page.entries.len();
            let Open { busy, snapshot, .. } = &one;
            parts.push(Part {
                partition: busy.partition,
                snapshot: *snapshot,
                entries: page.entries,
                replay: false,
            });
            one.cursor = page.next.unwrap_or_default();
            read.push((one, page.next.is_some()));
        }
        read.extend(waiting.into_iter().map(|open| (open, true)));
        Ok((parts, read))
    }

    /// Opens the next partition of the queue that has a snapshot, left over or new.
    async fn open<'a>(&'a self, round: &Round) -> Result<Option<Open<'a>>, TierError> {
        loop {
            let Some(partition) = round.next() else {
                return Ok(None);
            };
            let Some(busy) = self.claims.begin(partition) else {
                continue;
            };
            let snapshot = match self
                .tiers
                .hot()
                .snapshot(partition, self.claims.lock())
                .await
            {
                Err(error) if is_lost(&error) => self
                    .tiers
                    .prepare(&[partition])
                    .await
                    .map(|()| Snapshot::Empty),
                other => other.map_err(TierError::from),
            };
            match round.pass_over(snapshot.map(Some))? {
                None | Some(Snapshot::Empty) => {}
                Some(Snapshot::Taken(snapshot) | Snapshot::Leftover(snapshot)) => {
                    return Ok(Some(Open {
                        busy,
                        snapshot,
                        cursor: 0,
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::Size;

    #[test]
    fn a_backlog_has_two_tasks_for_each_transaction_and_a_few_marks_one() {
        let limits = |rows, transactions| Limits {
            batch: Size { rows, bytes: 0 },
            transactions,
        };
        assert_eq!(
            [0, 99, 399, 400, 599, 600, u64::MAX].map(|marks| tasks(limits(100, 3), marks)),
            [3, 3, 3, 4, 5, 6, 6]
        );
        assert_eq!([0, 1, 9].map(|marks| tasks(limits(0, 0), marks)), [1, 1, 2]);
    }
}
