//! Which node gets which command: one server, the masters of a cluster, or the master that
//! Sentinels name.
//!
//! With a cluster or Sentinels, the router finds the table slot → node again when a node can't be
//! reached, hangs, or says that it does not serve the slot. It resends only commands that were
//! certainly not executed, a bounded number of times. The caller handles a lost answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use redis::ConnectionInfo;
use storage_coalesce::SingleFlight;
use storage_model::{Durability, tries};
use tokio::time::{Instant, sleep};

use super::address::{self, Addresses};
use super::cluster;
use super::common::Common;
use super::connect::Node;
use super::sentinel::Sentinels;
use super::topology::Topology;
use super::transport::{Answer, Command};
use crate::redis::error::Failure;

/// The longest pause before a node that could not run a command is asked again.
const PAUSE_MAX: Duration = Duration::from_millis(80);

/// The source of the nodes.
enum Source {
    /// The settings, which name one node.
    Server,
    /// The nodes of a cluster, with these seeds among them.
    Cluster(Vec<ConnectionInfo>),
    /// The Sentinels of a master.
    Sentinel(Box<Sentinels>),
}

/// Sends each command to its node.
pub(crate) struct Router {
    pub(crate) common: Arc<Common>,
    source: Arc<Source>,
    /// Read by every call, replaced whole by `refresh`.
    topology: Arc<RwLock<Arc<Topology>>>,
    /// The lookup of the table that is under way.
    refreshing: SingleFlight<Result<(), Failure>>,
}

