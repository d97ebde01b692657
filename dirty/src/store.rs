//! The contract of the hot tier.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Epoch, Field, Mutation, Owner, Partition, Timestamp, Version};

use crate::{
    Acquit, Adopt, Collected, Entry, ErrorEntry, Evicted, Filled, HotError, HotPaired, HotPairing,
    HotRead, Load, Lock, Map, MemoryUse, Mutated, Observed, Page, Park, PartitionPeek,
    PartitionState, Probation, Read, SessionStore, Settle, Settled, Snapshot,
};

/// Owner hashes, exist markers, dirty maps, snapshots, error maps, locks and partition records.
///
/// Two engines implement it, Redis (single server, Cluster) and memory; one conformance suite runs
/// over both. Calls take batches; the results come in the order asked, one for each item, and items
/// do not depend on each other: an engine may apply them in any order and beside each other. Every
/// item is atomic, an observation aside: no client ever observes a part of it.
///
/// # Cancel safety
/// A dropped call may or may not have taken place, as one whose outcome is unknown. No call leaves
/// anything half done.
#[async_trait]
pub trait HotStore: SessionStore + Send + Sync + fmt::Debug {
    /// How many partitions owners are hashed into.
    fn partition_count(&self) -> u32;

    /// Reads hashes as they are. Never waits for the cold tier, never writes.
    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>>;

    /// Applies mutations, each with the load it builds on, if it needed one.
    ///
    /// In one step: validates everything; then gives a version (greater than every earlier one of
    /// the partition, and at least the hot tier's time); changes the fields; raises the owner's
    /// version to it; adds the changed fields to the owner's mark in the dirty map; remembers the
    /// id and the reply; and takes away the hash's time to live. A hash that it creates has this
    /// version as its number in the exist marker; it is complete only if the owner is known to have
    /// no rows, or the load brought all. If a map names an owner whose hash is gone, the new one
    /// says so ([`Header::born`](crate::Header::born)), and a mark in the dirty map is put aside
    /// under a name of its own, for the worker to report (R6). A load is used under the same
    /// conditions as in [`HotStore::fill`], otherwise the answer is [`Mutated::Load`] if it was
    /// needed.
    ///
    /// A repeat under an id that its caller keeps, within the deadline and after any number of
    /// other writes, answers what the first one did. Other writes are repeated by the store that
    /// sent them first ([`Attempt`](storage_model::Attempt)).
    ///
    /// An owner that a session holds is written by that session alone; see [`SessionStore`].
    ///
    /// A mutation that asks for more than `Cached` is answered as applied only when it is so safe,
    /// whoever applied it: if that can't be had, it is refused before anything is written
    /// (`Durability`), and if it takes too long, it fails as applied (`NotReached`).
    async fn mutate(
        &self,
        mutations: &[(Mutation, Option<Load>)],
    ) -> Vec<Result<Mutated, HotError>>;

    /// The markers and epochs to remember before the cold tier is asked. Refused as `Unprepared`
    /// under another incarnation, if the engine has noticed it as a read would; what was observed
    /// under one that it had not noticed is proof of nothing (see [`HotStore::fill`]), and `Absent`
    /// as old as a read may be. Parts of it may be of different moments; a load that this could
    /// make stale is refused.
    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>>;

    /// Takes the right to load owners from the cold tier, for `ttl`; answers which it got. It only
    /// spares the cold tier work: a load is proved by its fill, whoever made it.
    async fn lease(&self, owners: &[Owner], ttl: Duration) -> Vec<Result<bool, HotError>>;

    /// Gives the right to load owners back.
    async fn release(&self, owners: &[Owner]) -> Result<(), HotError>;

    /// Writes what was loaded, if it can be proved: epoch and marker are still those observed, and
    /// there is a hash if and only if there was one. So no hash was made since, and one that was
    /// there holds all that was written since: its fields win, tombstones included. A hash that it
    /// creates is clean, has the rows' highest version (the marker's if there is none), a number of
    /// its own in the marker, and the time to live of landed data. An owner of which no row was
    /// found and which has no marker is remembered as absent for a short time.
    ///
    /// At the memory limit nothing is written; the proof is made all the same.
    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>>;

    /// Which owners have something that has not landed, was refused, or is on probation: some map
    /// names them. So what was read before the call of an owner that none names has landed. Refused
    /// under another epoch or incarnation, if one is given.
    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>>;

    /// Drops hashes whose changes have all landed; others go when no map names their owner any
    /// more.
    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>>;

    /// Gives hashes that have a time to live the full one again. Never gives one to a hash that has
    /// none.
    async fn touch(&self, owners: &[Owner]) -> Result<(), HotError>;

