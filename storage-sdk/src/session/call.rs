//! Calls of the hot tier about sessions. Each may be repeated.

use std::future::Future;
use std::time::Duration;

use storage_dirty::{HotError, HotKind};
use tokio::time::{Instant, sleep};

use crate::Result;
use crate::core::{Core, REPEAT_MAX, REPEAT_MIN};

/// Far beyond any wait, and within what the clock can tell.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// The moment that lies so far ahead.
pub(super) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(FOREVER)
}

impl Core {
    /// Calls the hot tier; prepares the partition if need be, and repeats a call whose answer was
    /// lost, until the deadline.
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
                    Box::pin(self.tiers.prepare_for_call(partition)).await?
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
