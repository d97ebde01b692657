//! The end of sessions: of a single one, and of all of them when the storage closes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use storage_model::{DEADLINE_MAX, Outcome, Owner, Partition};
use tokio::time::{Instant, timeout_at};

use super::hold::Hold;
use super::keep::AT_ONCE;
use super::save::SaveRequest;
use crate::core::Core;
use crate::{Ack, Error, Kind, Result};

/// The result of ending several sessions.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// let heroes = world.entities(Default::default());
/// heroes.get_or(42_u64, || Hero { id: 42, level: 7 }).await?;
/// let closed = heroes.close(Duration::from_secs(5)).await;
/// for owner in &closed.unsaved {
///     eprintln!("the last edits of {owner} may be lost");
/// }
/// assert_eq!((closed.ended, closed.left), (1, 0));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Closed {
    /// The number of sessions that ended, with all edits saved.
    pub ended: u64,
    /// The number of saved sessions that are not known to have ended. They lapse a lease and a
    /// tenth of it after the end of the process.
    pub left: u64,
    /// The owners whose last edits are not known to be saved.
    pub unsaved: Vec<Owner>,
}

impl Hold {
    /// Saves the remaining edits, and ends the session in the same step. Edits fail from now on.
    pub(crate) async fn end(self: &Arc<Self>, within: Duration) -> Result<Ack> {
        let over = self.change(|known| {
            known.closing = true;
            known
                .is_over()
                .then(|| known.refusal().unwrap_or_else(Error::forgotten))
        });
        match over {
            Some(error) => Err(error.of(&self.owner)),
            None => {
                let ended = self
                    .save(SaveRequest {
                        durability: self.durability,
                        within,
                        ends: true,
                    })
                    .await;
                if ended.as_ref().is_err_and(|error| {
                    error.kind() == Kind::Invalid && error.outcome() == Outcome::NotApplied
                }) {
                    // Edits are allowed again, so that the game can make it fit.
                    self.change(|known| known.closing = false);
                }
                ended
            }
        }
    }

    /// The handle was dropped without an end, so the session ends in the background.
    pub(crate) fn abandon(self: &Arc<Self>) {
        if self.is_over() {
            return;
        }
        self.core.holder.dropped();
        let (hold, within) = (Arc::clone(self), self.core.deadline);
        let begun = self.core.tiers.home().try_spawn(async move {
            match hold.end(within).await {
                Ok(_) => tracing::warn!(owner = %hold.owner, "a session was dropped without an end; it was saved and ended"),
                Err(error) => tracing::error!(%error, "a session was dropped without an end, and its last edits may be lost"),
            }
        });
        if let Err(error) = begun {
            // The hot tier still has it. A later sweep of its partition ends it.
            let lost = self.is_dirty();
            tracing::error!(owner = %self.owner, %error, lost, "a session was dropped without an end, outside every runtime: unsaved edits are lost");
        }
    }
}

/// The shortest time for an end, however near the deadline is.
const LEAST: Duration = Duration::from_millis(1);

/// Sessions by partition, so that a hanging node delays only its own sessions.
pub(super) fn by_partition(holds: &[Arc<Hold>]) -> Vec<Vec<Arc<Hold>>> {
    let mut parts: BTreeMap<Partition, Vec<Arc<Hold>>> = BTreeMap::new();
    for hold in holds {
        parts
            .entry(hold.partition)
            .or_default()
            .push(Arc::clone(hold));
    }
    parts.into_values().collect()
}

/// Ends sessions until the deadline, those with the most unsaved edits first (S16).
pub(crate) async fn end_all(mut holds: Vec<Arc<Hold>>, until: Instant) -> Closed {
    holds.sort_by_key(|hold| {
        std::cmp::Reverse(hold.content.edit().saturating_sub(hold.known().saved))
    });
    let parts = by_partition(&holds).into_iter().map(|part| async move {
        let ends = stream::iter(part).for_each_concurrent(AT_ONCE, async |hold: Arc<Hold>| {
            let left = until
                .saturating_duration_since(Instant::now())
                .clamp(LEAST, DEADLINE_MAX);
            // Sessions that do not end in time are counted below.
            let _ = timeout_at(until, hold.end(left)).await;
        });
        ends.await;
    });
    join_all(parts).await;
    let mut closed = Closed::default();
    for hold in holds {
        match (hold.is_dirty(), hold.is_over()) {
            (true, _) => closed.unsaved.push(hold.owner.clone()),
            (false, true) => closed.ended += 1,
            (false, false) => closed.left += 1,
        }
    }
    closed
}

impl Core {
    /// Ends all sessions when the storage closes. No more sessions are opened.
    pub(crate) async fn end_sessions(&self, until: Instant) -> Closed {
        self.holder.close();
        end_all(self.holder.open(), until).await
    }
}
