//! The keeper renews the worker's announcement, share and locks, and lands without locks while the
//! hot tier takes no writes.

use storage_tiers::caught::caught;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::rescue::{self, Rescued};
use crate::run::wait;
use crate::worker::Worker;

/// Lock lifetimes from a complete rescue to the next one. The hot tier may take writes at times but
/// fail every renewal of a lock. Then there are new marks by that time.
const WHOLE_RESCUE_TTLS: u32 = 10;

impl Worker {
    /// Renews announcement, share and locks at its own interval, however long a batch takes.
    pub(crate) async fn keep_claims(&self, mut ended: watch::Receiver<bool>) {
        let Worker {
            tiers,
            settings,
            claims,
            metrics,
            ..
        } = self;
        let rhythm = settings.lock_ttl / 4;
        let mut rescue_from = Instant::now();
        let mut permit = self.permit.watch();
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => return,
            _ = permit.wait_for(Option::is_some) => {}
        }
        while !*ended.borrow_and_update() {
            let may_claim = *permit.borrow_and_update() != Some(false);
            let round = caught(&metrics.panics, async {
                let hot = tiers.hot();
                if may_claim {
                    Ok(claims.keep(hot, settings).await?)
                } else {
                    Ok(claims.stand_back(hot).await?)
                }
            });
            let round = timeout(settings.lock_ttl, round).await;
            match round {
                Ok(Err(error)) => {
                    tracing::warn!(%error, "locks could not be renewed");
                    if Instant::now() >= rescue_from && rescue::hot_tier_takes_no_writes(&error) {
                        let whole = tokio::select! {
                            whole = self.rescue() => whole,
                            _ = ended.wait_for(|ended| *ended) => break,
                        };
                        rescue_from = Instant::now()
                            + settings.lock_ttl * if whole { WHOLE_RESCUE_TTLS } else { 1 };
                    }
                }
                Ok(Ok(())) => rescue_from = Instant::now(),
                Err(_) => {}
            }
            wait(rhythm.min(settings.interval), &mut ended).await;
        }
    }

    /// Lands all waiting marks from a hot tier that takes no writes. Returns whether no partition
    /// was skipped. Rows that the database rejects stay rejected.
    async fn rescue(&self) -> bool {
        let Worker { tiers, metrics, .. } = self;
        match caught(&metrics.panics, rescue::rescue(tiers)).await {
            Ok(
                rescued @ Rescued {
                    rows,
                    refused,
                    skipped,
                },
            ) => {
                metrics.rescued(rescued);
                tracing::warn!(
                    rows,
                    refused,
                    skipped,
                    "the hot tier takes no writes: waiting data has landed, and its marks stay"
                );
                skipped == 0
            }
            Err(error) => {
                tracing::warn!(%error, "the hot tier takes no writes, and waiting data could not be landed");
                false
            }
        }
    }
}
