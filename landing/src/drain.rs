//! The marks that wait to land, and waiting until they have landed.

use std::collections::BTreeSet;
use std::time::Duration;

use storage_dirty::{Hot, HotError, PartitionPeek};
use storage_model::{Partition, Timestamp};
use tokio::time::{Instant, sleep};

/// The marks that wait in each partition at one moment, or close to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backlog {
    /// The hot tier's time. 0 if it could not be read.
    pub now: Timestamp,
    /// All partitions that were reached, in order.
    pub partitions: Vec<(Partition, PartitionPeek)>,
    /// The other partitions, and the reason. Only [`Backlog::reachable`] leaves any.
    pub away: Vec<(Partition, HotError)>,
}

impl Backlog {
    /// Looks at all partitions. Reads no mark.
    ///
    /// # Errors
    /// The hot tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn read(hot: &Hot) -> Result<Self, HotError> {
        let mut backlog = Self::reachable(hot).await?;
        match backlog.away.pop() {
            Some((_, error)) => Err(error),
            None => Ok(Self {
                now: hot.tier.time().await?,
                ..backlog
            }),
        }
    }

    /// Looks at the partitions that can be reached, for example in a cluster that lacks a master.
    /// Reads no mark.
    ///
    /// # Errors
    /// No partition can be reached.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn reachable(hot: &Hot) -> Result<Self, HotError> {
        let all: Vec<Partition> = (0..hot.partitions.partition_count())
            .map(Partition)
            .collect();
        let mut backlog = Self::default();
        for (partition, peek) in all.iter().zip(hot.partitions.peek(&all).await) {
            match peek {
                Ok(peek) => backlog.partitions.push((*partition, peek)),
                Err(error) => backlog.away.push((*partition, error)),
            }
        }
        match (hot.tier.time().await, backlog.partitions.is_empty()) {
            (Ok(now), _) => backlog.now = now,
            (Err(error), true) => return Err(error),
            // The server that tells the time is away, too. Then there are no ages.
            (Err(_), false) => {}
        }
        Ok(backlog)
    }

    /// Marks that wait to land: marks of dirty maps and snapshots, and marks on probation that must
    /// become live again. An owner has one mark in each map.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.partitions.iter().map(|(_, peek)| unlanded(peek)).sum()
    }

    /// Notes that wait to land.
    #[must_use]
    pub fn notes(&self) -> u64 {
        self.partitions.iter().map(|(_, peek)| peek.notes()).sum()
    }

    /// Owners with rejected rows, and owners whose marked fields the hot tier lost.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.partitions.iter().map(|(_, peek)| peek.errors).sum()
    }

    /// Landed marks on probation. Their rows are in the database, which may still forget them.
    #[must_use]
    pub fn probation(&self) -> u64 {
        self.partitions
            .iter()
            .filter(|(_, peek)| !peek.requeue)
            .map(|(_, peek)| peek.probation)
            .sum()
    }

    /// The age of the oldest unlanded mark.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        let oldest = self
            .partitions
            .iter()
            .filter_map(|(_, peek)| peek.oldest())
            .min();
        oldest
            .filter(|_| self.now > Timestamp::default())
            .map(|oldest| self.now.since(oldest))
    }

    /// The partitions that still hold marks that were found, or error marks.
    fn left_of(&self, found: &[PartitionMaps]) -> Vec<(Partition, PartitionPeek)> {
        let left = self
            .partitions
            .iter()
            .zip(found)
            .filter(|((_, peek), found)| found.waits(peek) || peek.errors > 0);
        left.map(|(partition, _)| partition.clone()).collect()
    }
}

fn unlanded(peek: &PartitionPeek) -> u64 {
    peek.live + peek.snapshot + if peek.requeue { peek.probation } else { 0 }
}

/// The maps of a partition that a drain waits for. Each map is known by the time of its first mark.
/// Times are only compared for equality, because the clock may be set back (H8).
#[derive(Debug, Clone)]
struct PartitionMaps {
    maps: BTreeSet<Timestamp>,
    /// The number of the last note.
    note: u64,
    /// Whether the maps of the next look belong to the drain, too. True at first, and while marks
    /// on probation become live again.
    grows: bool,
}

impl PartitionMaps {
    fn look(&mut self, peek: &PartitionPeek) {
        if self.grows {
            self.maps
                .extend(peek.live_since.into_iter().chain(peek.snapshot_since));
            self.note = self.note.max(peek.last_note.number);
        }
        self.grows = peek.requeue;
    }

    fn waits(&self, peek: &PartitionPeek) -> bool {
        let was_found =
            |since: Option<Timestamp>| since.is_none_or(|since| self.maps.contains(&since));
        let maps = [
            (peek.live, peek.live_since),
            (peek.snapshot, peek.snapshot_since),
        ];
        // Notes that the hot tier has lost meanwhile are waited for no longer.
        let notes = (peek.noted.number + 1..=peek.last_note.number).contains(&self.note);
        (peek.requeue && peek.probation > 0)
            || notes
            || maps
                .iter()
                .any(|(marks, since)| *marks > 0 && was_found(*since))
    }
}

/// The interval between looks at the backlog.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until all marks and notes from before the call have landed or were rejected, or until `deadline`.
/// Any workers may land them. After each look `progress` gets the backlog. Returns the partitions
/// that still hold marks. Error marks count, marks on probation do not.
///
/// # Errors
/// The hot tier is away at the deadline. Earlier failures are retried.
///
/// # Cancel safety
/// Only reads.
pub async fn drained(
    hot: &Hot,
    deadline: Instant,
    mut progress: impl FnMut(&Backlog),
) -> Result<Vec<(Partition, PartitionPeek)>, HotError> {
    let nothing = || PartitionMaps {
        maps: BTreeSet::new(),
        note: 0,
        grows: true,
    };
    let mut found: Vec<PartitionMaps> = (0..hot.partitions.partition_count())
        .map(|_| nothing())
        .collect();
    loop {
        let error = match Backlog::read(hot).await {
            Ok(backlog) => {
                progress(&backlog);
                backlog
                    .partitions
                    .iter()
                    .zip(&mut found)
                    .for_each(|((_, peek), found)| found.look(peek));
                let waits = backlog
                    .partitions
                    .iter()
                    .zip(&found)
                    .any(|((_, peek), found)| found.waits(peek));
                if !waits || Instant::now() >= deadline {
                    return Ok(backlog.left_of(&found));
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
