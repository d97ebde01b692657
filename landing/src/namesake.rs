//! Notices another live worker of the same name. Two such workers want the same partitions, so they
//! do not share the work.

use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::Partitions;
use storage_model::Partition;
use tokio::time::Instant;

/// The other holders of a worker's own share, as the worker has seen them.
#[derive(Debug, Default)]
pub(crate) struct Namesakes {
    // A plain mutex: held for no await.
    seen: Mutex<NamesakeWatch>,
}

#[derive(Debug, Default)]
struct NamesakeWatch {
    /// Since when other workers hold partitions of this worker's share, or the time of the last
    /// check.
    since: Option<Instant>,
    warned: bool,
}

impl Namesakes {
    /// Takes the partitions of the worker's share that it did not get in this round. The partitions
    /// of a dead namesake become free when its locks expire. If one is held for longer under the
    /// same name, its holder is alive. That is logged once.
    pub(crate) async fn look(
        &self,
        store: &dyn Partitions,
        name: &str,
        lock_ttl: Duration,
        refused: &[Partition],
    ) {
        if !self.is_due(Instant::now(), lock_ttl, refused) {
            return;
        }
        let peeks = store.peek(refused).await;
        let is_namesake = |holder: Option<String>| holder.as_deref() == Some(name);
        if peeks
            .into_iter()
            .flatten()
            .any(|peek| is_namesake(peek.holder))
        {
            locked(&self.seen).warned = true;
            tracing::error!(
                worker = name,
                "another live worker has this worker's name, and holds partitions of its share: give each worker a landing.worker_name of its own, or none"
            );
        }
    }

    /// Whether it is time to check the holders.
    fn is_due(&self, now: Instant, lock_ttl: Duration, refused: &[Partition]) -> bool {
        let mut seen = locked(&self.seen);
        if refused.is_empty() {
            *seen = NamesakeWatch::default();
            return false;
        }
        let since = *seen.since.get_or_insert(now);
        let is_due = !seen.warned && now.duration_since(since) > lock_ttl * 3 / 2;
        if is_due {
            seen.since = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_others_hold_is_looked_at_when_the_locks_of_a_dead_namesake_have_run_out() {
        const LOCK_TTL: Duration = Duration::from_secs(2);
        let (namesakes, refused) = (Namesakes::default(), [Partition(1)]);
        let mut now = Instant::now();
        let mut after = |seconds, refused: &[Partition]| {
            now += Duration::from_secs(seconds);
            namesakes.is_due(now, LOCK_TTL, refused)
        };
        assert!(!after(100, &refused), "not locked for the first time");
        assert!(!after(3, &refused));
        assert!(after(1, &refused));
        assert!(!after(1, &refused), "the last check is recent");
        assert!(!after(9, &[]), "it holds its whole share");
        assert!(!after(9, &refused), "it loses a partition again");
    }
}
