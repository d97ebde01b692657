//! A table of nodes at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::ConnectionInfo;

use super::address;
use super::common::Common;
use super::connect::Node;
use super::slot::SLOTS;
use crate::redis::error::Failure;

/// Which node serves which slot.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// The number of the table. It rises with each later table.
    pub(crate) generation: u64,
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The first slot of each range, to its last slot and the index of its node.
    pub(crate) ranges: BTreeMap<u16, (u16, usize)>,
}

impl Topology {
    /// One node for all slots.
    pub(crate) fn of_one(generation: u64, node: Arc<Node>) -> Self {
        Self {
            generation,
            nodes: vec![node],
            ranges: BTreeMap::from([(0, (SLOTS, 0))]),
        }
    }

    /// The index of the node that serves a slot.
    pub(crate) fn node_of(&self, slot: u16) -> Option<usize> {
        let (_, (last, node)) = self.ranges.range(..=slot).next_back()?;
        (slot <= *last).then_some(*node)
    }

    /// Whether the same node serves a slot as in another table, or no node in either.
    pub(crate) fn serves_as(&self, other: &Self, slot: u16) -> bool {
        let home = |table: &Self| Some(Arc::as_ptr(table.nodes.get(table.node_of(slot)?)?));
        home(self) == home(other)
    }

    /// The node at an address: the one of this table, with its connections, or a new one.
    pub(crate) fn node_at(
        &self,
        info: ConnectionInfo,
        common: &Arc<Common>,
    ) -> Result<Arc<Node>, Failure> {
        let name = address::label(&info);
        let known = self.nodes.iter().find(|node| node.name == name).cloned();
        known.map_or_else(|| Node::new(info, common), Ok)
    }
}

#[cfg(test)]
mod tests {
    use storage_config::RedisSettings;

    use super::*;
    use crate::redis::Hooks;

    #[tokio::test]
    async fn a_slot_that_another_node_serves_now_is_told_from_one_that_stayed() {
        let settings = RedisSettings::new("redis://localhost".parse().unwrap());
        let common = Common::new(&settings, Hooks::default(), false);
        let node = |port| {
            Node::new(
                format!("redis://localhost:{port}").parse().unwrap(),
                &common,
            )
            .unwrap()
        };
        let (one, two) = (node(1), node(2));
        let whole = |nodes: &[&Arc<Node>]| Topology {
            nodes: nodes.iter().map(|node| Arc::clone(node)).collect(),
            ranges: BTreeMap::from([(0, (9, 0)), (10, (19, nodes.len() - 1))]),
            ..Topology::default()
        };
        let (before, after) = (whole(&[&one]), whole(&[&one, &two]));
        assert!(after.serves_as(&before, 9) && !after.serves_as(&before, 10));
        assert!(
            after.serves_as(&after, 10),
            "it stayed, at another index or not"
        );
        assert!(
            after.serves_as(&before, 20),
            "nobody served it, nobody does"
        );
        assert!(
            !after.serves_as(&Topology::default(), 9),
            "nobody served it before"
        );
    }
}
