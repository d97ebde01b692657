//! One pass over a worker's partitions: lanes take what waits, in batches, until nothing waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use storage_dirty::{Entry, ErrorEntry, Map, Mark, PartitionPeek, Snapshot};
use storage_model::{OpId, Partition, Timestamp};
use tokio::time::Instant;

use crate::batch::{self, Part};
use crate::caught::caught;
use crate::claim::{Busy, Claims};
use crate::metrics::Metrics;
use crate::probation::Leaving;
use crate::step::{self, Size};
use crate::{LandingOptions, TierError, Tiers};

/// What is common to the lanes of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) tiers: Tiers,
    pub(crate) options: LandingOptions,
    pub(crate) claims: Claims,
    pub(crate) metrics: Metrics,
    /// How many rows make `batch_bytes`, as far as is known from the rows landed so far.
    pub(crate) rows_at_once: AtomicUsize,
    /// When error maps were last looked through. Only the pass under way touches it.
    pub(crate) replayed: Mutex<Option<Instant>>,
    /// When the database was last compared with the one that marks on probation were landed to. As above.
    pub(crate) looked: Mutex<Option<Instant>>,
    /// The windows of probation that were seen to leave. As above.
    pub(crate) leaving: Leaving,
    /// What the jitter of waits is drawn from.
    pub(crate) jitter: OpId,
}

/// A partition that has work, and how far its snapshot was read.
struct Open<'a> {
    busy: Busy<'a>,
    cursor: u64,
}

/// The partitions that have something to be done.
#[derive(Default)]
struct Work {
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
        self.marked.extend((peek.live + peek.snapshot > 0 || peek.relive).then_some(partition));
        self.parked.extend((peek.errors > 0).then_some(partition));
        self.on_probation.extend((peek.probation > 0).then_some(partition));
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
    fn next(&self) -> Option<Partition> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Goes on without the partitions that failed, if the failure is theirs alone.
    pub(crate) fn pass_over<T: Default>(&self, result: Result<T, TierError>) -> Result<T, TierError> {
        match result {
            Err(error) if step::is_confined(&error) => {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                Ok(T::default())
            }
            other => other,
        }
    }

