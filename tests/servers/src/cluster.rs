//! A Redis Cluster on this machine.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::{Instant, sleep};

use crate::{
    RedisOptions, RedisServer, SlotMove,
    topology::{Topology, View},
};

/// The number of hash slots of every Redis Cluster.
pub(crate) const SLOTS: usize = 16_384;
/// The longest time that the nodes can take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at the nodes.
const POLL: Duration = Duration::from_millis(20);

/// The options of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// Masters, which share the slots evenly. Default: 3.
    pub masters: usize,
    /// Replicas of each master. Default: 0.
    pub replicas_per_master: usize,
    /// `cluster-node-timeout`: a master that is silent for this long is failed over. Default: 1
    /// second.
    pub node_timeout: Duration,
    /// The options of each node. User and TLS must stay unset, because the nodes talk to each other
    /// without them.
    pub redis: RedisOptions,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            masters: 3,
            replicas_per_master: 0,
            node_timeout: Duration::from_secs(1),
            redis: RedisOptions::default(),
        }
    }
}

/// A running Redis Cluster. Dropping it kills its nodes and removes their folders.
#[derive(Debug)]
pub struct RedisCluster {
    /// First the masters of the start, then the replicas.
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster with the default options and returns when all its nodes agree that it is
    /// complete.
    ///
    /// # Errors
    /// Like [`start_with`](Self::start_with).
    ///
    /// # Cancel safety
    /// A cancelled start leaves no server and no folder.
    pub async fn start(masters: usize, replicas_per_master: usize) -> Result<Self> {
        Self::start_with(ClusterOptions {
            masters,
            replicas_per_master,
            ..ClusterOptions::default()
        })
        .await
    }

    /// Starts a cluster and returns when all its nodes agree that it is complete and every replica
    /// is in sync.
    ///
    /// # Errors
    /// No master, a user or TLS in the options, [`Missing`](crate::Missing), a node that does not
    /// start, or nodes that do not agree.
    ///
    /// # Cancel safety
    /// A cancelled start leaves no server and no folder.
    pub async fn start_with(options: ClusterOptions) -> Result<Self> {
        ensure!(options.masters > 0, "a cluster needs at least one master");
        ensure!(
            options.redis.user.is_none() && !options.redis.tls,
            "a cluster starts without user and TLS"
        );
        let mut nodes = Vec::new();
        for _ in 0..options.masters * (1 + options.replicas_per_master) {
            nodes.push(
                RedisServer::start_node(options.redis.clone(), Some(options.node_timeout)).await?,
            );
        }
        let cluster = Self { nodes };
        cluster.join(options.masters).await?;
        Ok(cluster)
    }

    /// `redis-cluster://127.0.0.1:7001,127.0.0.1:7002,…` with every node, and the password if there
    /// is one.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        let credentials = self
            .nodes
            .first()
            .map(RedisServer::credentials)
            .unwrap_or_default();
        format!("redis-cluster://{credentials}{}", hosts.join(","))
    }

    /// The nodes: first those that started as masters, then the replicas of the first master, of
    /// the second, and so on.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The node that started as number `index`.
    ///
    /// # Errors
    /// There is no such node.
    pub fn node(&self, index: usize) -> Result<&RedisServer> {
        self.nodes
            .get(index)
            .with_context(|| format!("no node {index} in a cluster of {}", self.nodes.len()))
    }

    /// The index of the master that serves `slot` now, by the nodes that answer.
    ///
    /// # Errors
    /// No running node knows a master of that slot that belongs to this cluster.
    pub async fn owner_of(&self, slot: u16) -> Result<usize> {
        for node in &self.nodes {
            if node.pid().is_none() {
                continue;
            }
            let Ok(topology) = Topology::of(node).await else {
                continue;
            };
            if let Some(index) = topology.owner_of(slot).and_then(|port| self.index_of(port)) {
                return Ok(index);
            }
        }
        bail!("no node knows the master of slot {slot}")
    }

    /// Waits until every node that is up (and not paused) says `cluster_state:ok` and all of them
    /// see the same masters and slots.
    ///
    /// # Errors
    /// They do not agree within a minute. The message ends with their views.
    pub async fn settled(&self) -> Result<()> {
        self.wait("agree on a complete cluster", |views| {
            let mut masters = views.iter().map(|view| view.topology.masters());
            let first = masters.next();
            views.iter().all(|view| view.ok) && masters.all(|other| first.as_ref() == Some(&other))
        })
        .await
    }

    /// Moves `slot` with all its keys to the master with index `to`, as an operator's resharding
    /// does. Returns when all nodes know. [`SlotMove`] does the same in single steps, to stop
    /// half-way.
    ///
    /// # Errors
    /// Like the steps of [`SlotMove`].
    ///
    /// # Cancel safety
    /// A cancelled move leaves the slot half-way. Another move to the same node finishes it.
    pub async fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let slot_move = SlotMove::begin(self, slot, to).await?;
        while slot_move.migrate(100).await? > 0 {}
        slot_move.finish().await
    }

    fn index_of(&self, port: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.port() == port)
    }

    async fn join(&self, masters: usize) -> Result<()> {
        for (index, master) in self.nodes.iter().take(masters).enumerate() {
            let (first, end) = (index * SLOTS / masters, (index + 1) * SLOTS / masters);
            let epoch = (index + 1).to_string();
            master
                .call(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])
                .await?;
            master
                .call(&[
                    "CLUSTER",
                    "ADDSLOTSRANGE",
                    &first.to_string(),
                    &(end - 1).to_string(),
                ])
                .await?;
        }
        self.meet().await?;
        let replicas = self.nodes.get(masters..).unwrap_or_default();
        let per_master = replicas.len() / masters;
        for (index, replica) in replicas.iter().enumerate() {
            let master = self
                .node(index / per_master)?
                .call(&["CLUSTER", "MYID"])
                .await?;
            replica
                .call(&["CLUSTER", "REPLICATE", master.text()?])
                .await?;
        }
        let replicas = replicas.len();
        self.wait("connect their replicas", |views| {
            let linked = views.iter().filter(|view| view.linked).count();
            linked == replicas
                && views
                    .iter()
                    .all(|view| view.topology.replicas() == replicas)
        })
        .await?;
        self.settled().await
    }

    async fn meet(&self) -> Result<()> {
        let Some((first, others)) = self.nodes.split_first() else {
            return Ok(());
        };
        for other in others {
            let (port, bus) = (
                other.port().to_string(),
                Topology::of(other).await?.own_bus_port()?.to_string(),
            );
            first
                .call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
                .await?;
        }
        let count = self.nodes.len();
        self.wait("meet", |views| {
            views.iter().all(|view| view.topology.len() == count)
        })
        .await
    }

    async fn wait(&self, what: &str, done: impl Fn(&[View]) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let views = self.views().await?;
            if !views.is_empty() && done(&views) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the nodes did not {what} in {PATIENCE:?}; they see {views:?}");
            }
            sleep(POLL).await;
        }
    }

    async fn views(&self) -> Result<Vec<View>> {
        let mut views = Vec::new();
        for node in self.nodes.iter().filter(|node| node.pid().is_some()) {
            views.push(View::of(node).await?);
        }
        Ok(views)
    }
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("masters", &self.masters)
            .field("replicas_per_master", &self.replicas_per_master)
            .field("node_timeout", &self.node_timeout)
            .finish_non_exhaustive()
    }
}