    /// The hot tier's time, from which deadlines are counted.
    async fn time(&self) -> Result<Timestamp, HotError>;

    /// Which database the hot tier belongs to, and which server says so. Only reads.
    async fn pairing(&self) -> Result<HotPairing, HotError>;

    /// Says which database it belongs to, if its server and its token are still those seen. Answers
    /// whether it did. Works at the memory limit.
    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError>;

    /// Takes a hot tier of an older layout to this program's, if no map of the older one holds a
    /// mark; answers the partitions of which one does, and then nothing was changed. Nothing
    /// happens if server and token are no longer those seen. What has landed stays: its hashes and
    /// markers are the same in both layouts.
    async fn leave_layout(&self, seen: &HotPairing) -> Result<Vec<Partition>, HotError>;

    /// Drops the calls that partitions remember of stores which made none for two minutes by this
    /// process' clock: those are gone, or their next call is remembered anew. A worker calls this
    /// now and then; each partition is looked at once a minute at most.
    async fn forget_calls(&self, partitions: &[Partition]) -> Result<(), HotError>;

    /// Whether the server may be trusted with unlanded data: its version, its eviction policy.
    async fn check(&self) -> Result<(), HotError>;

    /// How full the server is that has the least room left, of those that answer, as far as what it
    /// holds can't be evicted. None if none has a limit, or all have landed data left to evict.
    async fn memory(&self) -> Result<Option<MemoryUse>, HotError>;

    /// The records of partitions, and the incarnations that hold them now.
    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>>;

    /// Makes or replaces partition records, each only if the stored incarnation is still the one
    /// seen, the server's is too, and the epoch is greater than the stored one. The source is
    /// raised to `last_version`, and `landed` becomes it; if the hot tier [has
    /// forgotten](crate::PartitionRecord::has_forgotten) what landed, or there was no record, the
    /// generation becomes the epoch. Marks on probation are to become live again. Answers whether
    /// it did.
    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>>;

    /// Raises `landed` (never lowers it), after a fence found that a commit was not settled.
    /// Refused under another epoch or incarnation.
    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError>;

    /// Sizes, ages and lock holders, without reading marks.
    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>>;

    /// Takes locks that nobody else holds; answers which it has now. Repeated under one token, it
    /// answers the same: a lost answer does not lock its own worker out. Works at the memory limit,
    /// as all that a worker calls.
    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Prolongs locks that are still held; answers which are.
    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Gives locks back that are still held.
    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>>;

    /// Turns the dirty map into the snapshot, unless a snapshot is left over (R4). An error of kind
    /// `LockLost` without the lock.
    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError>;

    /// Some entries of a map of marks, about `count`, from `cursor` on (0 at first).
    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError>;

    /// Some entries of the error map, about `count`, from `cursor` on (0 at first).
    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError>;

    /// Reads marked fields (tombstones included) of owners of one partition, then the partition's
    /// epoch and `landed`, under one incarnation; `Unprepared` if it is not the recorded one. No
    /// fields: all of the owner.
    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Collected, HotError>;

    /// Clears marks after their rows were committed, if their snapshot is still there (R5), and
    /// error marks of committed fields at or below the committed versions, or puts both on
    /// probation; raises `landed`. The owner that no map names any more gets the time to live of
    /// landed data, or is evicted if that was asked for. Refused whole under another epoch or
    /// incarnation, or without the lock.
    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError>;

    /// Moves entries to the error map, and counts attempts; answers for each whether it is there
    /// now. One that another worker landed or parked meanwhile is not, nor one that a scan brought
    /// twice. Refused whole under another epoch or incarnation, or without the lock.
    async fn park(&self, park: &Park) -> Result<Vec<bool>, HotError>;

    /// Says which of a partition's landed marks leave probation next. If none do, those that are on
    /// it now become the next. Refused under another incarnation or without the lock.
    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError>;

    /// Ends the probation of leaving marks; answers how many went. The owner that no map names any
    /// more gets the time to live of landed data, or is evicted if that was asked for. Refused
    /// under another epoch or incarnation, or without the lock; nothing happens to marks of another
    /// window.
    async fn acquit(&self, acquit: &Acquit) -> Result<u32, HotError>;

    /// Makes marks on probation live again, after a change of the epoch; answers how many. Where
    /// the dirty map has a mark of the same name, the two become one: with the fields of both, and
    /// the greater version. Refused under another incarnation or without the lock; does nothing if
    /// there was no change of the epoch, or all marks from before it are live again.
    async fn relive(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError>;

    /// Announces a worker for `ttl` and answers the names of all announced workers, sorted.
    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError>;

    /// Takes an announcement back.
    async fn retire(&self, worker: &str) -> Result<(), HotError>;
}
