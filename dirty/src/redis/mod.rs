//! The hot tier on Redis 7.0 or later, or Valkey 7.2 or later: one server, a master with Sentinels,
//! or a cluster.
//!
//! | module | concept |
//! | --- | --- |
//! | `options` | [`RedisOptions`]: where the server is, and how it is used |
//! | `connections` | the servers, their connections, and the way of a command to one of them |
//! | `scripts` | the scripts under `dirty/src/lua`, and a function for the call of each |
//! | `writes` | writes that go together, the numbers of their calls, and the answer to each |
//! | `operations` | the rest of the contract, by concern |
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

use async_trait::async_trait;
use redis::Value;
use storage_model::{Epoch, Fence, Field, Mutation, OpId, Owner, Partition, Timestamp, Version};

pub use self::connections::transport::{Dial, Stream};
pub use self::options::RedisOptions;
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
use crate::{
    Acquit, Adopt, Asked, Beats, ClaimSession, Claimed, Collected, Entry, ErrorEntry, Evicted,
    Filled, HotError, HotPaired, HotPairing, HotRead, HotStore, Load, Lock, Map, MemoryUse,
    Mutated, Observed, OpenSession, Opened, Page, Park, PartitionPeek, PartitionState, Probation,
    Read, Session, SessionStore, Settle, Settled, Snapshot,
};

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
            name: format!("w:{}", options.ids.next()).into(),
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

#[async_trait]
impl HotStore for RedisStore {
    fn partition_count(&self) -> u32 {
        self.space.partitions()
    }

    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>> {
        self.read_all(reads).await
    }

    async fn mutate(
        &self,
        mutations: &[(Mutation, Option<Load>)],
    ) -> Vec<Result<Mutated, HotError>> {
        self.mutate_all(mutations).await
    }

    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>> {
        self.observe_all(owners).await
    }

    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        self.fill_all(loads).await
    }

    async fn lease(&self, owners: &[Owner], ttl: Duration) -> Vec<Result<bool, HotError>> {
        self.lease_all(owners, ttl).await
    }

    async fn release(&self, owners: &[Owner]) -> Result<(), HotError> {
        self.release_all(owners).await
    }

    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>> {
        self.marked_all(owners, epoch).await
    }

    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>> {
        self.evict_all(owners).await
    }

    async fn touch(&self, owners: &[Owner]) -> Result<(), HotError> {
        self.touch_all(owners).await
    }

    async fn time(&self) -> Result<Timestamp, HotError> {
        self.server_time().await
    }

    async fn pairing(&self) -> Result<HotPairing, HotError> {
        self.read_pairing().await
    }

    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError> {
        self.write_pairing(seen, paired).await
    }

    async fn leave_layout(&self, seen: &HotPairing) -> Result<Vec<Partition>, HotError> {
        self.leave_layout_1(seen).await
    }

    async fn forget_calls(&self, partitions: &[Partition]) -> Result<(), HotError> {
        self.forget_stores(partitions).await
    }

    async fn check(&self) -> Result<(), HotError> {
        const OPERATION: &str = "check";
        let asked = self
            .router
            .ask_again()
            .await
            .map_err(|failure| hot_error(failure, OPERATION, false, None));
        self.check_nodes(OPERATION).await.and(asked)
    }

    async fn memory(&self) -> Result<Option<MemoryUse>, HotError> {
        self.memory_use().await
    }

    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>> {
        self.states(partitions).await
    }

    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>> {
        self.adopt_all(adopts).await
    }

    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError> {
        self.raise(partition, epoch, landed).await
    }

    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>> {
        self.peek_all(partitions).await
    }

    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        self.lock_all(partitions, lock, ttl).await
    }

    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        self.renew_all(partitions, lock, ttl).await
    }

    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>> {
        self.unlock_all(partitions, lock).await
    }

    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError> {
        self.take_snapshot(partition, lock).await
    }

    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError> {
        self.scan_page(partition, map, cursor, count).await
    }

    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError> {
        self.error_page(partition, cursor, count).await
    }

    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Collected, HotError> {
        self.collect_values(partition, wanted).await
    }

    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError> {
        self.settle_marks(settle).await
    }

    async fn park(&self, park: &Park) -> Result<Vec<bool>, HotError> {
        self.park_entries(park).await
    }

    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError> {
        self.look_at_probation(partition, lock).await
    }

    async fn acquit(&self, acquit: &Acquit) -> Result<u32, HotError> {
        self.acquit_marks(acquit).await
    }

    async fn relive(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError> {
        self.relive_marks(partition, lock, entries).await
    }

    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError> {
        self.announce_worker(worker, ttl).await
    }

    async fn retire(&self, worker: &str) -> Result<(), HotError> {
        self.retire_worker(worker).await
    }
}

#[async_trait]
impl SessionStore for RedisStore {
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError> {
        self.open_one(open).await
    }

    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError> {
        self.claim_one(claim).await
    }

    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError> {
        self.close_one(owner, fence).await
    }

    async fn ask_session(&self, owner: &Owner, fence: Fence, by: &str) -> Result<bool, HotError> {
        self.ask_one(owner, fence, by).await
    }

    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>> {
        self.look_at_sessions(owners).await
    }

    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        self.beat_all(partitions, raise).await
    }

    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>> {
        self.asked_of(partitions, holder).await
    }

    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.sessions_in(partition, false, |session| session.holder == holder)
            .await
    }

    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError> {
        self.lapse_holder(partition, holder, beat).await
    }

    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.sessions_in(partition, true, |_| true).await
    }

    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError> {
        self.forget_sessions(partition, sessions).await
    }

    async fn end_grace(&self, partition: Partition, epoch: Epoch) -> Result<bool, HotError> {
        self.grace_ends(partition, epoch).await
    }
}
