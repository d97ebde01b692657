//! The hot tier on Redis 7.0 or later, or Valkey 7.2 or later: one server, a master with Sentinels,
//! or a cluster.
//!
//! | module | concept |
//! | --- | --- |
//! | `hooks` | [`Hooks`]: the parts of a store that tests replace |
//! | `connections` | the servers, their connections, and the way of a command to one of them |
//! | `scripts` | the scripts under `dirty/src/lua`, and a function for the call of each |
//! | `writes` | writes that go together, the numbers of their calls, and the answer to each |
//! | `operations` | the traits of the contract, by concern |
//! | `error`, `reply` | failures and answers |
//!
//! Nearly every item of a call is one command, and an observation is three. The commands of a call
//! go in one pipeline to each node, over a few connections that all calls share. A call with only
//! warm items costs one round trip.

pub(crate) mod connections;
pub(crate) mod error;
#[cfg(test)]
mod fuzz;
mod hooks;
mod operations;
mod reply;
mod scripts;
#[doc(hidden)]
pub mod writes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use storage_config::{ConfigError, HotSettings, RedisSettings};
use storage_model::{Owner, Partition};

pub use self::connections::transport::{Dial, Stream};
pub use self::hooks::Hooks;
pub use storage_model::{Broken, Intercept};

use self::connections::address::Addresses;
use self::connections::common::Common;
use self::connections::guard::Guard;
use self::connections::router::Router;
use self::connections::space::Space;
use self::connections::transport::Command;
use self::error::{Failure, hot_error};
use self::operations::forget::Stores;
use self::writes::queue::Queues;
use crate::{HotError, key};

/// The hot tier on Redis. Clones are cheap. They share the connections, which close when the last
/// clone is dropped.
#[derive(Clone)]
pub struct RedisStore {
    router: Arc<Router>,
    space: Arc<Space>,
    guard: Arc<Guard>,
    queues: Arc<Queues>,
    stores: Arc<Stores>,
    clean_ttl: Duration,
    absent_ttl: Duration,
    /// How long the marker of a hash stays. `None` if absence is trusted.
    marker_ttl: Option<Duration>,
}

impl RedisStore {
    /// Connects, loads the scripts and checks the server. Of a cluster it checks the masters that
    /// can be reached. The others are checked once they can be reached.
    ///
    /// # Errors
    /// `Settings`: a value of the section `redis` is not allowed, the certificates can't be used,
    /// or the server is too old. `Unavailable`, `Interrupted`, `Denied`: the server can't be
    /// reached or used.
    ///
    /// # Cancel safety
    /// A cancelled opening leaves nothing behind.
    pub async fn open(redis: &RedisSettings, hot: &HotSettings) -> Result<Self, HotError> {
        Self::open_as(redis, hot, Hooks::default(), false).await
    }

    /// As [`RedisStore::open`], for reading only. Commands that would write are rejected before
    /// they are sent. If another server made the record of a partition, its hashes are read as
    /// suspect.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    ///
    /// # Cancel safety
    /// As [`RedisStore::open`].
    pub async fn open_for_reading(
        redis: &RedisSettings,
        hot: &HotSettings,
    ) -> Result<Self, HotError> {
        Self::open_as(redis, hot, Hooks::default(), true).await
    }

    /// As [`RedisStore::open`], with the parts that a test replaces.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    ///
    /// # Cancel safety
    /// As [`RedisStore::open`].
    pub async fn open_through(
        redis: &RedisSettings,
        hot: &HotSettings,
        hooks: Hooks,
    ) -> Result<Self, HotError> {
        Self::open_as(redis, hot, hooks, false).await
    }

