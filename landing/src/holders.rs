//! Session holders that fall silent.

use storage_tiers::Leases;
use storage_tiers::caught::caught;
use storage_tiers::leases::Lapsed;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::run::wait;
use crate::worker::Worker;

impl Worker {
    /// Watches the session holders in the worker's partitions. So a silent holder loses its owners
    /// even if no game server runs.
    pub(crate) async fn watch_holders(&self, mut ended: watch::Receiver<bool>) {
        let Worker {
            tiers,
            lease,
            claims,
            metrics,
            ..
        } = self;
        let (mut leases, mut lapsed) = (Leases::new(*lease), Lapsed::default());
        while !*ended.borrow_and_update() {
            let held = claims.held();
            let round = caught(&metrics.panics, async {
                let hot = tiers.hot();
                // A failure in one partition does not stop the others.
                for (partition, beats) in held.iter().zip(hot.holders.beat(&held, None).await) {
                    let said = async {
                        leases
                            .see(*partition, &beats?, Instant::now())
                            .say(hot.holders.as_ref(), *partition, None)
                            .await?;
                        lapsed
                            .forget_old(hot.holders.as_ref(), *partition, Instant::now())
                            .await
                    };
                    if let Err(error) = said.await {
                        tracing::debug!(%error, partition = partition.0, "session holders could not be watched");
                    }
                }
                Ok(())
            });
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => return,
                watched = round => {
                    if let Err(error) = watched {
                        tracing::warn!(%error, "session holders could not be watched");
                    }
                }
            }
            wait(*lease / 4, &mut ended).await;
        }
    }
}
