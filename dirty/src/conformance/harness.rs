//! The tools of the cases.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use storage_model::{
    Applied, Attempt, Cell, Change, Condition, Epoch, Field, Ids, Mutation, Owner, Partition,
    Position, RandomIds, Timestamp, Version,
};

use super::{Life, Rig};
use crate::{
    Adopt, Entry, Fault, Fields, Filled, Hot, HotError, HotRead, LandedRow, Load, Lock, Mutated,
    Observed, PartitionRecord, Read, Reject, Rejected, Settle, Settled, Snapshot, SnapshotId,
};

/// A field of this name.
///
/// # Panics
/// The name is not a valid field name.
#[must_use]
pub fn field(name: &str) -> Field {
    Field::new(name).unwrap()
}

/// A rig with its partitions adopted in epoch 1, and short calls for the cases.
#[derive(Debug)]
pub struct Harness {
    rig: Box<dyn Rig>,
    /// The number of the snapshot that was taken last, by partition.
    numbers: Mutex<BTreeMap<Partition, SnapshotId>>,
}

impl Harness {
    /// Adopts all partitions of the rig's store.
    ///
    /// # Panics
    /// The store does not adopt a partition.
    pub async fn new(rig: Box<dyn Rig>) -> Self {
        let harness = Self {
            rig,
            numbers: Mutex::default(),
        };
        for partition in harness.partitions() {
            assert!(
                harness.adopt(partition, 1, Version::ZERO).await,
                "a fresh partition is adopted"
            );
        }
        harness
    }

    pub(super) fn store(&self) -> &Hot {
        self.rig.store()
    }

    pub(super) fn rig(&self) -> &dyn Rig {
        &*self.rig
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        (0..self.store().partitions.partition_count())
            .map(Partition)
            .collect()
    }

    pub(super) fn partition(&self, owner: &Owner) -> Partition {
        owner.partition(self.store().partitions.partition_count())
    }

    /// `count` owners of one partition.
    pub(super) fn owners_of_one_partition(&self, count: usize) -> Vec<Owner> {
        let wanted = self.partition(&owner("0"));
        (0_u32..)
            .map(|n| owner(&n.to_string()))
            .filter(|owner| self.partition(owner) == wanted)
            .take(count)
            .collect()
    }

    /// Adopts the present data.
    pub(super) async fn adopt(
        &self,
        partition: Partition,
        epoch: u64,
        last_version: Version,
    ) -> bool {
        let version = |adopt: &mut Adopt| adopt.last_version = last_version;
        self.adopt_as(partition, epoch, version).await
    }

    /// As [`Self::adopt`]. The feed reaches this far.
    pub(super) async fn adopt_feed(
        &self,
        partition: Partition,
        epoch: u64,
        feed: Position,
    ) -> bool {
        let reaches = |adopt: &mut Adopt| adopt.feed = feed;
        self.adopt_as(partition, epoch, reaches).await
    }

    /// As [`Self::adopt`]. `landed_here` says whether all landed data was collected here.
    pub(super) async fn adopt_landed(
        &self,
        partition: Partition,
        epoch: u64,
        last_version: Version,
        landed_here: bool,
    ) -> bool {
        let landed = |adopt: &mut Adopt| {
            (adopt.last_version, adopt.landed_here) = (last_version, landed_here);
        };
        self.adopt_as(partition, epoch, landed).await
    }

    /// Ends the grace of an epoch, whose adoption is the last one. Returns whether it did.
    pub(super) async fn end_grace(&self, partition: Partition, epoch: u64) -> bool {
        let beats = self
            .store()
            .holders
            .beat(&[partition], None)
            .await
            .remove(0);
        let mut adoption = beats.unwrap().adoption;
        adoption.epoch = Epoch(epoch);
        let ended = self.store().holders.end_grace(partition, adoption).await;
        ended.unwrap()
    }

