//! The parts of a hot tier.

use std::sync::Arc;

use crate::{Feed, Holders, Marks, Owners, Partitions, Probations, Sessions, Tier};

/// A hot tier in parts, one for each concern. Cheap to clone, and whoever needs one part takes that one
/// alone. A test replaces a part alone:
///
/// ```text
/// Hot { feed: Arc::new(Counting::new(hot.feed.clone())), ..hot }
/// ```
///
/// Two engines have all of the parts: Redis (one server, Sentinels or a cluster) and memory. One conformance
/// suite runs over both.
///
/// Calls take batches. The results come in the order of the items, one for each item. Items do not
/// depend on each other, so an engine can apply them in any order and concurrently. Every item is
/// atomic, except an observation: no client ever observes a part of it.
///
/// # Cancel safety
/// A dropped call may or may not have been applied, like a call with an unknown outcome. No call
/// leaves anything half done.
#[derive(Debug, Clone)]
pub struct Hot {
    /// The data of owners.
    pub owners: Arc<dyn Owners>,
    /// Work on marks.
    pub marks: Arc<dyn Marks>,
    /// Landed marks that stay for a while.
    pub probations: Arc<dyn Probations>,
    /// Records, locks and sizes of partitions.
    pub partitions: Arc<dyn Partitions>,
    /// Notes on their way to the database.
    pub feed: Arc<dyn Feed>,
    /// The sessions of owners.
    pub sessions: Arc<dyn Sessions>,
    /// The processes that hold sessions.
    pub holders: Arc<dyn Holders>,
    /// The hot tier as a whole.
    pub tier: Arc<dyn Tier>,
}

impl Hot {
    /// A hot tier that has all parts in one.
    pub fn of<S>(store: &Arc<S>) -> Self
    where
        S: Owners + Marks + Probations + Partitions + Feed + Sessions + Holders + Tier + 'static,
    {
        Self {
            owners: Arc::clone(store) as _,
            marks: Arc::clone(store) as _,
            probations: Arc::clone(store) as _,
            partitions: Arc::clone(store) as _,
            feed: Arc::clone(store) as _,
            sessions: Arc::clone(store) as _,
            holders: Arc::clone(store) as _,
            tier: Arc::clone(store) as _,
        }
    }
}