    fn end(self) -> Result<(), TierError> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl Worker {
    /// Lands everything that the held partitions have marked now; answers whether it cleared anything.
    ///
    /// # Errors
    /// The first failure. One that concerns single partitions keeps no other from being landed.
    pub(crate) async fn pass(&self) -> Result<bool, TierError> {
        let before = self.metrics.counts();
        let held = self.claims.held();
        let (mut work, mut away) = (Work::default(), None);
        for (partition, peek) in held.iter().zip(self.tiers.hot().peek(&held).await) {
            match peek {
                Ok(peek) => work.note(*partition, &peek),
                Err(error) => drop(away.get_or_insert(error)),
            }
        }
        let round = Round { queue: Mutex::new(work.marked), ..Round::default() };
        for partition in work.lost {
            round.pass_over(self.relive(partition).await)?;
        }
        let lanes = (0..self.options.lanes.max(1)).map(|_| self.lane(&round));
        join_all(lanes).await.into_iter().collect::<Result<(), TierError>>()?;
        if self.replay_is_due() {
            self.replay(&round, work.parked).await?;
        }
        if !work.on_probation.is_empty() && self.probation_is_due() {
            self.end_probation(&round, &work.on_probation).await?;
        }
        round.end()?;
        away.map_or(Ok(()), Err)?;
        let after = self.metrics.counts();
        Ok((after.marks, after.parked) != (before.marks, before.parked))
    }

    async fn lane(&self, round: &Round) -> Result<(), TierError> {
        let mut open: Vec<Open<'_>> = Vec::new();
        loop {
            let (parts, next) = self.gather(round, open).await?;
            if parts.is_empty() && next.is_empty() {
                return Ok(());
            }
            for parts in batch::cut(parts, self.rows_at_once.load(Ordering::Relaxed)) {
                if self.claims.is_closed() {
                    return Ok(());
                }
                round.pass_over(self.land(&parts).await)?;
            }
            open = next.into_iter().filter_map(|(open, more)| more.then_some(open)).collect();
        }
    }

    /// Lands one batch; if it fails for one of its partitions, each of them by itself.
    async fn land(&self, parts: &[Part]) -> Result<(), TierError> {
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
        let landed = caught(step::land(&self.tiers, self.claims.lock(), &self.options, &self.metrics, parts)).await;
        match landed {
            Ok(size) => self.learn(size),
            // It may have been too large for the time that an answer may take; the next ones are smaller, down to one row.
            Err(_) => self.resize(|rows| rows / 2),
        }
        landed.map(drop)
    }

    /// Reads marks until there are enough for a batch, from partitions already open and then from the queue. Answers the marks,
    /// and the partitions they came from with whether there is more to read.
    async fn gather<'a>(&'a self, round: &Round, open: Vec<Open<'a>>) -> Result<(Vec<Part>, Vec<(Open<'a>, bool)>), TierError> {
        let mut waiting: VecDeque<_> = open.into();
        let mut parts = Vec::new();
        let mut read = Vec::new();
        let mut marks = 0;
        while marks < self.options.batch_rows {
            let Some(mut one) = (match waiting.pop_front() {
                Some(open) => Some(open),
                None => self.open(round).await?,
            }) else {
                break;
            };
            let page =
                self.tiers.hot().scan(one.busy.partition, Map::Snapshot, one.cursor, self.options.batch_rows - marks).await;
            let Some(page) = round.pass_over(page.map(Some).map_err(TierError::from))? else { continue };
            marks += page.entries.len();
            parts.push(Part { partition: one.busy.partition, entries: page.entries, replay: false });
            one.cursor = page.next.unwrap_or_default();
            read.push((one, page.next.is_some()));
        }
        read.extend(waiting.into_iter().map(|open| (open, true)));
        Ok((parts, read))
    }

    /// Takes the next partition from the queue that has a snapshot, left over or new.
    async fn open<'a>(&'a self, round: &Round) -> Result<Option<Open<'a>>, TierError> {
        loop {
            let Some(partition) = round.next() else { return Ok(None) };
            let Some(busy) = self.claims.begin(partition) else { continue };
            let snapshot = match self.tiers.hot().snapshot(partition, self.claims.lock()).await {
                Err(error) if step::is_lost(&error) => self.tiers.prepare(&[partition]).await.map(|()| Snapshot::Empty),
                other => other.map_err(TierError::from),
            };
            match round.pass_over(snapshot.map(Some))? {
                None | Some(Snapshot::Empty) => {}
                Some(Snapshot::Taken | Snapshot::Leftover) => return Ok(Some(Open { busy, cursor: 0 })),
            }
        }
    }

    /// Sizes the next batches by the bytes of this one.
    fn learn(&self, size: Size) {
        match size.bytes.checked_div(size.rows) {
            Some(average) => self.resize(|_| self.options.batch_bytes.checked_div(average).unwrap_or(usize::MAX)),
            None => self.resize(|rows| rows.saturating_mul(2)),
        }
    }

    fn resize(&self, size: impl Fn(usize) -> usize) {
        let fitting = |rows| Some(size(rows).clamp(1, self.options.batch_rows.max(1)));
        let _ = self.rows_at_once.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting);
    }

    /// Whether the error maps are to be looked through again. They are read whole, so not in each pass of a busy worker.
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
            let Some(_busy) = self.claims.begin(partition) else { continue };
            round.pass_over(self.replay_partition(partition, now).await)?;
        }
        Ok(())
    }

    async fn replay_partition(&self, partition: Partition, now: Timestamp) -> Result<(), TierError> {
        let mut cursor = Some(0);
        while let Some(from) = cursor.filter(|_| !self.claims.is_closed()) {
            let page = self.tiers.hot().errors(partition, from, self.options.batch_rows).await?;
            cursor = page.next;
            let entries = due(page.entries, now);
            if entries.is_empty() {
                continue;
            }
            let part = Part { partition, entries, replay: true };
            for parts in batch::cut(vec![part], self.rows_at_once.load(Ordering::Relaxed)) {
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
            let mark = Some(Mark { owner, fields: vec![field] });
            entries.insert(error.raw.clone(), Entry { raw: error.raw, mark, version: error.version });
        }
    }
    entries.into_values().collect()
}
