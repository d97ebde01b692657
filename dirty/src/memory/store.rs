//! The engine, its limit, and access for tests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use storage_coalesce::locked;
use storage_config::{HotSettings, HotUrl, RedisSettings};
use storage_model::{Clock, Owner, Partition, RandomIds, SystemClock, Timestamp, Token};

use super::invariant;
use super::state::{PartState, Present};
use crate::{HotError, HotKind, HotPaired, MemoryUse};

/// The hot tier in the memory of this process. It is as durable as the process.
pub struct MemoryStore {
    /// The name of its world, like the prefix of keys in Redis.
    prefix: String,
    /// The number of partitions, at least 1.
    partitions: u32,
    /// How long landed data stays after its last use.
    clean_ttl: Duration,
    /// How long the store remembers that the cold tier has no row of an owner.
    absent_ttl: Duration,
    /// How long the marker of a hash stays. `None` if absence is trusted.
    marker_ttl: Option<Duration>,
    clock: Arc<dyn Clock>,
    // One lock a partition. A transition touches one partition, takes microseconds and never waits
    // for anything else.
    parts: Vec<Mutex<PartState>>,
    bytes_max: AtomicUsize,
    // The bytes of all partitions. The holder of a partition's lock updates them.
    bytes: AtomicUsize,
    // Announced workers and when their announcements run out.
    pub(super) workers: Mutex<BTreeMap<String, Timestamp>>,
    incarnations: AtomicU64,
    /// Tells this store from those of other processes. Their incarnations have the same names.
    name: Token,
    /// The database that the store belongs to. Held for a look or a change.
    pub(super) paired: Mutex<Option<HotPaired>>,
}

/// A copy of the content of a [`MemoryStore`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryState(Vec<PartState>);

