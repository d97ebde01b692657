//! Notices another live worker of the same name, which shares the work in the name alone: each
//! wants the same partitions.

use std::sync::{Mutex, PoisonError};

use storage_dirty::HotStore;
use storage_model::Partition;
use tokio::time::Instant;

use crate::LandingOptions;

/// What a worker has seen of others that hold its own share.
#[derive(Debug, Default)]
pub(crate) struct Namesakes {
    // A plain mutex: held for no await.
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Since when partitions of the worker's own share are held by others, or when it was looked
    /// who that is.
    since: Option<Instant>,
    told: bool,
}

impl Namesakes {
    /// Told in each round which partitions of its share the worker did not get. Those of a namesake
    /// that died are free when its locks have run out; if one is held for longer under the same
    /// name, its holder is alive, and that is logged once.
    pub(crate) async fn look(
        &self,
        hot: &dyn HotStore,
        options: &LandingOptions,
        refused: &[Partition],
    ) {
        if !self.is_due(Instant::now(), options, refused) {
            return;
        }
        let peeks = hot.peek(refused).await;
        let is_namesake = |holder: Option<String>| holder.as_ref() == Some(&options.name);
        if peeks
            .into_iter()
            .flatten()
            .any(|peek| is_namesake(peek.holder))
        {
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .told = true;
            tracing::error!(
                worker = options.name,
                "another live worker has this worker's name, and holds what this one is to land; give each a landing.worker_name of its own, or none"
            );
        }
    }

    /// Whether it is time to look who holds them.
    fn is_due(&self, now: Instant, options: &LandingOptions, refused: &[Partition]) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_empty() {
            *seen = Seen::default();
            return false;
        }
        let since = *seen.since.get_or_insert(now);
        let is_due = !seen.told && now.duration_since(since) > options.lock_ttl * 3 / 2;
        if is_due {
            seen.since = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_share_that_others_hold_is_looked_at_when_the_locks_of_a_dead_namesake_have_run_out() {
        let options = LandingOptions {
            lock_ttl: Duration::from_secs(2),
            ..LandingOptions::default()
        };
        let (namesakes, refused) = (Namesakes::default(), [Partition(1)]);
        let mut now = Instant::now();
        let mut after = |seconds, refused: &[Partition]| {
            now += Duration::from_secs(seconds);
            namesakes.is_due(now, &options, refused)
        };
        assert!(!after(100, &refused), "refused for the first time");
        assert!(!after(3, &refused));
        assert!(after(1, &refused));
        assert!(!after(1, &refused), "it was just looked");
        assert!(!after(9, &[]), "all is its own");
        assert!(!after(9, &refused), "and is refused anew");
    }
}
