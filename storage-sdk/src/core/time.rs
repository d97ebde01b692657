//! The hot tier's time. Deadlines follow it.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::Timestamp;
use tokio::time::{Instant, timeout};

use super::Core;
use crate::Result;

/// The hot tier's time, as far as this process knows: a past reading, and the time since then.
#[derive(Debug)]
pub(super) struct HotTime(Mutex<(Instant, Timestamp)>);

impl HotTime {
    /// The hot tier answered `time` to a question at `asked`.
    pub(super) fn new(asked: Instant, time: Timestamp) -> Self {
        Self(Mutex::new((asked, time)))
    }

    fn now(&self) -> Timestamp {
        let (then, time) = *locked(&self.0);
        time.plus(then.elapsed())
    }

    fn set(&self, asked: Instant, time: Timestamp) {
        *locked(&self.0) = (asked, time);
    }
}

/// Work that did not end within its time.
#[derive(Debug)]
pub(crate) struct Late(Duration);

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "within {:?}", self.0)
    }
}

impl Core {
    /// Reads the hot tier's time again.
    pub(crate) async fn learn_time(&self) -> Result<()> {
        let asked = Instant::now();
        self.time.set(asked, self.tiers.hot().tier.time().await?);
        Ok(())
    }

    /// The result of work within a time, by the clock of home. The clock of a caller may be paused.
    /// A paused clock leaps whenever all of its tasks wait.
    pub(crate) async fn within<W>(&self, limit: Duration, work: W) -> Result<W::Output, Late>
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let done = self
            .tiers
            .home()
            .run(async move { timeout(limit, work).await })
            .await;
        done.map_err(|_| Late(limit))?.map_err(|_| Late(limit))
    }

    /// The latest moment, in the hot tier's time, for the application of a write that begins now.
    pub(crate) fn expiry(&self, within: Duration) -> Timestamp {
        self.time.now().plus(within)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use crate::Storage;

    #[tokio::test]
    async fn writes_go_on_after_the_hot_tiers_time_was_learned_too_early_or_too_late() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::embedded(folder.path().join("game.db"))
            .await
            .unwrap();
        let core = Arc::clone(&storage.core);
        let owner = storage
            .world("a", "r")
            .unwrap()
            .bytes()
            .owner("t", 1_u64)
            .unwrap();
        let hour = Duration::from_secs(3_600);
        let now = core.expiry(Duration::ZERO);
        for wrong in [
            now.plus(hour),
            storage_model::Timestamp(now.0 - 3_600_000_000),
        ] {
            core.time.set(Instant::now(), wrong);
            owner.update([("gold", "1")]).await.unwrap();
        }
    }
}