impl MemoryState {
    /// The violated invariant in one line. `None` if all hold.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        self.0.iter().find_map(invariant::violation)
    }

    /// When an owner's hash expires. `None` without a hash, `Some(None)` without a time to live.
    #[must_use]
    pub fn end_of(&self, owner: &Owner) -> Option<Option<Timestamp>> {
        self.0
            .iter()
            .find_map(|part| part.hashes.get(owner))
            .map(|hash| hash.expires)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("prefix", &self.prefix)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

/// A store with the default settings, on the clock of the machine.
impl Default for MemoryStore {
    fn default() -> Self {
        let redis = RedisSettings::new(HotUrl::Memory);
        Self::new(&redis, &HotSettings::default(), Arc::new(SystemClock))
    }
}

impl MemoryStore {
    /// An empty store without a limit. All of its time comes from `clock`. Of `redis` it uses
    /// `prefix` and `partitions`.
    #[must_use]
    pub fn new(redis: &RedisSettings, hot: &HotSettings, clock: Arc<dyn Clock>) -> Self {
        let partitions = redis.partitions.max(1);
        let name = incarnation(0);
        let parts = (0..partitions)
            .map(|_| Mutex::new(PartState::blank(name.clone())))
            .collect();
        Self {
            prefix: redis.prefix.clone(),
            partitions,
            clean_ttl: hot.clean_ttl,
            absent_ttl: hot.absent_ttl,
            marker_ttl: hot.hash_marker_ttl(),
            clock,
            bytes_max: AtomicUsize::new(usize::MAX),
            parts,
            bytes: AtomicUsize::new(0),
            workers: Mutex::default(),
            incarnations: AtomicU64::new(0),
            name: Token::draw(&RandomIds),
            paired: Mutex::default(),
        }
    }

    /// The name of its world, like the prefix of keys in Redis.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The number of partitions.
    pub(super) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The approximate bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The memory in use. `None` without a limit, or while landed data is left to evict.
    pub(super) fn taken(&self) -> Option<MemoryUse> {
        let limit = self.bytes_max.load(Ordering::Relaxed);
        let evicts = || {
            self.parts
                .iter()
                .any(|part| locked(part).hashes.coldest(None).is_some())
        };
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        (limit < usize::MAX && !evicts()).then(|| MemoryUse {
            server: self.server(),
            used: bytes(self.bytes()),
            limit: bytes(limit),
            evictions: None,
        })
    }

    /// Limits the bytes of all partitions to about `bytes_max`. Landed data above the limit goes
    /// with the next mutation or fill, the least recently used first. When none is left, mutations
    /// fail as `OutOfMemory`. Calls of a worker still work. `usize::MAX` is no limit.
    pub fn limit(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Gives the store a new incarnation and keeps all data, as a restart or a failover does. All
    /// partitions must then be adopted.
    pub fn replace_incarnation(&self) {
        let name = self.next_incarnation();
        self.all()
            .iter_mut()
            .for_each(|part| part.move_to(name.clone()));
    }

    /// Deletes an owner's hash, as somebody might by hand, whether its data has landed or not.
    pub fn lose(&self, owner: &Owner) {
        drop(self.run_for(owner, "lose", |state, _, _| state.lose(owner)));
    }

    /// Drops an owner's marker, as an eviction might.
    pub fn lose_marker(&self, owner: &Owner) {
        drop(self.run_for(owner, "lose_marker", |state, _, _| {
            state.lose_marker(owner);
        }));
    }

    /// Forgets everything but the incarnation, as FLUSHALL does.
    pub fn wipe(&self) {
        let mut parts = self.all();
        parts
            .iter_mut()
            .for_each(|part| **part = PartState::new(part.incarnation.clone()));
        locked(&self.workers).clear();
        *locked(&self.paired) = None;
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// A copy of everything at this moment.
    #[must_use]
    pub fn clone_state(&self) -> MemoryState {
        MemoryState(self.all().iter().map(|part| (**part).clone()).collect())
    }

    /// Goes back to an older copy under a new incarnation, like a failover to a replica that
    /// lagged. Partitions that the copy lacks become empty.
    pub fn restore(&self, copy: MemoryState) {
        let name = self.next_incarnation();
        let mut parts = self.all();
        let mut old = copy.0.into_iter();
        for part in &mut parts {
            **part = old.next().unwrap_or_else(|| PartState::new(name.clone()));
            part.move_to(name.clone());
        }
        self.bytes.store(
            parts.iter().map(|part| part.bytes()).sum(),
            Ordering::Relaxed,
        );
    }

    /// Runs a transition on a partition.
    pub(super) fn run<T>(
        &self,
        partition: Partition,
        operation: &'static str,
        transition: impl FnOnce(&mut PartState, &Present) -> T,
    ) -> Result<T, HotError> {
        let mut state = self.part(partition, operation)?;
        let before = state.bytes();
        let elsewhere = self.bytes().saturating_sub(before);
        let present = Present {
            now: self.clock.now(),
            hash_ttl: self.clean_ttl,
            absent_ttl: self.absent_ttl,
            marker_ttl: self.marker_ttl,
            bytes_max: self
                .bytes_max
                .load(Ordering::Relaxed)
                .saturating_sub(elsewhere),
        };
        state.sweep(present.now);
        let out = transition(&mut state, &present);
        self.bytes
            .fetch_add(state.bytes().wrapping_sub(before), Ordering::Relaxed);
        Ok(out)
    }

    /// As [`Self::run`], on the partition of an owner.
    pub(super) fn run_for<T>(
        &self,
        owner: &Owner,
        operation: &'static str,
        transition: impl FnOnce(&mut PartState, &Present, Partition) -> T,
    ) -> Result<T, HotError> {
        let partition = owner.partition(self.partitions);
        self.run(partition, operation, |state, present| {
            transition(state, present, partition)
        })
    }

    /// The name of the server, which changes with the incarnation.
    pub(super) fn server(&self) -> String {
        format!(
            "{} of {}",
            incarnation(self.incarnations.load(Ordering::Relaxed)),
            self.name
        )
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn part(
        &self,
        partition: Partition,
        operation: &'static str,
    ) -> Result<MutexGuard<'_, PartState>, HotError> {
        let part = usize::try_from(partition.0)
            .ok()
            .and_then(|index| self.parts.get(index));
        part.map(locked).ok_or_else(|| {
            let message = format!(
                "there is no partition {partition}; the store has {} partitions",
                self.partitions
            );
            HotError::not_applied(HotKind::Settings, operation, message)
        })
    }

    // Always in the same order, so that two such calls can't wait for each other.
    fn all(&self) -> Vec<MutexGuard<'_, PartState>> {
        self.parts.iter().map(locked).collect()
    }

    fn next_incarnation(&self) -> Arc<str> {
        incarnation(self.incarnations.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn incarnation(number: u64) -> Arc<str> {
    Arc::from(format!("memory-{number}"))
}
