//! A cluster as one of its nodes sees it.

use anyhow::{Context as _, Result};

use crate::RedisServer;

/// A node's view of the cluster and of itself.
#[derive(Debug)]
pub(crate) struct View {
    /// `cluster_state:ok`: it knows a living master for each slot.
    pub(crate) ok: bool,
    /// It is a replica and in sync with its master.
    pub(crate) linked: bool,
    pub(crate) topology: Topology,
}

impl View {
    pub(crate) async fn of(node: &RedisServer) -> Result<Self> {
        let info = node.call(&["CLUSTER", "INFO"]).await?;
        let replication = node.call(&["INFO", "replication"]).await?;
        Ok(Self {
            ok: info.text()?.contains("cluster_state:ok"),
            linked: replication.text()?.contains("master_link_status:up"),
            topology: Topology::of(node).await?,
        })
    }
}

/// The answer to `CLUSTER NODES`.
#[derive(Debug)]
pub(crate) struct Topology(Vec<Member>);

#[derive(Debug)]
struct Member {
    port: u16,
    bus_port: u16,
    flags: Vec<String>,
    /// First and last slot of each range.
    slots: Vec<(u16, u16)>,
}

impl Topology {
    pub(crate) async fn of(node: &RedisServer) -> Result<Self> {
        Self::parse(node.call(&["CLUSTER", "NODES"]).await?.text()?)
    }

    /// Each line: `id ip:port@bus,host flags master ping pong epoch link slot slot-slot
    /// [slot->-id]`.
    fn parse(text: &str) -> Result<Self> {
        text.lines()
            .map(|line| {
                parse_member(line).with_context(|| format!("not a line of CLUSTER NODES: {line:?}"))
            })
            .collect::<Result<Vec<_>>>()
            .map(Self)
    }

    /// The number of members that have shaken hands.
    pub(crate) fn len(&self) -> usize {
        self.0
            .iter()
            .filter(|member| !member.has("handshake"))
            .count()
    }

    /// The number of healthy replicas.
    pub(crate) fn replicas(&self) -> usize {
        self.0
            .iter()
            .filter(|member| member.has("slave") && !member.has("fail"))
            .count()
    }

    /// The masters that serve slots, by port, in order.
    pub(crate) fn masters(&self) -> Vec<(u16, &[(u16, u16)])> {
        let mut masters: Vec<_> = self
            .serving()
            .map(|member| (member.port, member.slots.as_slice()))
            .collect();
        masters.sort_unstable();
        masters
    }

    /// The port of the master that serves `slot`.
    pub(crate) fn owner_of(&self, slot: u16) -> Option<u16> {
        let holds = |member: &&Member| {
            member
                .slots
                .iter()
                .any(|&(first, last)| (first..=last).contains(&slot))
        };
        self.serving().find(holds).map(|member| member.port)
    }

    /// The bus port of the node that was asked.
    pub(crate) fn own_bus_port(&self) -> Result<u16> {
        self.0
            .iter()
            .find(|member| member.has("myself"))
            .map(|member| member.bus_port)
            .context("a node knows itself")
    }

    fn serving(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().filter(|member| {
            member.has("master") && !member.has("fail") && !member.slots.is_empty()
        })
    }
}

impl Member {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

fn parse_member(line: &str) -> Option<Member> {
    let mut words = line.split_whitespace();
    let (_, ports) = words.nth(1)?.split(',').next()?.rsplit_once(':')?;
    let (port, bus_port) = ports.split_once('@')?;
    let flags = words.next()?.split(',').map(str::to_owned).collect();
    let slots = words
        .skip(5)
        .filter(|word| !word.starts_with('['))
        .map(parse_range)
        .collect::<Option<_>>()?;
    Some(Member {
        port: port.parse().ok()?,
        bus_port: bus_port.parse().ok()?,
        flags,
        slots,
    })
}

fn parse_range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aa 127.0.0.1:7001@17001,host myself,master - 0 0 1 connected 0-99 101 [101->-bb]\n\
        bb 127.0.0.1:7002@17002 master - 0 0 2 connected 100 102-16383\n\
        cc 127.0.0.1:7003@17003 slave aa 0 0 1 connected\n\
        dd 127.0.0.1:7004@17004 slave,fail bb 0 0 1 disconnected\n\
        ee 127.0.0.1:7005@17005 handshake - 0 0 0 connected\n";

    #[test]
    fn the_lines_of_cluster_nodes_are_understood() {
        let topology = Topology::parse(NODES).unwrap();
        assert_eq!((topology.len(), topology.replicas()), (4, 1));
        assert_eq!(topology.own_bus_port().unwrap(), 17001);
        assert_eq!(topology.owner_of(101), Some(7001));
        assert_eq!(topology.owner_of(100), Some(7002));
        assert_eq!(
            topology.masters(),
            [
                (7001, &[(0, 99), (101, 101)][..]),
                (7002, &[(100, 100), (102, 16383)][..])
            ]
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_shown() {
        assert!(
            Topology::parse("ERR nonsense")
                .unwrap_err()
                .to_string()
                .contains("ERR nonsense")
        );
    }
}
