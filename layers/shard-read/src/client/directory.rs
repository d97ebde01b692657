//! All hosts that a client knows, and which of them hold a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::latency::Latency;
use super::routes::Routes;
use crate::ShardInfo;

/// The hosts of a service.
#[derive(Debug)]
pub(crate) struct Directory {
    endpoints: RwLock<Arc<Vec<Arc<Endpoint>>>>,
    /// How often it has changed. Callers that found no host for a key wait for the next change.
    changes: watch::Sender<u64>,
    routes: Mutex<(u64, Arc<Routes<Arc<Endpoint>>>)>,
    latencies: Mutex<HashMap<String, Arc<Latency>>>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            endpoints: RwLock::default(),
            changes: watch::Sender::new(0),
            routes: Mutex::new((0, Arc::new(Routes::new(&[])))),
            latencies: Mutex::default(),
        }
    }

    pub(crate) fn endpoints(&self) -> Arc<Vec<Arc<Endpoint>>> {
        let endpoints = self.endpoints.read();
        Arc::clone(&endpoints.unwrap_or_else(PoisonError::into_inner))
    }

    /// The hosts are these from now on.
    pub(crate) fn set(&self, endpoints: Vec<Arc<Endpoint>>) {
        let mut known = self
            .endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(endpoints);
        drop(known);
        self.changed();
    }

    fn changed(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Becomes ready at the next change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes what a reply to the request of this number tells of its host.
    pub(crate) fn heed(&self, endpoint: &Endpoint, number: u64, shard: &ShardInfo, now: Instant) {
        let latency = self.latency(&shard.dc);
        if endpoint.heed(number, shard, now, &latency) {
            self.changed();
        }
    }

    /// Forgets what a host holds that did not know the schema.
    pub(crate) fn forget(&self, endpoint: &Endpoint, number: u64) {
        if endpoint.forget(number) {
            self.changed();
        }
    }

    /// Forgets what hosts hold that have not replied since then.
    pub(crate) fn forget_silent(&self, number: u64, since: Instant) {
        for endpoint in self.endpoints().iter() {
            if endpoint.confirmed() < since {
                self.forget(endpoint, number);
            }
        }
    }

    pub(crate) fn latency(&self, dc: &str) -> Arc<Latency> {
        let mut latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match latencies.get(dc) {
            Some(latency) => Arc::clone(latency),
            None => Arc::clone(latencies.entry(dc.to_owned()).or_default()),
        }
    }

    /// Which hosts hold which keys now.
    pub(crate) fn routes(&self) -> Arc<Routes<Arc<Endpoint>>> {
        // ORDER: the number before the ranges. A change in between is seen by the next call.
        let number = *self.changes.borrow();
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.0 != number {
            let endpoints = self.endpoints();
            let ranges: Vec<_> = endpoints
                .iter()
                .filter_map(|endpoint| {
                    let shard = endpoint.shard()?;
                    let range = shard.range.filter(|_| shard.state.answers())?;
                    Some((range, Arc::clone(endpoint)))
                })
                .collect();
            *routes = (number, Arc::new(Routes::new(&ranges)));
        }
        Arc::clone(&routes.1)
    }
}
