//! The replies of recent operations (R11).

use std::collections::BTreeMap;
use std::time::Duration;

use storage_model::{Applied, OpId, Timestamp};

/// How long a reply is kept at least. No deadline lies further ahead.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Replies in two generations: the older one is dropped whole when the younger one has lasted a window.
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
        let age = now.since(self.since);
        if age < WINDOW {
            return;
        }
        self.old = std::mem::take(&mut self.young);
        if age >= WINDOW * 2 {
            self.old.clear();
        }
        self.since = now;
    }
}
