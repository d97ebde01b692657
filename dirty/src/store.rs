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
/// Two engines implement it: Redis (one server, Sentinels or a cluster) and memory. One conformance
/// suite runs over both.
///
/// Calls take batches. The results come in the order of the items, one for each item. Items do not
/// depend on each other, so an engine can apply them in any order and concurrently. Every item is
/// atomic, except an observation: no client ever observes a part of it.
///
/// # Cancel safety
/// A dropped call may or may not have been applied, like a call with an unknown outcome. No call
/// leaves anything half done.
#[async_trait]
pub trait HotStore: SessionStore + Send + Sync + fmt::Debug {
    /// How many partitions owners are hashed into.
    fn partition_count(&self) -> u32;

    /// Reads hashes as they are. Never waits for the cold tier, never writes.
    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>>;

    /// Applies mutations, each with the load that it builds on, if it needs one.
    ///
    /// All of this happens in one step, after everything was validated:
    ///
    /// - The mutation gets a version. It is at least the hot tier's time, and greater than every
    ///   version of the owner and of earlier calls of the partition.
    /// - The fields change, and the owner's version is raised to the new one.
    /// - The changed fields join the owner's mark in the dirty map.
    /// - The reply is remembered under the id, or under the number of the store's call.
    /// - The hash loses its time to live.
    ///
    /// A hash that the step creates has this version as its number in the exist marker. The hash is
    /// complete only if the owner is known to have no rows, or if the load brought all rows. If a
    /// map names an owner without a hash, the new hash says so
    /// ([`Header::born`](crate::Header::born)). A mark in the dirty map is then put aside under a
    /// name of its own, for the worker to report (R6).
    ///
    /// A load is used under the same conditions as in [`HotStore::fill`]. If a needed load is
    /// missing or not proved, the answer is [`Mutated::Load`].
    ///
    /// A repeat under an id that its caller keeps gets the answer of the first copy, within the
    /// deadline and after any number of other writes. Other writes are repeated by the store that
    /// sent them first ([`Attempt`](storage_model::Attempt)).
    ///
    /// Only the session that holds an owner can write it. See [`SessionStore`].
    ///
    /// A mutation that asks for more than `Cached` is acknowledged only when it is that safe, also
    /// if an earlier copy applied it. If the durability can't be had, the mutation fails before
    /// anything is written (`Durability`). If it takes too long, the mutation fails as applied
    /// (`NotReached`).
    async fn mutate(
        &self,
        mutations: &[(Mutation, Option<Load>)],
    ) -> Vec<Result<Mutated, HotError>>;

    /// The markers and epochs to remember before the cold tier is asked. Fails as `Unprepared`
    /// under another incarnation, if the engine has noticed that incarnation as a read would. An
    /// observation under an unnoticed incarnation proves nothing (see [`HotStore::fill`]). `Absent`
    /// can be as old as a read can be. The parts of an observation can be of different moments. A
    /// load that this could make stale is rejected.
    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>>;

    /// Takes the right to load owners from the cold tier, for `ttl`. Answers which rights it got. A
    /// right only saves work of the cold tier. A load is proved by its fill, with or without the
    /// right.
    async fn lease(&self, owners: &[Owner], ttl: Duration) -> Vec<Result<bool, HotError>>;

    /// Returns the right to load owners.
    async fn release(&self, owners: &[Owner]) -> Result<(), HotError>;

    /// Writes loads that can be proved. Epoch and marker must still be those observed, and there
    /// must be a hash if and only if there was one. Then no hash was made since, and a hash that
    /// was there holds all later writes. So its fields win, tombstones included.
    ///
    /// A hash that the fill creates is clean. It has the highest version of the rows, or the
    /// marker's if there are none. It has a number of its own in the marker, and the time to live
    /// of landed data. An owner without rows and without a marker is remembered as absent for a
    /// short time.
    ///
    /// At the memory limit nothing is written, but the load is still proved or rejected.
    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>>;

    /// Whether a map names each owner, because a change has not landed, was rejected, or is on
    /// probation. If no map names an owner, all of it that was read before the call has landed. If
    /// an epoch is given, fails under another epoch or incarnation.
    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>>;

    /// Drops hashes after all their changes have landed. Other hashes go once no map names their
    /// owner and no session holds it.
    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>>;

    /// Restores the full time to live of hashes that have one. Never gives one to a hash without.
    async fn touch(&self, owners: &[Owner]) -> Result<(), HotError>;

    /// The hot tier's time, which deadlines refer to.
    async fn time(&self) -> Result<Timestamp, HotError>;