    async fn open_as(
        redis: &RedisSettings,
        hot: &HotSettings,
        hooks: Hooks,
        read_only: bool,
    ) -> Result<Self, HotError> {
        const OPERATION: &str = "open";
        let failed = |failure| hot_error(failure, OPERATION, false, None);
        let invalid = |error: ConfigError| failed(Failure::Settings(error.to_string()));
        redis.validate().map_err(invalid)?;
        let addresses = Addresses::of(redis).map_err(failed)?;
        let name = || format!("{}{}", key::STORE, hooks.ids.next());
        let names = [name(), name()];
        // Boxed, so that callers' futures do not grow by this one. The compiler limits the depth of
        // futures, and callers need that limit for themselves.
        let router = Box::pin(Router::open(
            addresses,
            Common::new(redis, hooks, read_only),
        ))
        .await
        .map_err(failed)?;
        let store = Self {
            router: Arc::new(router),
            space: Arc::new(Space::new(&redis.prefix, redis.partitions)),
            guard: Arc::new(Guard::new(redis.partitions)),
            queues: Arc::new(Queues::new(redis.partitions, names)),
            stores: Arc::new(Stores::default()),
            clean_ttl: hot.clean_ttl,
            absent_ttl: hot.absent_ttl,
            marker_ttl: hot.hash_marker_ttl(),
        };
        let checked = store.recheck().await;
        // A policy that may evict unlanded data keeps no worker from landing. `check` is for
        // writers.
        let is_there =
            |checked: &Result<(), Failure>| matches!(checked, Ok(()) | Err(Failure::Policy(_)));
        let is_away =
            |checked: &Result<(), Failure>| matches!(checked, Err(Failure::NoConnection(_)));
        let some = checked.iter().any(is_there);
        let bad = checked
            .into_iter()
            .filter(|checked| !(is_there(checked) || some && is_away(checked)));
        bad.collect::<Result<(), _>>().map_err(failed)?;
        Ok(store)
    }

    async fn recheck(&self) -> Vec<Result<(), Failure>> {
        let nodes = self.router.nodes();
        futures::future::join_all(nodes.iter().map(|node| node.recheck())).await
    }

    async fn check_nodes(&self, operation: &'static str) -> Result<(), HotError> {
        let checked: Result<(), Failure> = self.recheck().await.into_iter().collect();
        checked.map_err(|failure| hot_error(failure, operation, false, None))
    }

    /// Sends one command and reads its answer.
    async fn one<T>(
        &self,
        operation: &'static str,
        partition: Option<Partition>,
        command: Command,
        decode: impl FnOnce(Value) -> Result<T, Failure>,
    ) -> Result<T, HotError> {
        let writes = command.writes;
        let answer = self
            .router
            .send(&[command], false)
            .await
            .pop()
            .unwrap_or(Err(Failure::TimedOut));
        answer
            .and_then(decode)
            .map_err(|failure| hot_error(failure, operation, writes, partition))
    }

    /// Sends one command for each partition and reads their answers.
    fn each_partition<T>(
        &self,
        operation: &'static str,
        partitions: &[Partition],
        command: impl Fn(Partition) -> Command,
        decode: impl Fn(Value) -> Result<T, Failure>,
    ) -> impl Future<Output = Vec<Result<T, HotError>>> {
        let commands = partitions.iter().map(|at| command(*at)).collect();
        self.each(operation, partitions, commands, decode)
    }

    /// Sends one command for each owner and reads their answers.
    fn each_owner<T>(
        &self,
        operation: &'static str,
        owners: &[Owner],
        command: impl Fn(&Owner) -> Command,
        decode: impl Fn(Value) -> Result<T, Failure>,
    ) -> impl Future<Output = Vec<Result<T, HotError>>> {
        let partitions = self.space.partitions_of(owners);
        let commands = owners.iter().map(command).collect();
        async move { self.each(operation, &partitions, commands, decode).await }
    }

    /// Sends one command for each named partition and reads their answers.
    async fn each<T>(
        &self,
        operation: &'static str,
        partitions: &[Partition],
        commands: Vec<Command>,
        decode: impl Fn(Value) -> Result<T, Failure>,
    ) -> Vec<Result<T, HotError>> {
        let writes = commands.iter().any(|command| command.writes);
        let answers = self.router.send(&commands, false).await;
        hot_errors(
            operation,
            writes,
            partitions,
            answers.into_iter().map(|answer| answer.and_then(&decode)),
        )
    }
}

/// The results of a call, each with the partition that it concerns.
fn hot_errors<T>(
    operation: &'static str,
    writes: bool,
    partitions: &[Partition],
    results: impl IntoIterator<Item = Result<T, Failure>>,
) -> Vec<Result<T, HotError>> {
    let named = results.into_iter().zip(partitions);
    named
        .map(|(result, partition)| {
            result.map_err(|failure| hot_error(failure, operation, writes, Some(*partition)))
        })
        .collect()
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("nodes", &self.router)
            .field("partitions", &self.space.partitions())
            .finish()
    }
}
