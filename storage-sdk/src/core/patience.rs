//! Calls that wait while another hot tier has their partition.

use std::future::Future;

use storage_tiers::TierError;
use tokio::time::{Instant, sleep};

use super::{REPEAT_MAX, REPEAT_MIN};

/// Does the work, and repeats it while another hot tier is used. That one may fall silent before the
/// deadline: its server has just ended, and this one is what came back.
pub(crate) async fn patiently<T, W>(until: Instant, work: impl Fn() -> W) -> Result<T, TierError>
where
    W: Future<Output = Result<T, TierError>>,
{
    let mut pause = REPEAT_MIN;
    loop {
        match work().await {
            Err(TierError::Behind(_)) if Instant::now() + pause < until => {
                sleep(pause).await;
                pause = (pause * 2).min(REPEAT_MAX);
            }
            done => return done,
        }
    }
}
