//! A table of nodes at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::ConnectionInfo;

use super::address;
use super::common::Common;
use super::connect::Node;
use super::error::Failure;
use super::slot::SLOTS;

/// Which node serves which slot.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Greater for each later table.
    pub(crate) generation: u64,
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The first slot of each range, to its last slot and the index of its node.
    pub(crate) ranges: BTreeMap<u16, (u16, usize)>,
}

impl Topology {
    /// One node for everything.
    pub(crate) fn of_one(generation: u64, node: Arc<Node>) -> Self {
        Self { generation, nodes: vec![node], ranges: BTreeMap::from([(0, (SLOTS, 0))]) }
    }

    /// The index of the node that serves a slot.
    pub(crate) fn node_of(&self, slot: u16) -> Option<usize> {
        let (_, (last, node)) = self.ranges.range(..=slot).next_back()?;
        (slot <= *last).then_some(*node)
    }

    /// The node at an address: the one of this table, with its connections, or a new one.
    pub(crate) fn node_at(&self, info: ConnectionInfo, common: &Arc<Common>) -> Result<Arc<Node>, Failure> {
        let name = address::label(&info);
        let known = self.nodes.iter().find(|node| node.name == name).cloned();
        known.map_or_else(|| Node::new(info, common), Ok)
    }
}
