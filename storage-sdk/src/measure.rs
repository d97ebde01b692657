//! The figures of a process that uses the SDK, for the page of metrics.

use storage_landing::Backlog;
use storage_metrics::{Measure, Page, names};

use crate::{Result, Stats, Storage};

/// Sets the figures of this process alone. Those of both tiers are the backlog's.
fn set(page: &mut Page, stats: &Stats) {
    page.set(&names::BACKPRESSURE, stats.backpressure_percent.into());
    page.set(&names::HOT_HITS, stats.hot_hits);
    page.set(&names::HOT_MISSES, stats.hot_misses);
    page.set(&names::HOT_LOADS, stats.hot_loads);
    page.set(&names::FENCED_TRANSACTIONS, stats.fence_mismatches);
    page.set(&names::LANDED_ROWS, stats.rows_landed);
    page.set(&names::LANDED_MARKS, stats.marks_landed);
    page.set(&names::SESSIONS, stats.sessions);
    page.set(&names::SESSIONS_LOST, stats.sessions_lost);
    page.set(&names::SESSIONS_DROPPED, stats.sessions_dropped);
    page.set(&names::REPLACED, stats.replaced.into());
    page.set(&names::RESTARTS, stats.background_restarts);
}

impl Storage {
    /// The figures of [`Storage::stats`] as OpenMetrics text, which Prometheus reads. Serve it
    /// under `/metrics` with the media type `application/openmetrics-text; version=1.0.0`.
    ///
    /// One round trip to Redis for each node.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let page = storage.metrics().await?;
    /// assert!(page.contains("storage_hot_hits_total 0"));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Closed`: the storage is closed. If Redis is away, the page has the figures of this process
    /// and `storage_unreachable_partitions`.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn metrics(&self) -> Result<String> {
        self.metrics_with(&[]).await
    }

    /// As [`Storage::metrics`], with the figures of layers above the storage on the same page.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// use storage_metrics::{Kind, Name};
    /// use storage_sdk::layer::{Measure, Page};
    ///
    /// struct Shops { open: u64 }
    /// const OPEN: Name = Name { name: "open_shops", kind: Kind::Gauge, help: "Shops that are open" };
    ///
    /// impl Measure for Shops {
    ///     fn measure(&self, page: &mut Page) {
    ///         page.set(&OPEN, self.open);
    ///     }
    /// }
    /// let page = storage.metrics_with(&[&Shops { open: 3 }]).await?;
    /// assert!(page.contains("storage_open_shops 3"));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Storage::metrics`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn metrics_with(&self, layers: &[&(dyn Measure + Sync)]) -> Result<String> {
        let hot = self.core.tiers.hot();
        let backlog = self
            .core
            .while_open(async { Ok(Backlog::reachable(hot).await) })
            .await?;
        let mut page = Page::default();
        match &backlog {
            Ok(backlog) => backlog.measure(&mut page),
            Err(_) => page.set(
                &names::UNREACHABLE_PARTITIONS,
                hot.partitions.partition_count().into(),
            ),
        }
        set(&mut page, &self.stats_of(&backlog.unwrap_or_default()));
        layers.iter().for_each(|layer| layer.measure(&mut page));
        Ok(page.text())
    }
}
