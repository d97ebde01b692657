//! Which node gets which command: one server, or the masters of a cluster.
//!
//! A cluster's table slot → node is read from CLUSTER SLOTS and read anew when a node says MOVED or CLUSTERDOWN, can't be reached or
//! hangs. Only what certainly was not executed is sent again, a bounded number of times; an answer that was lost is for the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use redis::ConnectionInfo;
use storage_model::Durability;
use tokio::time::{Instant, sleep};

use super::address::{self, Addresses};
use super::connect::{Common, Node};
use super::error::Failure;
use super::reply;
use super::slot::SLOTS;
use super::transport::{Answer, Command};

/// How often a command is sent at most, redirections included.
const TRIES: u32 = 8;

/// Where commands go.
pub(crate) struct Router {
    pub(crate) common: Arc<Common>,
    seeds: Vec<ConnectionInfo>,
    cluster: bool,
    /// Read by every call, replaced whole by `refresh`.
    topology: RwLock<Arc<Topology>>,
    /// Held while the table is read anew, so that it is read once for all who wait.
    refreshing: tokio::sync::Mutex<()>,
}

/// A table of nodes at one moment.
#[derive(Debug, Default)]
struct Topology {
    generation: u64,
    nodes: Vec<Arc<Node>>,
    /// The first slot of each range, to its last slot and the index of its node.
    ranges: BTreeMap<u16, (u16, usize)>,
}

impl Topology {
    fn node_of(&self, slot: u16) -> Option<usize> {
        let (_, (last, node)) = self.ranges.range(..=slot).next_back()?;
        (slot <= *last).then_some(*node)
    }
}

