//! What waits to be landed, and waiting until it has been.

use std::time::Duration;

use storage_dirty::{HotError, HotStore, PartitionPeek};
use storage_model::sabotage::broken;
use storage_model::{Partition, Timestamp};
use tokio::time::{Instant, sleep};

/// What waits in each partition at one moment, or about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backlog {
    /// The hot tier's time.
    pub now: Timestamp,
    /// All partitions, in order.
    pub partitions: Vec<(Partition, PartitionPeek)>,
}

impl Backlog {
    /// Looks at all partitions. Reads no mark.
    ///
    /// # Errors
    /// The hot tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn read(hot: &dyn HotStore) -> Result<Self, HotError> {
        let all: Vec<Partition> = (0..hot.partition_count()).map(Partition).collect();
        let peeks = hot.peek(&all).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Self { now: hot.time().await?, partitions: all.into_iter().zip(peeks).collect() })
    }

    /// Marks that wait to be landed: dirty maps and snapshots, and marks on probation that are to become live again.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.partitions.iter().map(|(_, peek)| unlanded(peek)).sum()
    }

    /// Marks whose rows the database refused.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.partitions.iter().map(|(_, peek)| peek.errors).sum()
    }

    /// Landed marks on probation: their rows are in the database, which may still forget them.
    #[must_use]
    pub fn probation(&self) -> u64 {
        self.partitions.iter().filter(|(_, peek)| !peek.relive).map(|(_, peek)| peek.probation).sum()
    }

    /// The age of the oldest unlanded mark.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        self.partitions.iter().filter_map(|(_, peek)| peek.oldest).min().map(|oldest| self.now.since(oldest))
    }

    /// The partitions that hold something marked at or before `start`, or refused.
    #[must_use]
    pub fn older_than(&self, start: Timestamp) -> Vec<(Partition, PartitionPeek)> {
        self.partitions.iter().filter(|(_, peek)| waits(peek, start) || peek.errors > 0).cloned().collect()
    }
}

fn unlanded(peek: &PartitionPeek) -> u64 {
    let snapshot = if broken("H48-saving") { 0 } else { peek.snapshot };
    peek.live + snapshot + if peek.relive { peek.probation } else { 0 }
}

fn waits(peek: &PartitionPeek, start: Timestamp) -> bool {
    unlanded(peek) > 0 && (peek.relive || peek.oldest.is_none_or(|oldest| oldest <= start))
}

/// How often the backlog is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until everything that was marked before the call has been landed or refused, by whatever workers run; or until
/// `deadline`. `progress` is told the backlog each time it was looked at. Answers the partitions that still hold something:
/// error marks count, marks on probation do not.
///
/// # Errors
/// The hot tier is away at the deadline. Until then failures are waited out.
///
/// # Cancel safety
/// Only reads.
pub async fn drained(
    hot: &dyn HotStore,
    deadline: Instant,
    mut progress: impl FnMut(&Backlog),
) -> Result<Vec<(Partition, PartitionPeek)>, HotError> {
    let mut start = None;
    loop {
        let error = match Backlog::read(hot).await {
            Ok(backlog) => {
                progress(&backlog);
                let start = *start.get_or_insert(backlog.now);
                let ended = backlog.partitions.iter().all(|(_, peek)| !waits(peek, start));
                if ended || Instant::now() >= deadline {
                    return Ok(backlog.older_than(start));
                }
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error.filter(|_| Instant::now() >= deadline) {
            return Err(error);
        }
        sleep(LOOK).await;
    }
}
