//! Partitions whose events a sink does not take while it takes those of others. Each rests as long as
//! the receiver asks, and longer after each failure.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::Partition;
use tokio::time::Instant;

/// The resting partitions of one sink. Locked for a look or a change, never across an await.
#[derive(Debug, Default)]
pub(super) struct Rests(Mutex<BTreeMap<Partition, Rest>>);

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    failures: u32,
}

impl Rests {
    /// Whether a partition rests now.
    pub(super) fn is_resting(&self, partition: Partition, now: Instant) -> bool {
        let rests = locked(&self.0);
        rests.get(&partition).is_some_and(|rest| now < rest.until)
    }

    /// A partition failed. It rests at least as long as the receiver asks. Returns whether it did
    /// not rest before.
    pub(super) fn begin(
        &self,
        partition: Partition,
        asked: Option<Duration>,
        (min, max): (Duration, Duration),
        now: Instant,
    ) -> bool {
        let mut rests = locked(&self.0);
        let failures = rests.get(&partition).map_or(0, |rest| rest.failures);
        let own = min.saturating_mul(1 << failures.min(20)).min(max);
        let rest = Rest {
            until: now + own.max(asked.unwrap_or_default()),
            failures: failures.saturating_add(1),
        };
        rests.insert(partition, rest);
        failures == 0
    }

    /// The sink took all events of a partition.
    pub(super) fn end(&self, partition: Partition) {
        let mut rests = locked(&self.0);
        rests.remove(&partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_rests_as_long_as_the_receiver_asks_and_longer_after_each_failure() {
        let seconds = Duration::from_secs;
        let (rests, range, now) = (Rests::default(), (seconds(1), seconds(4)), Instant::now());
        let rested = |asked: Option<u64>| {
            rests.begin(Partition(3), asked.map(seconds), range, now);
            (0..100).find(|after| !rests.is_resting(Partition(3), now + seconds(*after)))
        };
        assert_eq!(rested(Some(60)), Some(60));
        assert_eq!(
            [rested(None), rested(None), rested(None)],
            [Some(2), Some(4), Some(4)]
        );
        assert!(!rests.is_resting(Partition(4), now));
        rests.end(Partition(3));
        assert_eq!(rested(None), Some(1));
    }
}
