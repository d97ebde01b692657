//! Whether a worker may land: it has all hooks that the database needs.

use std::time::Duration;

use storage_sql::Hook;
use storage_tiers::Tiers;
use tokio::sync::watch;

/// The time between two looks at the hooks of the database. A landing that lacks one fails anyway.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Whether a worker may claim partitions. `None` before the first look.
#[derive(Debug)]
pub(crate) struct Permit(watch::Sender<Option<bool>>);

impl Default for Permit {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Permit {
    pub(crate) fn watch(&self) -> watch::Receiver<Option<bool>> {
        self.0.subscribe()
    }

    /// Looks at the hooks of the database. While the database is away, the last answer counts. If
    /// there is none, the worker may claim: it lands nothing before the database answers.
    ///
    /// Returns the number of definitions, if it is known.
    pub(crate) async fn look(&self, tiers: &Tiers) -> Option<u64> {
        let before = *self.0.borrow();
        match tiers.cold().hooks.hooks().await {
            Ok(hooks) => {
                let lacked = hooks.iter().find(|hook| hook.is_lacked);
                self.say(before, lacked);
                Some(hooks.iter().map(|hook| hook.definitions).sum())
            }
            Err(error) => {
                tracing::debug!(%error, "the hooks of the database could not be read");
                if before.is_none() {
                    self.0.send_replace(Some(true));
                }
                None
            }
        }
    }

    fn say(&self, before: Option<bool>, lacked: Option<&Hook>) {
        let may = lacked.is_none();
        if before == Some(may) {
            return;
        }
        if let Some(hook) = lacked {
            let message = hook.missing();
            tracing::error!(
                hook = hook.name,
                "this worker claims no partition: {message}"
            );
        } else if before.is_some() {
            tracing::info!("no hook is lacked any more: this worker claims partitions");
        }
        self.0.send_replace(Some(may));
    }
}