    async fn adopt_as(
        &self,
        partition: Partition,
        epoch: u64,
        change: impl FnOnce(&mut Adopt),
    ) -> bool {
        let seen = self
            .store()
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap();
        let mut adopt = Adopt {
            partition,
            seen,
            epoch: Epoch(epoch),
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version: Version::ZERO,
            landed_here: false,
            compare_all: false,
            feed: Position::ZERO,
            database: None,
        };
        change(&mut adopt);
        self.store()
            .partitions
            .adopt(&[adopt])
            .await
            .remove(0)
            .unwrap()
    }

    pub(super) async fn record(&self, partition: Partition) -> PartitionRecord {
        self.store()
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap()
            .record
            .unwrap()
    }

    pub(super) async fn mutation(&self, owner: &Owner, changes: Vec<(&str, Change)>) -> Mutation {
        let deadline = self
            .store()
            .tier
            .time()
            .await
            .unwrap()
            .plus(Duration::from_secs(30));
        let changes = changes
            .into_iter()
            .map(|(name, change)| (field(name), change))
            .collect();
        Mutation::new(owner.clone(), changes, RandomIds.next(), deadline).as_attempt(Attempt::First)
    }

    /// As [`Self::mutation`], under an id that its caller keeps.
    pub(super) async fn named(&self, owner: &Owner, changes: Vec<(&str, Change)>) -> Mutation {
        self.mutation(owner, changes)
            .await
            .as_attempt(Attempt::Named)
    }

    pub(super) async fn send(&self, mutation: &Mutation, load: Option<Load>) -> Mutated {
        self.try_send(mutation, load).await.unwrap()
    }

    pub(super) async fn try_send(
        &self,
        mutation: &Mutation,
        load: Option<Load>,
    ) -> Result<Mutated, HotError> {
        self.store()
            .owners
            .mutate(&[(mutation.clone(), load.into_iter().collect())])
            .await
            .remove(0)
    }

    pub(super) async fn change(&self, owner: &Owner, changes: Vec<(&str, Change)>) -> Mutated {
        self.send(&self.mutation(owner, changes).await, None).await
    }

    pub(super) async fn change_when(
        &self,
        owner: &Owner,
        changes: Vec<(&str, Change)>,
        condition: Condition,
    ) -> Mutated {
        self.send(&self.mutation(owner, changes).await.when(condition), None)
            .await
    }

    /// Changes that must be applied.
    pub(super) async fn apply(&self, owner: &Owner, changes: Vec<(&str, Change)>) -> Applied {
        applied(self.change(owner, changes).await)
    }

    pub(super) async fn set(&self, owner: &Owner, name: &str, value: &str) -> Version {
        self.apply(owner, vec![(name, set(value))]).await.version
    }

    pub(super) async fn read_fields(&self, owner: &Owner, fields: Fields) -> HotRead {
        self.store()
            .owners
            .read(&[Read {
                owner: owner.clone(),
                fields,
            }])
            .await
            .remove(0)
            .unwrap()
    }

    pub(super) async fn read(&self, owner: &Owner) -> HotRead {
        self.read_fields(owner, Fields::All).await
    }

    pub(super) async fn cell(&self, owner: &Owner, name: &str) -> Option<Cell> {
        let read = self
            .read_fields(owner, Fields::Cells(vec![field(name)]))
            .await;
        read.cells.into_iter().next().map(|(_, cell)| cell)
    }

    pub(super) async fn live(&self, owner: &Owner, name: &str) -> Option<Bytes> {
        self.cell(owner, name)
            .await
            .as_ref()
            .and_then(Cell::live)
            .cloned()
    }

    /// Whether a map names the owner.
    pub(super) async fn is_marked(&self, owner: &Owner) -> bool {
        self.store()
            .owners
            .marked(std::slice::from_ref(owner), None)
            .await
            .remove(0)
            .unwrap()
    }

    /// Takes a snapshot, and remembers its number.
    pub(super) async fn snapshot(&self, partition: Partition, lock: &Lock) -> Snapshot {
        let snapshot = self.store().marks.snapshot(partition, lock).await.unwrap();
        if let Snapshot::Taken(number) | Snapshot::Leftover(number) = snapshot {
            self.numbers.lock().unwrap().insert(partition, number);
        }
        snapshot
    }

