//! One pass over a worker's partitions: lanes take what waits, in batches, until nothing waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use storage_dirty::{Entry, ErrorEntry, HotError, Map, Mark, PartitionPeek, Snapshot};
use storage_model::{Partition, Timestamp};

use crate::batch::{self, Part};
use crate::claim::{Busy, Claims};
use crate::metrics::Metrics;
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
}

/// A partition that has work, and how far its snapshot was read.
struct Open<'a> {
    busy: Busy<'a>,
    cursor: u64,
}

/// Partitions that wait for a lane.
type Queue = Mutex<VecDeque<Partition>>;

impl Worker {
    /// Lands everything that the held partitions have marked now; answers whether there was anything.
    pub(crate) async fn pass(&self) -> Result<bool, TierError> {
        let held = self.claims.held();
        let peeks = self.tiers.hot().peek(&held).await.into_iter().collect::<Result<Vec<_>, HotError>>()?;
        let having = |has: fn(&PartitionPeek) -> bool| -> VecDeque<Partition> {
            held.iter().zip(&peeks).filter(|(_, peek)| has(peek)).map(|(partition, _)| *partition).collect()
        };
        let marked: Queue = Mutex::new(having(|peek| peek.live + peek.snapshot > 0));
        let parked = having(|peek| peek.errors > 0);
        let any = !marked.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let lanes = (0..self.options.lanes.max(1)).map(|_| self.lane(&marked));
        join_all(lanes).await.into_iter().collect::<Result<(), TierError>>()?;
        self.replay(parked).await?;
        Ok(any)
    }

    async fn lane(&self, queue: &Queue) -> Result<(), TierError> {
        let mut open: Vec<Open<'_>> = Vec::new();
        loop {
            let (parts, next) = self.gather(queue, open).await?;
            if parts.is_empty() && next.is_empty() {
                return Ok(());
            }
            for parts in batch::cut(parts, self.rows_at_once.load(Ordering::Relaxed)) {
                let size = step::land(&self.tiers, self.claims.lock(), &self.options, &self.metrics, parts).await?;
                self.learn(size);
            }
            open = next.into_iter().filter_map(|(open, more)| more.then_some(open)).collect();
        }
    }

    /// Reads marks until there are enough for a batch, from partitions already open and then from the queue. Answers the marks,
    /// and the partitions they came from with whether there is more to read.
    async fn gather<'a>(&'a self, queue: &Queue, open: Vec<Open<'a>>) -> Result<(Vec<Part>, Vec<(Open<'a>, bool)>), TierError> {
        let mut waiting: VecDeque<_> = open.into();
        let mut parts = Vec::new();
        let mut read = Vec::new();
        let mut marks = 0;
        while marks < self.options.batch_rows {
            let Some(mut one) = (match waiting.pop_front() {
                Some(open) => Some(open),
                None => self.open(queue).await?,
            }) else {
                break;
            };
            let page =
                self.tiers.hot().scan(one.busy.partition, Map::Snapshot, one.cursor, self.options.batch_rows - marks).await?;
            marks += page.entries.len();
            parts.push(Part { partition: one.busy.partition, entries: page.entries, replay: false });
            one.cursor = page.next.unwrap_or_default();
            read.push((one, page.next.is_some()));
        }
        read.extend(waiting.into_iter().map(|open| (open, true)));
        Ok((parts, read))
    }

    /// Takes the next partition from the queue that has a snapshot, left over or new.
    async fn open<'a>(&'a self, queue: &Queue) -> Result<Option<Open<'a>>, TierError> {
        loop {
            let Some(partition) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return Ok(None) };
            let Some(busy) = self.claims.begin(partition) else { continue };
            match self.tiers.hot().snapshot(partition, self.claims.lock()).await {
                Ok(Snapshot::Empty) => {}
                Ok(Snapshot::Taken | Snapshot::Leftover) => return Ok(Some(Open { busy, cursor: 0 })),
                Err(error) if step::is_lost(&error) => self.tiers.prepare(&[partition]).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sizes the next batches by the bytes of this one.
    fn learn(&self, size: Size) {
        if let Some(average) = size.bytes.checked_div(size.rows) {
            let fitting = self.options.batch_bytes.checked_div(average).unwrap_or(usize::MAX);
            self.rows_at_once.store(fitting.clamp(1, self.options.batch_rows.max(1)), Ordering::Relaxed);
        }
    }

    /// Tries error marks again whose time has come.
    async fn replay(&self, parked: VecDeque<Partition>) -> Result<(), TierError> {
        if parked.is_empty() {
            return Ok(());
        }
        let now = self.tiers.hot().time().await?;
        for partition in parked {
            let Some(_busy) = self.claims.begin(partition) else { continue };
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let page = self.tiers.hot().errors(partition, from, self.options.batch_rows).await?;
                cursor = page.next;
                let entries = due(page.entries, now);
                if entries.is_empty() {
                    continue;
                }
                let part = Part { partition, entries, replay: true };
                for parts in batch::cut(vec![part], self.rows_at_once.load(Ordering::Relaxed)) {
                    step::land(&self.tiers, self.claims.lock(), &self.options, &self.metrics, parts).await?;
                }
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
