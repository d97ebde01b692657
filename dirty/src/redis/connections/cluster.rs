//! The nodes of a cluster, as one of them knows them: CLUSTER SLOTS.

use std::sync::Arc;

use redis::ConnectionInfo;

use super::address;
use super::common::Common;
use super::connect::Node;
use super::topology::Topology;
use super::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;

/// The table after `known`, from the first node that answers. Known nodes are asked before `seeds`.
pub(crate) async fn look(
    seeds: &[ConnectionInfo],
    known: &Topology,
    common: &Arc<Common>,
) -> Result<Topology, Failure> {
    let mut nodes = known.nodes.clone();
    // Another node is asked first each time, and nodes that hang are asked last.
    if let Some(shift) = usize::try_from(known.generation)
        .ok()
        .and_then(|turn| turn.checked_rem(nodes.len()))
    {
        nodes.rotate_left(shift);
    }
    nodes.sort_by_key(|node| node.is_hung());
    for seed in seeds {
        if !nodes.iter().any(|node| node.name == address::label(seed)) {
            nodes.push(Node::new(seed.clone(), common)?);
        }
    }
    let mut last = Failure::NoConnection("no node of the cluster answers".to_owned());
    for node in nodes {
        match table_of(&node, known, common).await {
            Ok(topology) => return Ok(topology),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// The table as one node knows it.
async fn table_of(
    asked: &Arc<Node>,
    known: &Topology,
    common: &Arc<Common>,
) -> Result<Topology, Failure> {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    let command = Command::read("cluster slots", 0, cmd);
    let answer = asked.pipeline(&[&command], false).await.pop();
    let rows = reply::list(answer.unwrap_or_else(|| Err(Failure::TimedOut))?)?;
    let mut topology = Topology {
        generation: known.generation + 1,
        ..Topology::default()
    };
    for row in rows {
        let mut row = reply::list(row)?.into_iter();
        let mut next = || row.next().unwrap_or_default();
        let (first, last) = (reply::number(next())?, reply::number(next())?);
        let mut master = reply::list(next())?.into_iter();
        // A node that does not know its own name gives none. It is the node that was asked.
        let host = reply::maybe(master.next().unwrap_or_default())?
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .filter(|name| !name.is_empty() && name != "?")
            .unwrap_or_else(|| address::host(&asked.info).to_owned());
        let info = address::sibling(
            &asked.info,
            &host,
            reply::number(master.next().unwrap_or_default())?,
        );
        let name = address::label(&info);
        let index = match topology.nodes.iter().position(|node| node.name == name) {
            Some(index) => index,
            None => {
                topology.nodes.push(if asked.name == name {
                    asked.clone()
                } else {
                    known.node_at(info, common)?
                });
                topology.nodes.len() - 1
            }
        };
        topology.ranges.insert(first, (last, index));
    }
    if topology.ranges.is_empty() {
        Err(Failure::server("CLUSTERDOWN", "no slot is served"))
    } else {
        Ok(topology)
    }
}
