//! The tasks of a pass. Each task reads marks and lands them in batches, until no mark waits.
//!
//! A task does one thing at a time: it reads marks, collects their fields, commits, and settles.
//! There are more tasks than concurrent transactions, so that some tasks read and settle while
//! others keep the database busy.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_dirty::{Map, Snapshot, SnapshotId};
use storage_model::Partition;
use tokio::task::JoinSet;

use crate::claim::Busy;
use crate::failure::{is_confined, is_lost};
use crate::limiter::Limits;
use crate::marks::{self, LandingPart};
use crate::notes::NotesAt;
use crate::round::{Round, WaitingPartition};
use crate::transaction::commit_rows;
use crate::worker::Worker;
use storage_tiers::TierError;
use storage_tiers::caught::caught;

/// A partition with work, and the position in its snapshot.
struct OpenPartition<'a> {
    busy: Busy<'a>,
    snapshot: SnapshotId,
    /// Where the next marks are. `None` if none is left.
    cursor: Option<u64>,
    /// `None` if no note waits.
    notes: Option<NotesAt>,
}

/// How many tasks this many marks need: up to two for each concurrent transaction. A few marks need
/// no more tasks than there are transactions.
fn tasks(limits: Limits, marks: u64) -> usize {
    let transactions = limits.transactions.max(1);
    let batches = usize::try_from(marks).unwrap_or(usize::MAX) / limits.batch.rows.max(1);
    batches.clamp(transactions, transactions.saturating_mul(2))
}

/// After a failure, notes of its partitions wait for the next pass. Rows that did not land may be
/// before them.
fn forget_notes(open: &mut [(OpenPartition<'_>, bool)], failed: &[LandingPart]) {
    for (open, _) in open {
        let partition = open.busy.partition;
        if failed.iter().any(|part| part.partition == partition) {
            open.notes = None;
        }
    }
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
        let mut open: Vec<OpenPartition<'_>> = Vec::new();
        loop {
            let (parts, mut next) = self.gather(round, open).await?;
            if parts.is_empty() && next.is_empty() {
                return Ok(());
            }
            for parts in marks::cut(parts, self.limiter.rows()) {
                if self.claims.is_closed() {
                    return Ok(());
                }
                let landed = self.land_marks(&parts).await;
                if landed.is_err() {
                    forget_notes(&mut next, &parts);
                }
                round.pass_over(landed)?;
            }
            open = next
                .into_iter()
                .filter_map(|(open, more)| more.then_some(open))
                .collect();
        }
    }

    /// Lands one batch. If it fails because of one partition, lands each partition by itself. If an
    /// owner can't be read, lands the others.
    pub(crate) async fn land_marks(&self, parts: &[LandingPart]) -> Result<(), TierError> {
        match self.attempt(parts).await {
            Err(error) if parts.len() > 1 && is_confined(&error) => {}
            Err(error) if self.is_broken_by_reading(&error, parts).await => {
                return self.land_in_halves(parts).await;
            }
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

    pub(crate) async fn attempt(&self, parts: &[LandingPart]) -> Result<(), TierError> {
        let landed = caught(&self.metrics.panics, commit_rows(self, parts)).await;
        match landed {
            Ok(size) => self.limiter.succeeded(size),
            Err(_) => self.limiter.failed(),
        }
        landed.map(drop)
    }

    /// Reads marks until there are enough for a batch, first from the open partitions and then from
    /// the queue. Returns the marks and their partitions. The flag of each partition tells whether
    /// more marks wait there.
    async fn gather<'a>(
        &'a self,
        round: &Round,
        open: Vec<OpenPartition<'a>>,
    ) -> Result<(Vec<LandingPart>, Vec<(OpenPartition<'a>, bool)>), TierError> {
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
            let page = self.page(&mut one, self.limits.batch.rows - marks).await;
            let Some((part, more)) = round.pass_over(page)? else {
                continue;
            };
            marks += part.size();
            parts.push(part);
            read.push((one, more));
        }
        read.extend(waiting.into_iter().map(|open| (open, true)));
        Ok((parts, read))
    }

    /// The next notes of a partition, then the next marks of its snapshot. `None` if nothing is left.
    /// The flag tells whether more follow.
    async fn page(
        &self,
        one: &mut OpenPartition<'_>,
        rows: usize,
    ) -> Result<Option<(LandingPart, bool)>, TierError> {
        let partition = one.busy.partition;
        // ORDER: notes before other marks. A row is ahead of its notes for as short a time as
        // possible.
        if let Some(at) = one.notes.filter(NotesAt::is_due) {
            let (part, next) = self.next_notes(partition, one.snapshot, at).await?;
            one.notes = next;
            if let Some(part) = part {
                return Ok(Some((part, next.is_some() || one.cursor.is_some())));
            }
        }
        let Some(cursor) = one.cursor else {
            return Ok(None);
        };
        let page = self
            .tiers
            .hot()
            .marks
            .scan(partition, Map::Snapshot, cursor, rows)
            .await?;
        one.cursor = page.next;
        if let Some(at) = one.notes.as_mut().filter(|_| page.next.is_none()) {
            at.scanned();
        }
        let part = LandingPart {
            partition,
            snapshot: one.snapshot,
            entries: page.entries,
            replay: false,
            notes: None,
        };
        Ok(Some((part, one.cursor.is_some() || one.notes.is_some())))
    }

    /// Opens the next partition of the queue that has notes, or a snapshot, left over or new.
    async fn open<'a>(&'a self, round: &Round) -> Result<Option<OpenPartition<'a>>, TierError> {
        loop {
            let Some(WaitingPartition {
                partition,
                has_notes,
            }) = round.next()
            else {
                return Ok(None);
            };
            let Some(busy) = self.claims.begin(partition) else {
                continue;
            };
            // ORDER: notes before the snapshot. Their marks are in it then.
            let notes = match has_notes {
                true => round.pass_over(self.open_notes(partition).await)?,
                false => None,
            };
            let snapshot = round.pass_over(self.take_snapshot(partition).await.map(Some))?;
            let Some(snapshot) = snapshot else { continue };
            let open = OpenPartition::of(busy, snapshot, notes);
            if open.cursor.is_some() || open.notes.is_some() {
                return Ok(Some(open));
            }
        }
    }

    async fn take_snapshot(&self, partition: Partition) -> Result<Snapshot, TierError> {
        match self
            .tiers
            .hot()
            .marks
            .snapshot(partition, self.claims.lock())
            .await
        {
            Err(error) if is_lost(&error) => self
                .tiers
                .prepare(&[partition])
                .await
                .map(|()| Snapshot::Empty),
            other => other.map_err(TierError::from),
        }
    }
}

impl<'a> OpenPartition<'a> {
    fn of(busy: Busy<'a>, snapshot: Snapshot, mut notes: Option<NotesAt>) -> Self {
        match (&mut notes, snapshot) {
            (Some(notes), Snapshot::Empty) => notes.scanned(),
            (Some(notes), Snapshot::Leftover(_)) => notes.with_leftover(),
            _ => {}
        }
        let (snapshot, cursor) = match snapshot {
            Snapshot::Empty => (SnapshotId::default(), None),
            Snapshot::Taken(snapshot) | Snapshot::Leftover(snapshot) => (snapshot, Some(0)),
        };
        Self {
            busy,
            snapshot,
            cursor,
            notes,
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