/// A node, and the commands of a round that go there, with their places in the call.
type Group<'a> = (&'a Arc<Node>, Vec<(usize, &'a Command)>);

/// What is to be done about an answer.
enum Next {
    /// It stands.
    Done,
    /// The command was not executed: send it again where the new table says.
    Again,
    /// The command was not executed: send it there, with ASKING.
    Ask(Arc<Node>),
}

impl Router {
    /// Finds the nodes.
    pub(crate) async fn open(addresses: Addresses, common: Arc<Common>) -> Result<Self, Failure> {
        let Addresses { seeds, cluster } = addresses;
        let first = seeds.first().ok_or_else(|| Failure::Settings("the URL names no address".to_owned()))?;
        let topology = if cluster {
            Topology::default()
        } else {
            let ranges = BTreeMap::from([(0, (SLOTS, 0))]);
            Topology { generation: 0, nodes: vec![Node::new(first.clone(), &common)?], ranges }
        };
        let topology = RwLock::new(Arc::new(topology));
        let router = Self { common, seeds, cluster, topology, refreshing: tokio::sync::Mutex::new(()) };
        if cluster {
            router.refresh(0).await?;
        }
        Ok(router)
    }

    /// All nodes known now.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology().nodes.clone()
    }

    /// Sends commands, one pipeline to each node, all at once. With `together`, commands are sent again all or none, so that the last
    /// one is always answered after the others.
    pub(crate) async fn send(&self, commands: &[Command], together: bool) -> Vec<Answer> {
        let mut answers: Vec<Answer> = commands.iter().map(|_| Err(Failure::Unverified)).collect();
        let mut pending: Vec<(usize, Option<Arc<Node>>)> = (0..commands.len()).map(|index| (index, None)).collect();
        let until = Instant::now() + self.common.patience();
        for attempt in 0..TRIES {
            let topology = self.topology();
            let (mut again, mut timed_out) = (Vec::new(), false);
            for (index, answer) in self.round(&topology, commands, &pending).await {
                timed_out |= matches!(answer, Err(Failure::TimedOut));
                match self.next(&answer, &topology) {
                    Next::Done => {}
                    Next::Again => again.push((index, None)),
                    Next::Ask(node) => again.push((index, Some(node))),
                }
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
            let hung = timed_out && topology.nodes.iter().any(|node| node.is_hung());
            let redirected = again.iter().any(|(_, ask)| ask.is_none());
            if self.cluster && (hung || redirected) {
                // A failure to refresh shows in the next attempt, or not at all.
                let _ = self.refresh(topology.generation).await;
            }
            if again.is_empty() || attempt + 1 == TRIES || Instant::now() > until {
                break;
            }
            if redirected && attempt > 0 {
                sleep(Duration::from_millis(5 << attempt)).await;
            }
            pending = if together { (0..commands.len()).map(|index| (index, None)).collect() } else { again };
        }
        answers
    }

    /// Sends what is pending, once.
    async fn round(
        &self,
        topology: &Topology,
        commands: &[Command],
        pending: &[(usize, Option<Arc<Node>>)],
    ) -> Vec<(usize, Answer)> {
        if let ([(index @ 0, None)], [command @ Command { barrier: None, .. }]) = (pending, commands)
            && let Some(node) = topology.node_of(command.slot).and_then(|at| topology.nodes.get(at))
        {
            return node.pipeline(&[command], false).await.into_iter().map(|answer| (*index, answer)).collect();
        }
        let mut groups: BTreeMap<(usize, bool, Option<Durability>), Group<'_>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(pending.len());
        for (index, ask) in pending {
            let Some(command) = commands.get(*index) else { continue };
            let home = topology.node_of(command.slot).and_then(|at| Some((at, topology.nodes.get(at)?)));
            let group = match (ask, home) {
                (Some(node), _) => ((Arc::as_ptr(node).addr(), true), node),
                (None, Some((at, node))) => ((at, false), node),
                (None, None) => {
                    answers.push((*index, Err(Failure::server("CLUSTERDOWN", "no node serves the slot"))));
                    continue;
                }
            };
            let (node, asking) = group.0;
            let until = command.barrier.as_ref().map(|barrier| barrier.until);
            groups.entry((node, asking, until)).or_insert_with(|| (group.1, Vec::new())).1.push((*index, command));
        }
        let sent = groups.into_iter().map(|((_, asking, until), (node, members))| async move {
            let (indices, batch): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            let answers = match until {
                None => node.pipeline(&batch, asking).await,
                Some(until) => node.commit(until, &batch, asking).await,
            };
            indices.into_iter().zip(answers).collect::<Vec<_>>()
        });
        answers.extend(join_all(sent).await.into_iter().flatten());
        answers
    }

    fn next(&self, answer: &Answer, topology: &Topology) -> Next {
        match answer {
            // The connection has been retired; the next one loads the scripts.
            Err(Failure::Server { code, .. }) if code == "NOSCRIPT" => Next::Again,
            Err(Failure::NoConnection(_)) if self.cluster => Next::Again,
            Err(Failure::Server { code, text }) if self.cluster => match code.as_str() {
                "ASK" => self.asked(text, topology).map_or(Next::Again, Next::Ask),
                "MOVED" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" | "LOADING" => Next::Again,
                _ => Next::Done,
            },
            _ => Next::Done,
        }
    }

    /// The node that an ASK names: "slot host:port".
    fn asked(&self, text: &str, topology: &Topology) -> Option<Arc<Node>> {
        let (host, port) = text.split_whitespace().nth(1)?.rsplit_once(':')?;
        let info = address::sibling(self.seeds.first()?, host, port.parse().ok()?);
        let name = address::label(&info);
        let known = topology.nodes.iter().find(|node| node.name == name).cloned();
        known.or_else(|| Node::new(info, &self.common).ok())
    }

    /// Reads the table anew, unless somebody did since `generation`.
    async fn refresh(&self, generation: u64) -> Result<(), Failure> {
        let _turn = self.refreshing.lock().await;
        let known = self.topology();
        if known.generation > generation {
            return Ok(());
        }
        let mut nodes = known.nodes.clone();
        // Another node first each time, and those that hang last.
        if let Some(shift) = usize::try_from(known.generation).ok().and_then(|turn| turn.checked_rem(nodes.len())) {
            nodes.rotate_left(shift);
        }
        nodes.sort_by_key(|node| node.is_hung());
        for seed in &self.seeds {
            if !nodes.iter().any(|node| node.name == address::label(seed)) {
                nodes.push(Node::new(seed.clone(), &self.common)?);
            }
        }
        let mut last = Failure::NoConnection("no node of the cluster answers".to_owned());
        for node in nodes {
            match self.table_of(&node, &known).await {
                Ok(topology) => {
                    *self.topology.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(topology);
                    return Ok(());
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// The table as one node knows it.
    async fn table_of(&self, asked: &Arc<Node>, known: &Topology) -> Result<Topology, Failure> {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SLOTS");
        let command = Command::read("cluster slots", 0, cmd);
        let answer = asked.pipeline(&[&command], false).await.pop();
        let rows = reply::list(answer.unwrap_or_else(|| Err(Failure::TimedOut))?)?;
        let mut topology = Topology { generation: known.generation + 1, ..Topology::default() };
        for row in rows {
            let mut row = reply::list(row)?.into_iter();
            let mut next = || row.next().unwrap_or_default();
            let (first, last) = (reply::number(next())?, reply::number(next())?);
            let mut master = reply::list(next())?.into_iter();
            // A node that does not know its own name says nothing: it is the one that was asked.
            let host = reply::maybe(master.next().unwrap_or_default())?.map(|host| String::from_utf8_lossy(&host).into_owned());
            let host =
                host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| address::host(&asked.info).to_owned());
            let info = address::sibling(&asked.info, &host, reply::number(master.next().unwrap_or_default())?);
            let name = address::label(&info);
            let index = match topology.nodes.iter().position(|node| node.name == name) {
                Some(index) => index,
                None => {
                    let old = known.nodes.iter().chain([asked]).find(|node| node.name == name).cloned();
                    topology.nodes.push(old.map_or_else(|| Node::new(info, &self.common), Ok)?);
                    topology.nodes.len() - 1
                }
            };
            topology.ranges.insert(first, (last, index));
        }
        if topology.ranges.is_empty() { Err(Failure::server("CLUSTERDOWN", "no slot is served")) } else { Ok(topology) }
    }

    fn topology(&self) -> Arc<Topology> {
        self.topology.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.topology().nodes).finish()
    }
}
