//! Calls of the hot tier about sessions. All of them are safe to repeat.

use std::future::Future;
use std::time::Duration;

use storage_dirty::{HotError, HotKind};
use tokio::time::{Instant, sleep};

use crate::core::{Core, REPEAT_MAX, REPEAT_MIN, patiently};
use crate::{Error, Result};

/// Longer than any wait, and short enough for the clock.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// The moment after this wait.
pub(super) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(FOREVER)
}

impl Core {
    /// Calls the hot tier. Prepares the partition if needed, and repeats a call with a lost answer
    /// until the deadline.
    pub(super) async fn ask_hot<T, C>(&self, until: Instant, call: impl Fn() -> C) -> Result<T>
    where
        C: Future<Output = Result<T, HotError>>,
    {
        let mut pause = REPEAT_MIN;
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.kind {
                _ if Instant::now() + pause >= until => return Err(error.into()),
                HotKind::Unprepared(partition) => {
                    let prepared = || Box::pin(self.tiers.prepare_for_call(partition));
                    patiently(until, prepared).await.map_err(Error::of_tiers)?;
                }
                HotKind::Interrupted | HotKind::Unavailable | HotKind::NoWrites => {
                    sleep(pause).await;
                    pause = (pause * 2).min(REPEAT_MAX);
                }
                _ => return Err(error.into()),
            }
        }
    }
}
