//! The hosts of a service.

use std::fmt;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;

/// Where the hosts of a service come from. They are asked for again at each refresh.
///
/// ```
/// use storage_shard_read::Hosts;
/// let fixed = Hosts::list(["10.0.0.1:7000", "10.0.0.2:7000"]);
/// let named = Hosts::dns("goals.internal:7000"); // all addresses of the name
/// ```
#[derive(Debug, Clone)]
pub struct Hosts(pub(crate) Arc<dyn HostSource>);

/// Tells the hosts of a service.
#[async_trait]
pub trait HostSource: fmt::Debug + Send + Sync + 'static {
    /// The addresses of all hosts, each as `host:port`. An empty list is no answer: the client keeps the last one.
    ///
    /// # Errors
    /// They can't be told now. The client keeps the last list.
    async fn hosts(&self) -> io::Result<Vec<String>>;
}

impl Hosts {
    /// These hosts, each as `host:port`.
    pub fn list<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Self {
        Self::of(List(addresses.into_iter().map(Into::into).collect()))
    }

    /// All addresses of a name, as `name:port`.
    pub fn dns(name: impl Into<String>) -> Self {
        Self::of(Dns(name.into()))
    }

    /// The hosts that this source tells.
    pub fn of(source: impl HostSource) -> Self {
        Self(Arc::new(source))
    }
}

#[derive(Debug)]
struct List(Vec<String>);

#[async_trait]
impl HostSource for List {
    async fn hosts(&self) -> io::Result<Vec<String>> {
        Ok(self.0.clone())
    }
}

#[derive(Debug)]
struct Dns(String);

#[async_trait]
impl HostSource for Dns {
    async fn hosts(&self) -> io::Result<Vec<String>> {
        let found = tokio::net::lookup_host(&self.0).await?;
        Ok(found.map(|address| address.to_string()).collect())
    }
}
