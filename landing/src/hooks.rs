//! Whether a worker may land: it has all hooks that the database needs.

use std::time::Duration;

use storage_sql::Hook;
use storage_tiers::Tiers;
use storage_tiers::caught::caught;
use tokio::sync::watch;

use crate::run::wait;
use crate::worker::Worker;

/// The time between two looks at the hooks of the database. A landing that lacks one fails anyway.
const LOOK_EVERY: Duration = Duration::from_secs(2);

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

impl Worker {
    /// Watches whether the worker has the hooks that the database needs.
    pub(crate) async fn watch_hooks(&self, mut ended: watch::Receiver<bool>) {
        let mut told = 0;
        let panics = &self.metrics.panics;
        while !*ended.borrow_and_update() {
            let look = caught(panics, async { Ok(self.look_at_hooks(told).await) });
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => return,
                // A panic is logged and counted. The next look comes as usual.
                known = look => told = known.unwrap_or(told),
            }
            wait(LOOK_EVERY, &mut ended).await;
        }
    }

    /// Looks at the hooks, and tells the hot tier if their definitions have changed. Returns the
    /// number of definitions that it was told of.
    ///
    /// A change moves how far landings reach. A partition that never lands again would not hear of
    /// that, and would look rewound after a restart of Redis.
    async fn look_at_hooks(&self, told: u64) -> u64 {
        let Worker {
            tiers,
            permit,
            claims,
            ..
        } = self;
        let Some(definitions) = permit.look(tiers).await else {
            return told;
        };
        let held = claims.held();
        if definitions == told || held.is_empty() {
            return told;
        }
        match tiers.prepare(&held).await {
            Ok(()) => definitions,
            Err(error) => {
                tracing::debug!(%error, "the hot tier could not be told of changed hooks");
                told
            }
        }
    }
}