    /// The number of the snapshot that was taken last.
    pub(super) fn number(&self, partition: Partition) -> SnapshotId {
        self.numbers
            .lock()
            .unwrap()
            .get(&partition)
            .copied()
            .unwrap_or_default()
    }

    pub(super) async fn observe(&self, owner: &Owner) -> Observed {
        self.store()
            .owners
            .observe(std::slice::from_ref(owner))
            .await
            .remove(0)
            .unwrap()
    }

    pub(super) async fn fill(&self, load: &Load) -> Filled {
        self.store()
            .owners
            .fill(std::slice::from_ref(load))
            .await
            .remove(0)
            .unwrap()
    }

    /// Drops an owner's marker.
    pub(super) async fn lose_marker(&self, owner: &Owner) {
        self.rig.lose_marker(owner).await;
    }

    /// Drops an owner's landed hash.
    pub(super) async fn evict(&self, owner: &Owner) {
        self.store()
            .owners
            .evict(std::slice::from_ref(owner))
            .await
            .remove(0)
            .unwrap();
    }

    /// Remembers that an owner has no row.
    pub(super) async fn make_absent(&self, owner: &Owner) {
        let load = all_rows(owner, self.observe(owner).await, vec![]);
        assert!(
            matches!(self.fill(&load).await, Filled::Accepted(_)),
            "an empty answer is accepted"
        );
    }

    pub(super) async fn lock(&self, partition: Partition) -> Lock {
        let lock = lock_of("worker");
        let got = self
            .store()
            .partitions
            .lock(&[partition], &lock, Duration::from_secs(30))
            .await
            .remove(0)
            .unwrap();
        assert!(got, "the lock is free");
        lock
    }

    pub(super) async fn unlock(&self, partition: Partition, lock: &Lock) {
        self.store()
            .partitions
            .unlock(&[partition], lock)
            .await
            .remove(0)
            .unwrap();
    }

    /// Every entry of the snapshot, each once.
    pub(super) async fn scan(&self, partition: Partition) -> Vec<Entry> {
        let (mut entries, mut cursor) = (Vec::new(), 0);
        loop {
            let page = self
                .store()
                .marks
                .scan(partition, crate::Map::Snapshot, cursor, 100)
                .await
                .unwrap();
            entries.extend(
                page.entries
                    .into_iter()
                    .filter(|entry| !entries.contains(entry))
                    .collect::<Vec<_>>(),
            );
            match page.next {
                Some(next) => cursor = next,
                None => return entries,
            }
        }
    }

    /// A settle of nothing in epoch 1, for the case to fill in.
    pub(super) fn settling(&self, partition: Partition, lock: Option<&Lock>) -> Settle {
        Settle {
            partition,
            lock: lock.cloned(),
            epoch: Epoch(1),
            snapshot: self.number(partition),
            landed: Version::ZERO,
            marks: Vec::new(),
            rows: Vec::new(),
            probation: false,
        }
    }

    /// Settles these entries, as a worker does when the database accepts all of them.
    pub(super) async fn settle(
        &self,
        partition: Partition,
        lock: Option<&Lock>,
        entries: &[Entry],
    ) -> Result<Settled, HotError> {
        let record = self.record(partition).await;
        let marks = entries.to_vec();
        let (lock, epoch, landed) = (lock.cloned(), record.epoch, record.landed);
        let snapshot = self.number(partition);
        let settle = Settle {
            partition,
            lock,
            epoch,
            snapshot,
            landed,
            marks,
            rows: vec![],
            probation: false,
        };
        self.store().marks.settle(&settle).await
    }

    /// Lands all marks in the partition of an owner, as a worker would. Returns the entries.
    pub(super) async fn land(&self, owner: &Owner) -> Vec<Entry> {
        let partition = self.partition(owner);
        let lock = self.lock(partition).await;
        let mut landed = Vec::new();
        while self.snapshot(partition, &lock).await != Snapshot::Empty {
            let entries = self.scan(partition).await;
            let settled = self.settle(partition, Some(&lock), &entries).await.unwrap();
            assert_eq!(
                usize::try_from(settled.cleared).unwrap(),
                entries.len(),
                "every mark is settled"
            );
            landed.extend(entries);
        }
        self.unlock(partition, &lock).await;
        landed
    }