/// A node, and the commands of a round that go there, with their places in the call.
type Group<'a> = (&'a Arc<Node>, Vec<(usize, &'a Command)>);

/// The next step after an answer.
enum Next {
    /// The answer stands.
    Done,
    /// The command was not executed. It is sent again, by the new table.
    Again,
    /// The command was not executed. It is sent to this node, with ASKING.
    Ask(Arc<Node>),
}

impl Router {
    /// Finds the nodes.
    pub(crate) async fn open(addresses: Addresses, common: Arc<Common>) -> Result<Self, Failure> {
        let (source, topology) = match addresses {
            Addresses::Server(info) => (
                Source::Server,
                Topology::of_one(0, Node::new(info, &common)?),
            ),
            Addresses::Cluster(seeds) => (Source::Cluster(seeds), Topology::default()),
            Addresses::Sentinel {
                sentinels,
                master,
                server,
            } => (
                Source::Sentinel(Box::new(Sentinels::new(sentinels, master, server))),
                Topology::default(),
            ),
        };
        let topology = Arc::new(RwLock::new(Arc::new(topology)));
        let router = Self {
            common,
            source: Arc::new(source),
            topology,
            refreshing: SingleFlight::default(),
        };
        router.refresh(0).await?;
        Ok(router)
    }

    /// All nodes known now.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology().nodes.clone()
    }

    /// The address of a node, for messages.
    pub(crate) fn address(&self) -> String {
        self.topology()
            .nodes
            .first()
            .map(|node| node.name.clone())
            .unwrap_or_default()
    }

    /// The number of the database that calls use on each node.
    pub(crate) fn database_number(&self) -> u32 {
        let number = self
            .topology()
            .nodes
            .first()
            .map(|node| node.info.redis_settings().db());
        number
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or_default()
    }

    /// Whether a cluster or Sentinels name the servers.
    pub(crate) fn is_named(&self) -> bool {
        !matches!(*self.source, Source::Server)
    }

    /// Sends commands, one pipeline to each node, all at once. With `together`, either all commands
    /// are sent again or none. So the last one is always answered after the others.
    pub(crate) async fn send(&self, commands: &[Command], together: bool) -> Vec<Answer> {
        let mut answers: Vec<Answer> = commands.iter().map(|_| Err(Failure::Unverified)).collect();
        let mut pending: Vec<(usize, Option<Arc<Node>>)> =
            (0..commands.len()).map(|index| (index, None)).collect();
        let until = Instant::now() + self.common.patience();
        for attempt in 0..tries::SENDS {
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
            if self.moves() && (hung || redirected) {
                // A failure to refresh shows in the next attempt, or not at all.
                let _ = self.refresh(topology.generation).await;
            }
            if again.is_empty() || attempt + 1 == tries::SENDS || Instant::now() > until {
                break;
            }
            let now = self.topology();
            let mut anew = again
                .iter()
                .filter(|(_, ask)| ask.is_none())
                .filter_map(|(index, _)| commands.get(*index));
            let some_stay = anew.any(|command| now.serves_as(&topology, command.slot));
            if let Some(pause) = pause(attempt, some_stay) {
                sleep(pause).await;
            }
            pending = if together {
                (0..commands.len()).map(|index| (index, None)).collect()
            } else {
                again
            };
        }
        answers
    }

    /// Sends one command without a barrier, once. This is the hot path. `None` if the command was
    /// not executed, and [`Router::send`] must send it again.
    pub(crate) async fn send_once(&self, command: &Command) -> Option<Answer> {
        let topology = self.topology();
        let node = topology.nodes.get(topology.node_of(command.slot)?)?;
        let answer = node.single(command).await;
        if self.moves() && matches!(answer, Err(Failure::TimedOut)) && node.is_hung() {
            // A failure to refresh shows in the next call, or not at all.
            let _ = Box::pin(self.refresh(topology.generation)).await;
        }
        matches!(self.next(&answer, &topology), Next::Done).then_some(answer)
    }

    /// Sends the pending commands, once.
    async fn round(
        &self,
        topology: &Topology,
        commands: &[Command],
        pending: &[(usize, Option<Arc<Node>>)],
    ) -> Vec<(usize, Answer)> {
        let mut groups: BTreeMap<(usize, bool, Option<Durability>), Group<'_>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(pending.len());
        for (index, ask) in pending {
            let Some(command) = commands.get(*index) else {
                continue;
            };
            let home = topology
                .node_of(command.slot)
                .and_then(|at| Some((at, topology.nodes.get(at)?)));
            let group = match (ask, home) {
                (Some(node), _) => ((Arc::as_ptr(node).addr(), true), node),
                (None, Some((at, node))) => ((at, false), node),
                (None, None) => {
                    answers.push((
                        *index,
                        Err(Failure::server("CLUSTERDOWN", "no node serves the slot")),
                    ));
                    continue;
                }
            };
            let (node, asking) = group.0;
            let until = command.barrier.as_ref().map(|barrier| barrier.until);
            groups
                .entry((node, asking, until))
                .or_insert_with(|| (group.1, Vec::new()))
                .1
                .push((*index, command));
        }
        let sent = groups
            .into_iter()
            .map(|((_, asking, until), (node, members))| async move {
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
            // The connection has been retired. The next one loads the scripts.
            Err(Failure::Server { code, .. }) if code == "NOSCRIPT" => Next::Again,
            Err(Failure::NoConnection(_)) if self.moves() => Next::Again,
            Err(Failure::Server { code, text }) if self.moves() => match code.as_str() {
                "ASK" => self.asked(text, topology).map_or(Next::Again, Next::Ask),
                "MOVED" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" | "LOADING" => {
                    Next::Again
                }
                _ => Next::Done,
            },
            _ => Next::Done,
        }
    }

    /// Whether another node may take over.
    fn moves(&self) -> bool {
        !matches!(*self.source, Source::Server)
    }

    /// The node that an ASK names: "slot host:port".
    fn asked(&self, text: &str, topology: &Topology) -> Option<Arc<Node>> {
        let (host, port) = text.split_whitespace().nth(1)?.rsplit_once(':')?;
        let info = address::sibling(&topology.nodes.first()?.info, host, port.parse().ok()?);
        topology.node_at(info, &self.common).ok()
    }

    /// Finds the nodes again, unless another caller did so since `generation`.
    async fn refresh(&self, generation: u64) -> Result<(), Failure> {
        let (source, common, topology) = (
            self.source.clone(),
            self.common.clone(),
            self.topology.clone(),
        );
        let look = || async move {
            let known = current(&topology);
            if known.generation > generation {
                return Ok(());
            }
            let found = match &*source {
                Source::Server => return Ok(()),
                Source::Cluster(seeds) => cluster::look(seeds, &known, &common).await?,
                Source::Sentinel(sentinels) => sentinels.look(&known, &common).await?,
            };
            *topology.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
            Ok(())
        };
        let ended = || {
            Err(Failure::NoConnection(
                "the search for the nodes ended".to_owned(),
            ))
        };
        self.refreshing
            .join(self.common.patience() * 2, look)
            .await
            .unwrap_or_else(ended)
    }

    /// Asks the Sentinels whether the master is still the master. A server or a cluster reports
    /// such a change by itself. A master that is cut off from its Sentinels does not know of it.
    ///
    /// # Errors
    /// The Sentinels do not answer, or know no master. The master that was found before stays in
    /// use.
    pub(crate) async fn ask_again(&self) -> Result<(), Failure> {
        match &*self.source {
            Source::Sentinel(_) => self.refresh(self.topology().generation).await,
            Source::Server | Source::Cluster(_) => Ok(()),
        }
    }

    fn topology(&self) -> Arc<Topology> {
        current(&self.topology)
    }
}

/// How long to wait before the next attempt. The second attempt does not wait, since an old table
/// may have been the reason. An attempt does not wait either if all commands go to other nodes now,
/// as after a failover.
fn pause(attempt: u32, some_stay: bool) -> Option<Duration> {
    (attempt > 0 && some_stay).then(|| Duration::from_millis(5 << attempt).min(PAUSE_MAX))
}

fn current(topology: &RwLock<Arc<Topology>>) -> Arc<Topology> {
    topology
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.topology().nodes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_where_a_node_is_asked_again() {
        let milliseconds = |attempt| pause(attempt, true).map(|pause| pause.as_millis());
        assert_eq!([0, 1, 2].map(milliseconds), [None, Some(10), Some(20)]);
        assert_eq!(
            [3, 4, tries::SENDS].map(milliseconds),
            [Some(40), Some(80), Some(80)]
        );
        assert_eq!(pause(3, false), None);
    }
}
