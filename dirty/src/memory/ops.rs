//! The replies of recent operations (R11).

use std::collections::BTreeMap;

use storage_model::{Applied, ID_WINDOW, OpId, Timestamp};

/// Replies in two generations. The older one is dropped as a whole when the younger one has lasted
/// a window. The younger one is never dropped at once: the clock may have leapt, and its replies
/// may be recent (H11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Ops {
    young: BTreeMap<OpId, Applied>,
    old: BTreeMap<OpId, Applied>,
    since: Timestamp,
}

impl Ops {
    pub(super) fn reply(&self, id: &OpId) -> Option<&Applied> {
        self.young.get(id).or_else(|| self.old.get(id))
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub(super) fn remember(&mut self, id: OpId, reply: Applied) {
        self.young.insert(id, reply);
    }

    pub(super) fn rotate(&mut self, now: Timestamp) {
        if now.since(self.since) < ID_WINDOW {
            return;
        }
        self.old = std::mem::take(&mut self.young);
        self.since = now;
    }
}
