//! The lanes of a pass. Each lane reads marks and lands them in batches, until no mark waits.
//!
//! A lane does one thing at a time: it reads marks, collects their fields, commits, and settles.
//! There are more lanes than concurrent transactions, so that some lanes read and settle while
//! others keep the database busy.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_dirty::{Map, Snapshot, SnapshotId};
use tokio::task::JoinSet;

use crate::batch::{self, Part};
use crate::claim::Busy;
use crate::pace::Limits;
use crate::pass::{Round, Worker};
use crate::step;
use storage_tiers::TierError;
use storage_tiers::caught::caught;

/// A partition with work, and the position in its snapshot.
struct Open<'a> {
    busy: Busy<'a>,
    snapshot: SnapshotId,
    cursor: u64,
}

/// How many lanes this many marks need: up to two for each concurrent transaction. A few marks need
/// no more lanes than there are transactions.
fn lanes(limits: Limits, marks: u64) -> usize {
    let transactions = limits.transactions.max(1);
    let batches = usize::try_from(marks).unwrap_or(usize::MAX) / limits.rows.max(1);
    batches.clamp(transactions, transactions.saturating_mul(2))
}

impl Worker {
    /// Lands the partitions of a round in lanes. The lanes are tasks of their own, so they use
    /// several cores.
    ///
    /// # Errors
    /// The first failure of a lane, after all have ended.
    ///
    /// # Cancel safety
    /// A dropped call takes its lanes with it.
    pub(crate) async fn run_lanes(
        self: &Arc<Self>,
        round: &Arc<Round>,
        marks: u64,
    ) -> Result<(), TierError> {
        let mut running = JoinSet::new();
        for _ in 0..lanes(self.limits, marks) {
            let (worker, round) = (Arc::clone(self), Arc::clone(round));
            running.spawn(async move { caught(&worker.metrics.panics, worker.lane(&round)).await });
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

    async fn lane(&self, round: &Round) -> Result<(), TierError> {
        let mut open: Vec<Open<'_>> = Vec::new();
        loop {
            let (parts, next) = self.gather(round, open).await?;
            if parts.is_empty() && next.is_empty() {
                return Ok(());
            }
            for parts in batch::cut(parts, self.turns.pace(|pace| pace.rows())) {
                if self.claims.is_closed() {
                    return Ok(());
                }
                round.pass_over(self.land(&parts).await)?;
            }
            open = next
                .into_iter()
                .filter_map(|(open, more)| more.then_some(open))
                .collect();
        }
    }

    /// Lands one batch. If it fails because of one partition, lands each partition by itself.
    pub(crate) async fn land(&self, parts: &[Part]) -> Result<(), TierError> {
        match self.land_together(parts).await {
            Err(error) if parts.len() > 1 && step::is_confined(&error) => {}
            other => return other,
        }
        let mut result = Ok(());
        for part in parts {
            match self.land_together(std::slice::from_ref(part)).await {
                Err(error) if !step::is_confined(&error) => return Err(error),
                Err(error) => result = Err(error),
                Ok(()) => {}
            }
        }
        result
    }

    async fn land_together(&self, parts: &[Part]) -> Result<(), TierError> {
        let landed = caught(&self.metrics.panics, step::land(self, parts)).await;
        self.turns.pace(|pace| match landed {
            Ok(size) => pace.read(size),
            Err(_) => pace.failed(),
        });
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
        while marks < self.limits.rows {
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
                    self.limits.rows - marks,
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
                Err(error) if step::is_lost(&error) => self
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

    #[test]
    fn a_backlog_has_two_lanes_for_each_transaction_and_a_few_marks_one() {
        let limits = |rows, transactions| Limits {
            rows,
            bytes: 0,
            transactions,
        };
        assert_eq!(
            [0, 99, 399, 400, 599, 600, u64::MAX].map(|marks| lanes(limits(100, 3), marks)),
            [3, 3, 3, 4, 5, 6, 6]
        );
        assert_eq!([0, 1, 9].map(|marks| lanes(limits(0, 0), marks)), [1, 1, 2]);
    }
}
