//! The handles of a storage, as opposed to its own tasks, which also use the core.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Core;
use crate::{CloseReport, unheard};

/// The longest time that the drop of the last handle takes.
const DROPPED: Duration = Duration::from_secs(5);

/// The core, as all handles share it: storages, worlds, owners, sessions and calls.
pub(crate) type Shared = Arc<Handles>;

/// Ends with the last handle. If nobody closed the storage, it is closed then, so that an early return
/// or a panic loses nothing.
#[derive(Debug)]
pub(crate) struct Handles {
    core: Arc<Core>,
    /// A close has come to its end.
    closed: AtomicBool,
}

impl Handles {
    pub(crate) fn new(core: Core) -> Shared {
        Arc::new(Self {
            core: Arc::new(core),
            closed: AtomicBool::new(false),
        })
    }

    /// Nothing is left to do at the end of the last handle.
    pub(crate) fn closed(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Deref for Handles {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // Elsewhere Redis keeps all writes, and a session that was dropped ends in the background.
        let lands = self.core.background.worker().is_some();
        if self.closed.load(Ordering::Acquire) || !lands || !self.core.tiers.home().is_own() {
            return;
        }
        let core = Arc::clone(&self.core);
        // Nothing lands into a file that another program took over, or that takes no rows.
        let within = match core.tiers.refusal() {
            Some(_) => Duration::ZERO,
            None => DROPPED,
        };
        self.core
            .tiers
            .home()
            .finish(async move { tell(&core.end(within).await) });
    }
}

/// Reports the data that a storage took with it.
fn tell(left: &CloseReport) {
    let (unlanded, errors) = (
        left.unlanded.unwrap_or_default(),
        left.errors.unwrap_or_default(),
    );
    let unsaved = left.sessions.unsaved.len();
    if unlanded == 0 && errors == 0 && unsaved == 0 {
        return;
    }
    if unheard::is_unheard() {
        unheard::say(format_args!(
            "the storage was dropped without a close, and not everything could be landed. The last changes of these owners are lost: \
             {unlanded} unlanded, {errors} rejected by the database, {unsaved} with unsaved edits"
        ));
    } else {
        tracing::error!(
            unlanded,
            errors,
            unsaved,
            "the storage was dropped without a close, and not everything could be landed: these owners' last changes are lost"
        );
    }
}
