//! The probation of landed marks (H33). It ends when the database has kept its commits. It is
//! undone if the database may have lost them.

use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::{Expire, Map, Probation, Window};
use storage_model::Partition;
use tokio::time::Instant;

use crate::round::Round;
use crate::worker::Worker;
use storage_tiers::TierError;

/// The longest time between two looks at the database while marks are on probation. A shorter
/// period makes the looks more frequent.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Looks in a period.
const LOOKS: u32 = 8;

impl Worker {
    /// Whether partitions with marks on probation are due for another look.
    pub(crate) fn probation_is_due(&self) -> bool {
        let rhythm = LOOK_MAX.min(self.tiers.probation() / LOOKS);
        let mut last = locked(&self.looked);
        let due = last.is_none_or(|last| last.elapsed() >= rhythm);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// Compares the database with the one that these partitions landed to. Ends the probation of
    /// marks that the database has kept for long enough.
    ///
    /// A mark goes only in this order. First its window was seen to leave a period ago, in an epoch
    /// that still lasts. *After that* the database was found to be the same. So it was the same
    /// from the commit until a period later. Later events can't take that commit back.
    pub(crate) async fn end_probation(
        &self,
        round: &Round,
        partitions: &[Partition],
    ) -> Result<(), TierError> {
        let (hot, lock, period) = (self.tiers.hot(), self.claims.lock(), self.tiers.probation());
        let mut ended = Vec::new();
        for partition in partitions {
            let Some(busy) = self.claims.begin(*partition) else {
                continue;
            };
            let found = hot
                .probations
                .probation(*partition, lock)
                .await
                .map(Some)
                .map_err(TierError::from);
            match round.pass_over(found)? {
                Some(Probation::Leaves(window))
                    if self.expiring.has_lasted(*partition, window, period) =>
                {
                    ended.push((busy, window))
                }
                None | Some(Probation::Empty | Probation::Leaves(_) | Probation::Lost) => {}
            }
        }
        // ORDER: the windows first, then the database, then the marks. In any other order the
        // database may have been replaced between the commit and the answer.
        self.tiers.prepare(partitions).await?;
        for (busy, window) in ended {
            round.pass_over(self.expire(busy.partition, window).await)?;
        }
        Ok(())
    }

    async fn expire(&self, partition: Partition, window: Window) -> Result<(), TierError> {
        let mut cursor = Some(0);
        while let Some(from) = cursor.filter(|_| !self.claims.is_closed()) {
            let page = self
                .tiers
                .hot()
                .marks
                .scan(partition, Map::Expiring, from, self.limits.batch.rows)
                .await?;
            cursor = page.next;
            let lock = self.claims.lock().clone();
            let expire = Expire {
                partition,
                lock,
                window,
                entries: page.entries,
            };
            self.metrics
                .expired(self.tiers.hot().probations.expire(&expire).await?);
        }
        Ok(())
    }

    /// Makes all marks on probation of a partition live again, in calls of a bounded size. Returns
    /// whether all of them are.
    pub(crate) async fn requeue(&self, partition: Partition) -> Result<bool, TierError> {
        let Some(_busy) = self.claims.begin(partition) else {
            return Ok(false);
        };
        let mut marks = 0;
        for map in [Map::Expiring, Map::Landed] {
            let mut cursor = Some(0);
            while let Some(from) = cursor.filter(|_| !self.claims.is_closed()) {
                let page = self
                    .tiers
                    .hot()
                    .marks
                    .scan(partition, map, from, self.limits.batch.rows)
                    .await?;
                cursor = page.next;
                let lived = self
                    .tiers
                    .hot()
                    .probations
                    .requeue(partition, self.claims.lock(), &page.entries)
                    .await?;
                self.metrics.requeued(lived);
                marks += lived;
            }
        }
        if marks > 0 {
            tracing::info!(
                partition = partition.0,
                marks,
                "landed marks are live again"
            );
        }
        Ok(!self.claims.is_closed())
    }
}
