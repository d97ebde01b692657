//! The hot tier on Redis 7.0 or later, or Valkey 7.2 or later: one server, a master with Sentinels,
//! or a cluster.
//!
//! | module | concept |
//! | --- | --- |
//! | `options` | [`RedisOptions`]: where the server is, and how it is used |
//! | `connections` | the servers, their connections, and the way of a command to one of them |
//! | `scripts` | the scripts under `dirty/src/lua`, and a function for the call of each |
//! | `writes` | writes that go together, the numbers of their calls, and the answer to each |
//! | `operations` | the traits of the contract, by concern |
//! | `error`, `reply` | failures and answers |
//!
//! Nearly every item of a call is one command, and an observation is three. The commands of a call
//! go in one pipeline to each node, over a few connections that all calls share. A call with only
//! warm items costs one round trip.

mod connections;
mod error;
#[cfg(test)]
mod fuzz;
mod operations;
mod options;
mod reply;
mod scripts;
#[doc(hidden)]
pub mod writes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use storage_model::{Owner, Partition};

pub use self::connections::transport::{Broken, Dial, Gate, Stream};
pub use self::options::RedisOptions;

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
    /// The name under which records keep the calls of this store. No other store has it, not even
    /// one that was opened before.
    name: Arc<str>,
    clean_ttl: Duration,
    absent_ttl: Duration,
}

impl RedisStore {
    /// Connects, loads the scripts and checks the server. Of a cluster it checks the masters that
    /// can be reached. The others are checked once they can be reached.
    ///
    /// # Errors
    /// `Settings`: the URL, the certificates, the prefix or the partition count can't work, or the
    /// server is too old. `Unavailable`, `Interrupted`, `Denied`: the server can't be reached or
    /// used.
    ///
    /// # Cancel safety
    /// A cancelled opening leaves nothing behind.
    pub async fn open(options: RedisOptions) -> Result<Self, HotError> {
        const OPERATION: &str = "open";
        let failed = |failure| hot_error(failure, OPERATION, false, None);
        check(&options).map_err(failed)?;
        let addresses = Addresses::of(&options).map_err(failed)?;
        // Boxed, so that callers' futures do not grow by this one. The compiler limits the depth of
        // futures, and callers need that limit for themselves.
        let router = Box::pin(Router::open(addresses, Common::new(&options)))
            .await
            .map_err(failed)?;
        let store = Self {
            router: Arc::new(router),
            space: Arc::new(Space::new(&options.prefix, options.partitions)),
            guard: Arc::new(Guard::new(options.partitions)),
            queues: Arc::new(Queues::new(options.partitions)),
            stores: Arc::new(Stores::default()),
            name: format!("{}{}", key::STORE, options.ids.next()).into(),
            clean_ttl: options.clean_ttl,
            absent_ttl: options.absent_ttl,
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

fn check(options: &RedisOptions) -> Result<(), Failure> {
    let RedisOptions {
        prefix, partitions, ..
    } = options;
    if prefix.is_empty()
        || prefix.contains(|letter: char| matches!(letter, '{' | '}') || letter.is_control())
    {
        return Err(Failure::Settings(format!(
            "the prefix {prefix:?} must not be empty, and must have no braces or control characters"
        )));
    }
    match partitions {
        1..=65_536 => Ok(()),
        other => Err(Failure::Settings(format!(
            "{other} partitions are not possible; use 1 to 65536"
        ))),
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("nodes", &self.router)
            .field("partitions", &self.space.partitions())
            .finish()
    }
}
