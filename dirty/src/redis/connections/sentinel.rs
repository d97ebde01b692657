//! The master that Sentinels name.
//!
//! All Sentinels of the URL are asked at once, each with a time limit. The address that most of
//! them name is believed. So a Sentinel that hangs costs no time, and a Sentinel that was cut off
//! from the others does not lead to a replaced master. In a tie the known master is kept, and a
//! process that knows none waits. Each new connection checks that the server is a master, as with
//! any server. A replica is never read.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redis::aio::ConnectionLike;
use redis::{Client, ConnectionInfo};
use tokio::time::timeout;

use super::address;
use super::common::Common;
use super::topology::Topology;
use crate::redis::error::Failure;
use crate::redis::reply;

/// The Sentinels of one master.
pub(crate) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    master: String,
    /// The settings of a connection to the master, without the address.
    server: ConnectionInfo,
}

/// Host and port.
type Address = (String, u16);

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<ConnectionInfo>,
        master: String,
        server: ConnectionInfo,
    ) -> Self {
        Self {
            sentinels,
            master,
            server,
        }
    }

    /// The table after `known`: the master alone.
    pub(crate) async fn look(
        &self,
        known: &Topology,
        common: &Arc<Common>,
    ) -> Result<Topology, Failure> {
        let is_known = |(host, port): &Address| {
            let name = address::label(&address::sibling(&self.server, host, *port));
            known.nodes.iter().any(|old| old.name == name)
        };
        let (host, port) = self.vote(common, is_known).await?;
        let node = known.node_at(address::sibling(&self.server, &host, port), common)?;
        if !known.nodes.iter().any(|old| old.name == node.name) {
            tracing::info!(master = %self.master, node = %node.name, "the Sentinels name this server as the master");
        }
        Ok(Topology::of_one(known.generation + 1, node))
    }

    /// The address that most of the Sentinels name. In a tie, the known one.
    async fn vote(
        &self,
        common: &Common,
        is_known: impl Fn(&Address) -> bool,
    ) -> Result<Address, Failure> {
        let mut asked: FuturesUnordered<_> = self
            .sentinels
            .iter()
            .map(|info| self.ask(info, common))
            .collect();
        let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
        let (mut unknown, mut failures) = (0_usize, Vec::new());
        while let Some((sentinel, answer)) = asked.next().await {
            match answer {
                Ok(Some(address)) => {
                    let count = votes.entry(address.clone()).or_default();
                    *count += 1;
                    if *count > self.sentinels.len() / 2 {
                        return Ok(address);
                    }
                }
                Ok(None) => unknown += 1,
                Err(failure) => failures.push((sentinel, failure)),
            }
        }
        let most = votes.values().copied().max().unwrap_or_default();
        let mut named: Vec<Address> = votes
            .into_iter()
            .filter(|(_, count)| *count == most)
            .map(|(address, _)| address)
            .collect();
        if named.len() > 1 {
            let all = named
                .iter()
                .map(|(host, port)| format!("{host}:{port}"))
                .collect::<Vec<_>>()
                .join(" and ");
            named.retain(is_known);
            return named.pop().ok_or_else(|| {
                Failure::NoConnection(format!("equally many Sentinels name {all} as the master"))
            });
        }
        match named.pop() {
            Some(address) => Ok(address),
            None if unknown > 0 => Err(Failure::Settings(format!(
                "no Sentinel knows a master called {:?}",
                self.master
            ))),
            None => Err(no_answer(failures)),
        }
    }

    /// The name of a Sentinel, and its answer.
    async fn ask(
        &self,
        info: &ConnectionInfo,
        common: &Common,
    ) -> (String, Result<Option<Address>, Failure>) {
        let answer = timeout(common.patience(), self.exchange(info, common)).await;
        (
            address::label(info),
            answer.unwrap_or(Err(Failure::TimedOut)),
        )
    }

    async fn exchange(
        &self,
        info: &ConnectionInfo,
        common: &Common,
    ) -> Result<Option<Address>, Failure> {
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        common.pass(&["sentinel"]).await?;
        let mut connection = Client::open(info.clone())?
            .get_multiplexed_async_connection_with_config(&common.connection_config())
            .await?;
        let value = connection.req_packed_command(&cmd).await?;
        common.passed(&["sentinel"]).await?;
        if value == redis::Value::Nil {
            return Ok(None);
        }
        let [host, port] = reply::array(value.extract_error()?)?;
        Ok(Some((reply::text(host)?, reply::number(port)?)))
    }
}

/// Why no Sentinel gave an answer. A rejected login says more than a Sentinel that can't be
/// reached.
fn no_answer(failures: Vec<(String, Failure)>) -> Failure {
    let refused = |failure: &Failure| matches!(failure, Failure::Server { code, .. } if matches!(code.as_str(), "NOAUTH" | "WRONGPASS"));
    if let Some((sentinel, _)) = failures.iter().find(|(_, failure)| refused(failure)) {
        let text = format!(
            "the Sentinel {sentinel} refused user or password, which are its own: sentinel-user and sentinel-pass"
        );
        return Failure::server("WRONGPASS", &text);
    }
    let each: Vec<String> = failures
        .into_iter()
        .map(|(sentinel, failure)| format!("{sentinel}: {}", failure.text()))
        .collect();
    Failure::NoConnection(format!("no Sentinel answers ({})", each.join("; ")))
}
