//! Calls of many keys.
//!
//! | module | concept |
//! | --- | --- |
//! | `get` | a call as a program makes it |
//! | `call` | a call on its way: which hosts are asked, and when further ones |
//! | `core` | what all calls share: numbers of requests, budget, one request |
//! | `directory`, `endpoint`, `routes` | the map: which host holds which keys |
//! | `health`, `latency` | whether a host should get calls, and how long its data centre usually takes |
//! | `refresh`, `hosts` | keeping the map |
//! | `transport` | gRPC |

mod builder;
mod call;
mod core;
mod directory;
mod endpoint;
mod figures;
mod get;
mod health;
mod hosts;
mod latency;
mod refresh;
mod routes;
mod transport;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Schema, ShardInfo};

pub use builder::ClientBuilder;
pub use figures::ClientFigures;
pub use get::{Found, Get};
pub use hosts::{HostSource, Hosts};

use self::core::Core;

/// Which replicas a call asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// All replicas of all keys. The first answers win, and nothing is cancelled.
    All,
    /// One replica. Its keys also go to a second one, if the first takes longer than 95 % of requests do.
    #[default]
    Hedged,
    /// One replica. A second one only after a failure.
    One,
}

/// What a client knows of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostInfo {
    /// Its address.
    pub address: String,
    /// What it told last. None: it has told nothing, or is silent.
    pub shard: Option<ShardInfo>,
    /// Why its last request had no reply. None: it had one.
    pub fault: Option<String>,
    /// Whether calls pass it over, because it failed or is silent.
    pub is_ejected: bool,
}

/// A client of a service. Cheap to clone. Its refreshes end with the last clone.
pub struct Client<S> {
    core: Arc<Core>,
    mode: Mode,
    schema: PhantomData<fn() -> S>,
}

impl<S> Clone for Client<S> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            ..*self
        }
    }
}

impl<S> std::fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("schema", &self.core.messages.schema)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl<S: Schema> Client<S> {
    /// A client of the service at these hosts.
    #[must_use]
    pub fn builder(hosts: Hosts) -> ClientBuilder<S> {
        ClientBuilder::new(hosts)
    }

    /// The values of keys. Nothing is sent before the call is awaited.
    pub fn get(&self, keys: impl IntoIterator<Item = S::Key>) -> Get<'_, S> {
        Get::new(self, keys.into_iter().collect())
    }

    /// What the client knows of each host, for status and tests.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostInfo> {
        let now = tokio::time::Instant::now();
        let endpoints = self.core.directory.endpoints();
        let info = |endpoint: &Arc<endpoint::Endpoint>| HostInfo {
            address: endpoint.address.to_string(),
            shard: endpoint.shard(),
            fault: endpoint.fault().map(|fault| fault.to_string()),
            is_ejected: endpoint.is_out(now),
        };
        endpoints.iter().map(info).collect()
    }

    /// How many calls and requests the client has made.
    #[must_use]
    pub fn figures(&self) -> ClientFigures {
        self.core.figures.read()
    }
}
