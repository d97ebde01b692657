//! The comparison of the tiers, all the time.

use storage_model::times;
use storage_tiers::caught::caught;
use tokio::sync::watch;

use crate::run::wait;
use crate::worker::Worker;

impl Worker {
    /// Compares the tiers all the time. That tells the database that the hot tier is used, however long
    /// a pass or a pause takes (R14).
    pub(crate) async fn watch_tiers(&self, mut ended: watch::Receiver<bool>) {
        let Worker { tiers, metrics, .. } = self;
        loop {
            wait(times::COMPARE_EVERY, &mut ended).await;
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => return,
                compared = caught(&metrics.panics, tiers.compare_tiers()) => {
                    if let Err(error) = compared {
                        tracing::debug!(%error, "the tiers could not be compared");
                    }
                }
            }
        }
    }
}
