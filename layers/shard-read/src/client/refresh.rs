//! Keeping the map: hosts are asked for anew, and endpoints that did not reply are asked what they hold.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep};

use super::core::Core;
use super::endpoint::Endpoint;
use super::hosts::Hosts;
use crate::GetRequest;

/// Early refreshes come at most this often.
const EARLY_EVERY: Duration = Duration::from_millis(100);
/// A host that has not answered by then is asked again at the next refresh.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// What a host holds is forgotten after so many refreshes without a reply.
const SILENT_REFRESHES: usize = 3;

/// Refreshes the map until the client is gone.
pub(crate) async fn run(core: Weak<Core>, hosts: Hosts, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    // The begins of the last refreshes.
    let mut rounds = VecDeque::with_capacity(SILENT_REFRESHES);
    loop {
        let begun = Instant::now();
        let Some(core) = core.upgrade() else {
            return;
        };
        learn_hosts(&core, &hosts).await;
        probe(&core, rounds.back().copied()).await;
        if rounds.len() == SILENT_REFRESHES {
            rounds.pop_front();
        }
        rounds.push_back(begun);
        if let (SILENT_REFRESHES, Some(first)) = (rounds.len(), rounds.front()) {
            core.directory.forget_silent(core.next_number(), *first);
        }
        let every = core.options.refresh_every;
        // Clients that started together do not ask together.
        let pause = every.mul_f64(chance.random_range(0.8..1.2));
        tokio::select! {
            () = sleep(pause) => {}
            () = core.early.notified() => {
                let next = begun + EARLY_EVERY;
                tokio::time::sleep_until(next).await;
            }
        }
    }
}

/// Asks for the hosts. Hosts that left go with their connections. A failure or an empty list keeps the last
/// one.
async fn learn_hosts(core: &Core, hosts: &Hosts) {
    let found = match hosts.0.hosts().await {
        Ok(found) if found.is_empty() => {
            tracing::warn!("there are no hosts in the new list: the last list stays");
            return;
        }
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the hosts can't be told: the last list stays");
            return;
        }
    };
    let known = core.directory.endpoints();
    let mut known: HashMap<&str, &Arc<Endpoint>> = known
        .iter()
        .map(|endpoint| (&*endpoint.address, endpoint))
        .collect();
    let before = known.len();
    let (mut next, mut is_new) = (Vec::with_capacity(found.len()), false);
    for address in &found {
        if let Some(endpoint) = known.remove(address.as_str()) {
            next.push(Arc::clone(endpoint));
        } else if next
            .iter()
            .all(|endpoint: &Arc<Endpoint>| *endpoint.address != **address)
        {
            match core.endpoint(address) {
                Ok(endpoint) => {
                    next.push(Arc::new(endpoint));
                    is_new = true;
                }
                Err(error) => tracing::warn!(%error, "a host is passed over"),
            }
        }
    }
    if is_new || next.len() != before {
        core.directory.set(next);
    }
}

/// Asks each endpoint that has not replied since the last refresh, all at once.
async fn probe(core: &Core, before: Option<Instant>) {
    let endpoints = core.directory.endpoints();
    let request = GetRequest::new(&*core.messages.schema);
    let until = Instant::now() + PROBE_MAX;
    let silent = endpoints.iter().filter(|endpoint| {
        let is_known = endpoint.shard().is_some();
        !is_known || before.is_none_or(|before| endpoint.confirmed() < before)
    });
    let probes = silent.map(|endpoint| core.ask(endpoint, &request, until));
    join_all(probes).await;
}
