//! The sweep: deletes rows of fields that were purged long ago.
//!
//! One worker sweeps for all partitions: the one that holds the first. It goes over the table page
//! by page, and rests at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use storage_model::{Field, Owner, Partition};
use storage_sql::{Fence, RowKey};
use storage_tiers::TierError;
use storage_tiers::caught::caught;
use tokio::sync::watch;

use crate::run::wait;
use crate::worker::Worker;

/// The rows of a page.
const PAGE: usize = 1_000;
/// The time between two pages.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest rest at the end of the table and after a failure. It is shorter if rows stay for a
/// short time only.
const REST_MAX: Duration = Duration::from_mins(10);

impl Worker {
    /// Deletes rows that were purged long ago, page by page.
    pub(crate) async fn sweep_rows(&self, mut stopped: watch::Receiver<bool>) {
        let mut after = None;
        while !*stopped.borrow_and_update() {
            let pause = self.sweep_next(&mut after).await;
            wait(pause, &mut stopped).await;
        }
    }

    /// Sweeps the page behind a row, if this worker sweeps. Then moves on to the last row of the
    /// page. Returns how long to wait for the next page.
    async fn sweep_next(&self, after: &mut Option<RowKey>) -> Duration {
        let keep = self.settings.sweep_after;
        let sweeps = self.claims.held().first() == Some(&Partition(0));
        if keep.is_zero() || !sweeps {
            return PAUSE;
        }
        match caught(&self.metrics.panics, self.sweep_page(after.as_ref())).await {
            Ok(Some(last)) => {
                *after = Some(last);
                PAUSE
            }
            Ok(None) => {
                *after = None;
                rest(keep)
            }
            Err(error) => {
                tracing::warn!(%error, "rows of purged fields stay: the sweep goes on later");
                rest(keep)
            }
        }
    }

    /// Deletes the purged rows of a page. Returns its last row.
    async fn sweep_page(&self, after: Option<&RowKey>) -> Result<Option<RowKey>, TierError> {
        let cold = self.tiers.cold();
        let page = cold
            .sweep
            .purged(after, self.settings.sweep_after, PAGE)
            .await?;
        let count = self.tiers.hot().partitions.partition_count();
        let mut by_partition: BTreeMap<Partition, Vec<(Owner, Field)>> = BTreeMap::new();
        for row in page.purged {
            let partition = row.0.partition(count);
            by_partition.entry(partition).or_default().push(row);
        }
        for (partition, rows) in by_partition {
            if self.claims.is_closed() {
                break;
            }
            let deleted = self.sweep_partition(partition, rows).await?;
            self.metrics.swept(deleted);
        }
        Ok(page.last)
    }

    /// Deletes purged rows of a partition. A row stays if a map names its owner, because it may be
    /// the proof that a mark has landed (R6). The next round looks at it again.
    async fn sweep_partition(
        &self,
        partition: Partition,
        mut rows: Vec<(Owner, Field)>,
    ) -> Result<u64, TierError> {
        let cold = self.tiers.cold();
        // ORDER: the record before the marks. A landing in between moves the record, so the fence
        // does not match and its marks are not overlooked.
        let records = cold.partitions.partitions(&[partition]).await?;
        let Some(record) = records.first() else {
            return Ok(0);
        };
        let owners: Vec<Owner> = rows.iter().map(|(owner, _)| owner.clone()).collect();
        let answers = self
            .tiers
            .hot()
            .owners
            .marked(&owners, Some(record.epoch))
            .await;
        let mut marked = match answers.into_iter().collect::<Result<Vec<bool>, _>>() {
            Ok(marked) => marked.into_iter(),
            // The rows of this partition wait for the next round, and the others go on.
            Err(error) => {
                if let Err(error) = self.tiers.prepare_after(error).await {
                    tracing::debug!(%error, partition = partition.0, "purged rows stay");
                }
                return Ok(0);
            }
        };
        rows.retain(|_| marked.next() == Some(false));
        // ORDER: after the marks. A hot tier has one stamp in an epoch, so the marks were of this one.
        let state = self
            .tiers
            .hot()
            .partitions
            .partition_states(&[partition])
            .await
            .pop();
        let recorded = state.transpose()?.and_then(|state| state.record);
        let is_same =
            recorded.is_some_and(|hot| (hot.epoch, hot.stamp) == (record.epoch, record.stamp));
        if rows.is_empty() || !is_same {
            return Ok(0);
        }
        let fence = Fence {
            partition,
            epoch: record.epoch,
            stamp: record.stamp,
            landed: record.last_version,
            reaches: record.last_version,
            database: Some(record.database),
        };
        let swept = cold.sweep.sweep(&fence, &rows, self.settings.sweep_after);
        Ok(swept.await?.unwrap_or_default())
    }
}

/// The rest at the end of the table and after a failure.
fn rest(keep: Duration) -> Duration {
    (keep / 10).clamp(PAUSE, REST_MAX)
}