    /// An owner with landed fields and an evicted hash.
    pub(super) async fn cold(&self, id: &str) -> (Owner, Version) {
        let owner = owner(id);
        let version = self.set(&owner, "gold", "1").await;
        self.land(&owner).await;
        self.store()
            .owners
            .evict(std::slice::from_ref(&owner))
            .await
            .remove(0)
            .unwrap();
        assert_eq!(self.read(&owner).await.header, None, "the owner is cold");
        (owner, version)
    }

    /// Rejects these entries.
    pub(super) async fn reject(
        &self,
        partition: Partition,
        lock: &Lock,
        rejected: Vec<Rejected>,
    ) -> Result<Vec<bool>, HotError> {
        self.reject_and_keep(partition, lock, rejected, false).await
    }

    /// As [`Self::reject`]. With `probation`, entries with landed fields go on probation.
    pub(super) async fn reject_and_keep(
        &self,
        partition: Partition,
        lock: &Lock,
        rejected: Vec<Rejected>,
        probation: bool,
    ) -> Result<Vec<bool>, HotError> {
        let epoch = self.record(partition).await.epoch;
        let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(3));
        let snapshot = self.number(partition);
        let reject = Reject {
            partition,
            lock: lock.clone(),
            epoch,
            snapshot,
            retry_min,
            retry_max,
            probation,
            rejected,
        };
        self.store().marks.reject(&reject).await
    }

    /// Asserts that a hash has no time to live.
    pub(super) async fn assert_lasting(&self, owner: &Owner) {
        assert_eq!(
            self.rig.life(owner).await,
            Life::Lasting,
            "unlanded data never expires"
        );
    }

    /// Asserts that a hash has a time to live.
    pub(super) async fn assert_ends(&self, owner: &Owner) {
        assert!(
            matches!(self.rig.life(owner).await, Life::Ends(_)),
            "landed data has a time to live"
        );
    }
}

pub(super) fn owner(id: &str) -> Owner {
    Owner::new("game", "eu", "player", id).unwrap()
}

pub(super) fn set(value: &str) -> Change {
    Change::Set(Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn live(value: &str) -> Cell {
    Cell::Live(Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn removed(value: &str) -> Cell {
    Cell::Removed(Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn applied(mutated: Mutated) -> Applied {
    match mutated {
        Mutated::Applied(applied) => applied,
        other => panic!("not applied: {other:?}"),
    }
}

pub(super) fn accepted(filled: Filled) -> HotRead {
    match filled {
        Filled::Accepted(read) => read,
        Filled::Refused => panic!("the load is refused"),
    }
}

/// A load of all rows of an owner, each with its version.
pub(super) fn all_rows(
    owner: &Owner,
    observed: Observed,
    rows: Vec<(&str, Cell, Version)>,
) -> Load {
    let rows = rows
        .into_iter()
        .map(|(name, cell, version)| (field(name), cell, version))
        .collect();
    Load {
        owner: owner.clone(),
        observed,
        rows,
        complete: true,
    }
}

pub(super) fn lock_of(holder: &str) -> Lock {
    Lock {
        holder: holder.to_owned(),
        token: RandomIds.next().to_string(),
    }
}

pub(super) fn fault(name: &str, version: Version, message: &str) -> Fault {
    Fault {
        field: field(name),
        version,
        code: 1406,
        message: message.to_owned(),
    }
}

/// A version some microseconds after another.
pub(super) fn above(version: Version, by: u64) -> Version {
    Version::new(version.get() + by).unwrap()
}

/// A moment that has long passed.
pub(super) const LONG_AGO: Timestamp = Timestamp(1);

/// Rows of hashes that do not tell their birth.
#[must_use]
pub fn landed_rows(rows: Vec<(Owner, Field, Version)>) -> Vec<LandedRow> {
    let landed = |(owner, field, version)| LandedRow {
        owner,
        field,
        version,
        from: Version::ZERO,
    };
    rows.into_iter().map(landed).collect()
}
