//! Since when the windows of probation leave.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::Window;
use storage_model::Partition;
use tokio::time::Instant;

/// The windows that a worker saw leave, and when. The worker uses its own clock, which nobody sets.
/// By the hot tier's clock, a leap would end a probation early (H11). A worker that takes over
/// begins again.
#[derive(Debug, Default)]
pub(crate) struct Expiring {
    // A plain mutex: held for map operations only, never across an await.
    since: Mutex<BTreeMap<Partition, (Window, Instant)>>,
}

impl Expiring {
    /// Whether this window has been expiring for a period.
    pub(crate) fn has_lasted(
        &self,
        partition: Partition,
        window: Window,
        period: Duration,
    ) -> bool {
        let mut since = locked(&self.since);
        let seen = since
            .entry(partition)
            .or_insert_with(|| (window, Instant::now()));
        if seen.0 != window {
            *seen = (window, Instant::now());
        }
        seen.1.elapsed() >= period
    }
}