    /// The database that the hot tier belongs to, and the server that answered. Only reads.
    async fn pairing(&self) -> Result<HotPairing, HotError>;

    /// Records the database that the hot tier belongs to, if its server and its token are still
    /// those seen. Answers whether it did. Works at the memory limit.
    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError>;

    /// Takes a hot tier of an older layout to this program's layout, if no map of the older layout
    /// holds a mark. Otherwise it changes nothing and answers the partitions with marks. Nothing
    /// happens if server or token are no longer those seen. Landed data stays: its hashes and
    /// markers are the same in both layouts.
    async fn leave_layout(&self, seen: &HotPairing) -> Result<Vec<Partition>, HotError>;

    /// Drops the calls that partitions remember of stores without a call for two minutes, by this
    /// process' clock. Such a store is gone, or its next call is remembered anew. A worker calls
    /// this from time to time. Each partition is checked once a minute at most.
    async fn forget_calls(&self, partitions: &[Partition]) -> Result<(), HotError>;

    /// Whether the server is safe for unlanded data: its version and its eviction policy.
    async fn check(&self) -> Result<(), HotError>;

    /// Memory use of the fullest server that answers, counting only data that can't be evicted.
    /// `None` if no server has a limit, or if all servers have landed data left to evict.
    async fn memory(&self) -> Result<Option<MemoryUse>, HotError>;

    /// The records of partitions, and the incarnations that hold them now.
    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>>;

    /// Makes or replaces partition records. A record changes only if the stored incarnation is
    /// still the one seen, the server's is too, and the epoch is greater than the stored one. The
    /// source is raised to `last_version`, and `landed` becomes `last_version`.
    ///
    /// The generation becomes the epoch if the hot tier [has
    /// forgotten](crate::PartitionRecord::has_forgotten) landed data, if there was no record, or if
    /// every hash must be compared. After any adoption, marks on probation must become live again.
    /// Answers whether it adopted.
    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>>;

    /// Raises `landed`, after a fence found that a commit was not settled. Never lowers it. Fails
    /// under another epoch or incarnation.
    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError>;

    /// Sizes, ages and lock holders, without reading marks.
    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>>;

    /// Takes locks that nobody else holds. Answers which locks it has now. A repeat under the same
    /// token gets the same answer, so a lost answer does not lock its own worker out. Works at the
    /// memory limit, as all calls of a worker do.
    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Prolongs locks that are still held. Answers which are.
    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>>;

    /// Returns locks that are still held.
    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>>;

    /// Turns the dirty map into the snapshot, unless a snapshot is left over (R4). Fails with kind
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
    /// epoch and `landed`, under one incarnation. Fails as `Unprepared` if it is not the recorded
    /// one. An empty list of fields means the whole owner.
    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Collected, HotError>;

    /// Clears marks after their rows were committed, if their snapshot is still there (R5). Also
    /// clears error marks of committed fields at or below the committed versions. With probation,
    /// both go on probation instead. Raises `landed`.
    ///
    /// An owner that no map names any more gets the time to live of landed data, or is evicted if
    /// that was requested. The call fails as a whole under another epoch or incarnation, or without
    /// the lock.
    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError>;

    /// Moves entries to the error map, and counts attempts. Answers for each entry whether it is
    /// there now. It is not if another worker landed or moved it, or if a scan brought it twice.
    /// The call fails as a whole under another epoch or incarnation, or without the lock.
    async fn park(&self, park: &Park) -> Result<Vec<bool>, HotError>;

    /// Says which of a partition's landed marks leave probation next. If none are leaving, all
    /// marks that are on probation now become the next. Fails under another incarnation or without
    /// the lock.
    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError>;

    /// Ends the probation of leaving marks. Answers how many went. An owner that no map names any
    /// more gets the time to live of landed data, or is evicted if that was requested. Marks of
    /// another window stay. Fails under another epoch or incarnation, or without the lock.
    async fn acquit(&self, acquit: &Acquit) -> Result<u32, HotError>;

    /// Makes marks on probation live again, after a change of the epoch. Answers how many. If the
    /// dirty map has a mark of the same name, the two become one, with the fields of both and the
    /// greater version.
    ///
    /// Does nothing if the epoch did not change, or if all marks from before the change are live
    /// again. Fails under another incarnation or without the lock.
    async fn relive(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError>;

    /// Announces a worker for `ttl`. Answers the names of all announced workers, sorted.
    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError>;

    /// Withdraws an announcement.
    async fn retire(&self, worker: &str) -> Result<(), HotError>;
}
