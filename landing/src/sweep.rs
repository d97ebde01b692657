//! The sweep: deletes rows of fields that were purged long ago.
//!
//! One worker sweeps for all partitions: the one that holds the first. It goes over the table page
//! by page, and rests at the end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use storage_model::{Field, Owner, Partition};
use storage_sql::{ColdError, ColdKind, Fence, RowKey};
use storage_tiers::TierError;
use tokio::time::Instant;

use crate::worker::Worker;

/// The rows of a page.
const PAGE: usize = 1_000;
/// The time between two pages.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest rest at the end of the table, or if the database rejects the sweep. It is shorter if
/// rows stay for a short time only.
const REST_MAX: Duration = Duration::from_mins(10);

/// How far the sweep is.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    // A plain mutex: held for a copy only, never across an await.
    at: Mutex<(Option<RowKey>, Option<Instant>)>,
}

impl Swept {
    /// Where the next page begins, if the next page is due.
    fn due(&self) -> Option<Option<RowKey>> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = at.1.is_none_or(|due| Instant::now() >= due);
        is_due.then(|| at.0.clone())
    }

    fn next(&self, after: Option<RowKey>, pause: Duration) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (after, Some(Instant::now() + pause));
    }
}

impl Worker {
    /// Sweeps the next page, if it is due and this worker sweeps. A failure does not hold up
    /// landing.
    pub(crate) async fn sweep(&self, held: &[Partition]) {
        let is_off = self.settings.sweep_after.is_zero();
        if is_off || held.first() != Some(&Partition(0)) {
            return;
        }
        let Some(after) = self.swept.due() else {
            return;
        };
        let rest = (self.settings.sweep_after / 10).clamp(PAUSE, REST_MAX);
        match self.sweep_page(after.as_ref()).await {
            Ok(Some(last)) => self.swept.next(Some(last), PAUSE),
            Ok(None) => self.swept.next(None, rest),
            Err(TierError::Cold(ColdError {
                kind: ColdKind::Operator,
                message,
                ..
            })) => {
                tracing::warn!(
                    "rows of purged fields stay, because the database does not let this login delete them: {message}"
                );
                self.swept.next(None, rest);
            }
            Err(error) => {
                tracing::warn!(%error, "a page of purged rows could not be swept: the same page follows");
                self.swept.next(after, PAUSE);
            }
        }
    }

    /// Deletes the purged rows of a page. Returns its last row.
    async fn sweep_page(&self, after: Option<&RowKey>) -> Result<Option<RowKey>, TierError> {
        let cold = self.tiers.cold();
        let page = cold.purged(after, self.settings.sweep_after, PAGE).await?;
        let count = self.tiers.hot().partition_count();
        let mut by_partition: BTreeMap<Partition, Vec<(Owner, Field)>> = BTreeMap::new();
        for row in page.purged {
            let partition = row.0.partition(count);
            by_partition.entry(partition).or_default().push(row);
        }
        for (partition, rows) in by_partition {
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
        let records = cold.partitions(&[partition]).await?;
        let Some(record) = records.first() else {
            return Ok(0);
        };
        let owners: Vec<Owner> = rows.iter().map(|(owner, _)| owner.clone()).collect();
        let marked = self.tiers.hot().marked(&owners, Some(record.epoch)).await;
        let marked: Result<Vec<bool>, _> = marked.into_iter().collect();
        let mut marked = marked?.into_iter();
        rows.retain(|_| marked.next() == Some(false));
        if rows.is_empty() {
            return Ok(0);
        }
        let fence = Fence {
            partition,
            epoch: record.epoch,
            landed: record.last_version,
            reaches: record.last_version,
            database: Some(record.database),
        };
        Ok(cold.sweep(&fence, &rows).await?.unwrap_or_default())
    }
}
