//! The engine in memory passes the suite of the hot tier. It keeps its invariants through random
//! histories.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: its failures are panics"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_config::{HotSettings, HotUrl, RedisSettings};
use storage_dirty::conformance::{Life, Rig, Skip};
use storage_dirty::memory::MemoryState;
use storage_dirty::{
    Adopt, Fields, Filled, Hot, HotKind, Load, MemoryStore, OpenSession, Opened, Owners,
    Partitions, Read, Sessions,
};
use storage_model::{
    Bytes, Cell, Clock, Epoch, Field, ManualClock, OpId, Owner, Partition, Timestamp, Version,
};

#[derive(Debug)]
struct Memory {
    store: Arc<MemoryStore>,
    hot: Hot,
    clock: Arc<ManualClock>,
    saved: Mutex<Option<MemoryState>>,
}

/// The defaults with so many partitions.
fn partitions(partitions: u32) -> RedisSettings {
    RedisSettings::new(HotUrl::Memory).with(|redis| redis.partitions = partitions)
}

async fn memory() -> Box<dyn Rig> {
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let store = MemoryStore::new(&partitions(4), &HotSettings::default(), clock.clone());
    let store = Arc::new(store);
    Box::new(Memory {
        hot: Hot::of(&store),
        store,
        clock,
        saved: Mutex::default(),
    })
}

#[async_trait]
impl Rig for Memory {
    fn store(&self) -> &Hot {
        &self.hot
    }
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
    async fn reincarnate(&self) {
        self.store.replace_incarnation();
    }
    async fn save(&self) {
        *self.saved.lock().unwrap() = Some(self.store.clone_state());
    }
    async fn rewind(&self) {
        let saved = self.saved.lock().unwrap().take().expect("saved before");
        self.store.restore(saved);
    }
    async fn wipe(&self) {
        self.store.wipe();
    }
    async fn life(&self, owner: &Owner) -> Life {
        match self.store.clone_state().end_of(owner) {
            None => Life::Gone,
            Some(None) => Life::Lasting,
            Some(Some(end)) => Life::Ends(end.since(self.clock.now())),
        }
    }
    async fn exhaust(&self) {
        self.store.limit(0);
    }
    async fn lose(&self, owner: &Owner) {
        self.store.lose(owner);
    }
    async fn lose_marker(&self, owner: &Owner) {
        self.store.lose_marker(owner);
    }
}

storage_dirty::hot_conformance!(conformance, memory(), SKIPPED);

const SKIPPED: &[Skip] = &[(
    "errors::an_unreadable_mark_is_rejected_under_its_own_name",
    "no other program writes to the memory of this process",
)];

/// The partition of the landed data does not matter.
#[tokio::test]
async fn a_session_takes_room_that_landed_data_make() {
    let clock = Arc::new(ManualClock::new(Timestamp(9)));
    let store = MemoryStore::new(&partitions(4), &HotSettings::default(), clock);
    for partition in (0..4).map(Partition) {
        let seen = store
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap();
        let (epoch, last_version) = (Epoch(1), Version::ZERO);
        let adopt = Adopt {
            partition,
            seen,
            epoch,
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version,
            landed_here: false,
            compare_all: false,
            feed: storage_model::Position::ZERO,
            database: None,
        };
        assert_eq!(store.adopt(&[adopt]).await, [Ok(true)]);
    }
    let owner = |id: u32| Owner::new("game", "eu", "player", &id.to_string()).unwrap();
    let landed = owner(0);
    let others = (1..)
        .map(owner)
        .filter(|other| other.partition(4) != landed.partition(4))
        .take(3);
    let observed = store
        .observe(std::slice::from_ref(&landed))
        .await
        .remove(0)
        .unwrap();
    let rows = vec![(
        Field::new("bag").unwrap(),
        Cell::Live(Bytes::from(vec![0; 1_000])),
        Version::ZERO,
    )];
    let load = Load {
        owner: landed.clone(),
        observed,
        rows,
        complete: true,
    };
    assert!(matches!(
        store.fill(&[load]).await.remove(0),
        Ok(Filled::Accepted(_))
    ));
    let is_there = async || {
        let read = Read {
            owner: landed.clone(),
            fields: Fields::Names,
        };
        store
            .read(&[read])
            .await
            .remove(0)
            .unwrap()
            .header
            .is_some()
    };
    for (number, owner) in others.enumerate() {
        let observed = store
            .observe(std::slice::from_ref(&owner))
            .await
            .remove(0)
            .unwrap();
        let load = Some(Load {
            owner: owner.clone(),
            observed,
            rows: vec![],
            complete: true,
        });
        let (token, name) = (
            OpId::new([u8::try_from(number).unwrap(); 16]),
            "game".to_owned(),
        );
        let open = OpenSession {
            owner,
            token,
            holder: token,
            name,
            takes: None,
            deadline: Timestamp(99),
            load,
        };
        let before = store.bytes();
        let opened = store.open_session(&open).await;
        match number {
            0 => assert!(
                matches!(opened, Ok(Opened::Open { .. }))
                    && store.bytes() >= before + 2 * 128
                    && is_there().await
            ),
            1 => assert!(matches!(opened, Ok(Opened::Open { .. })) && !is_there().await),
            _ => assert!(
                opened.is_err_and(|error| error.kind == HotKind::OutOfMemory)
                    && store.bytes() == before
            ),
        }
        // As full as possible. Landed data may go.
        store.limit(store.bytes());
    }
}

/// Random histories against a cold tier of two lines. Every acknowledged write is read back and
/// lands.
mod random {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use storage_dirty::{
        Adopt, Entry, Expire, Fault, Fields, Filled, HotKind, Load, Lock, Map, Marks, Mutated,
        Observed, Owners, Partitions, Probation, Probations, Read, Refusal, Reject, Rejected,
        Snapshot, SnapshotId, Window,
    };
    use storage_dirty::{LandedRow, MemoryStore, Settle};
    use storage_model::{
        Bytes, Cell, Change, Clock, Condition, Epoch, Field, Ids, ManualClock, Mutation, Owner,
        Partition, SeededIds, Timestamp, Version,
    };

    use super::{Arc, Duration, HotSettings, partitions};

    const STEPS: usize = 10_000;

    /// Rows that were collected and not settled yet. They may be committed.
    struct Batch {
        partition: Partition,
        lock: Lock,
        epoch: Epoch,
        snapshot: SnapshotId,
        entries: Vec<Entry>,
        rows: Vec<(Owner, Field, Cell, Version)>,
    }

    /// Rows by owner and field.
    type Rows = BTreeMap<(Owner, Field), (Cell, Version)>;

    struct World {
        random: StdRng,
        ids: SeededIds,
        clock: Arc<ManualClock>,
        store: MemoryStore,
        /// The acknowledged states.
        truth: BTreeMap<(Owner, Field), Cell>,
        /// The cold tier.
        rows: Rows,
        /// The part of the cold tier that outlives a crash, and the step at which it was flushed.
        flushed: (usize, Rows),
        /// The windows that were found to leave, and the step of each find.
        left: Vec<(usize, Partition, Window)>,
        steps: usize,
        loads: Vec<Load>,
        batches: Vec<Batch>,
        epoch: u64,
        applied: usize,
        landed: usize,
        refused_fills: usize,
        rejected: usize,
        forgotten: usize,
        requeued: usize,
        expired: usize,
    }

    #[tokio::test]
    async fn ten_thousand_random_steps_break_no_invariant_and_lose_nothing() {
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(rand::random::<u64>);
        println!("SEED={seed}");
        let mut world = World::new(seed);
        world.adopt().await;
        for step in 0..STEPS {
            world.steps = step;
            world.step().await;
            assert_eq!(
                world.store.clone_state().violation(),
                None,
                "SEED={seed}, step {step}"
            );
        }
        world.drain().await;
        assert_eq!(
            world.store.clone_state().violation(),
            None,
            "SEED={seed}, drained"
        );
        let cold: BTreeMap<_, _> = world
            .rows
            .iter()
            .map(|(name, (cell, _))| (name.clone(), cell.clone()))
            .collect();
        assert_eq!(
            cold, world.truth,
            "SEED={seed}: every acknowledged write has landed"
        );
        let on_probation = [world.forgotten, world.requeued, world.expired];
        let seen = [
            &[
                world.applied,
                world.landed,
                world.refused_fills,
                world.rejected,
            ],
            &on_probation[..],
        ]
        .concat();
        assert!(
            seen.iter().all(|count| *count > 5),
            "SEED={seed}: the history did too little: {seen:?}"
        );
    }

    impl World {
        fn new(seed: u64) -> Self {
            let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
            let hot = HotSettings::default().with(|hot| hot.clean_ttl = Duration::from_secs(30));
            Self {
                random: StdRng::seed_from_u64(seed),
                ids: SeededIds::new(seed),
                store: MemoryStore::new(&partitions(2), &hot, clock.clone()),
                clock,
                truth: BTreeMap::new(),
                rows: BTreeMap::new(),
                flushed: (0, BTreeMap::new()),
                left: Vec::new(),
                steps: 0,
                loads: Vec::new(),
                batches: Vec::new(),
                epoch: 0,
                applied: 0,
                landed: 0,
                refused_fills: 0,
                rejected: 0,
                forgotten: 0,
                requeued: 0,
                expired: 0,
            }
        }

        async fn step(&mut self) {
            match self.random.random_range(0..120) {
                0..35 => self.write().await,
                35..50 => self.read().await,
                50..55 => self.observe().await,
                55..65 => self.fill().await,
                65..72 => {
                    let owner = self.owner();
                    drop(self.store.evict(&[owner]).await);
                }
                72..75 => {
                    let owner = self.owner();
                    self.store.refresh_ttl(&[owner]).await.unwrap();
                }
                75..80 => self
                    .clock
                    .advance(Duration::from_millis(self.random.random_range(0..5_000))),
                80 => self.clock.advance(Duration::from_secs(40)),
                81 => self.clock.set(Timestamp(self.clock.now().0 - 1_000_000)),
                82 => self.store.limit(self.random.random_range(0..20_000)),
                83..86 => self.store.limit(usize::MAX),
                86 => {
                    self.store.replace_incarnation();
                    self.adopt().await;
                }
                87..92 => self.collect().await,
                92..96 => {
                    let at = self.random.random_range(0..=self.batches.len());
                    self.commit(at);
                }
                96..100 => self.settle().await,
                100..106 => self.flushed = (self.steps, self.rows.clone()),
                106 => self.crash().await,
                107..113 => self.look().await,
                _ => self.expire().await,
            }
        }

        fn owner(&mut self) -> Owner {
            Owner::new(
                "game",
                "eu",
                "player",
                &self.random.random_range(0..6).to_string(),
            )
            .unwrap()
        }

        fn field(&mut self) -> Field {
            Field::new(["a", "b", "c"][self.random.random_range(0..3)]).unwrap()
        }

        fn change(&mut self) -> Change {
            let number = self.random.random_range(-5_i64..100);
            match self.random.random_range(0..10) {
                0..4 => Change::Set(Bytes::from(number.to_string())),
                4..7 => Change::Incr(number),
                7 => Change::Remove,
                8 => Change::Restore,
                _ => Change::Purge,
            }
        }

        async fn adopt(&mut self) {
            self.epoch += 1;
            for partition in [Partition(0), Partition(1)] {
                let seen = self
                    .store
                    .partition_states(&[partition])
                    .await
                    .remove(0)
                    .unwrap();
                let versions = self
                    .rows
                    .iter()
                    .filter(|((owner, _), _)| owner.partition(2) == partition);
                let last_version = versions
                    .map(|(_, (_, version))| *version)
                    .max()
                    .unwrap_or_default();
                let adopt = Adopt {
                    partition,
                    seen,
                    epoch: Epoch(self.epoch),
                    stamp: storage_model::Stamp::NONE,
                    until: storage_model::Timestamp(u64::MAX),
                    last_version,
                    landed_here: false,
                    compare_all: false,
                    feed: storage_model::Position::ZERO,
                    database: None,
                };
                assert_eq!(self.store.adopt(&[adopt]).await, vec![Ok(true)]);
            }
        }

        async fn write(&mut self) {
            let owner = self.owner();
            let changes = (0..self.random.random_range(1..=3))
                .map(|_| (self.field(), self.change()))
                .collect();
            let condition = if self.random.random_bool(0.1) {
                Condition::Absent
            } else {
                Condition::None
            };
            let deadline = self.clock.now().plus(Duration::from_secs(30));
            let mutation =
                Mutation::new(owner.clone(), changes, self.ids.next(), deadline).when(condition);
            let stale = self
                .loads
                .iter()
                .rev()
                .find(|load| load.owner == owner)
                .cloned();
            let mut reply = self
                .store
                .mutate(&[(mutation.clone(), stale.into_iter().collect())])
                .await
                .remove(0);
            if let Ok(Mutated::Load(observed)) = reply {
                let load = self.load(&owner, observed);
                reply = self
                    .store
                    .mutate(&[(mutation.clone(), vec![load])])
                    .await
                    .remove(0);
            }
            match reply {
                Ok(Mutated::Applied(applied)) => {
                    let again = self
                        .store
                        .mutate(&[(mutation.clone(), Vec::new())])
                        .await
                        .remove(0);
                    if applied.changed > 0 {
                        assert_eq!(again, Ok(Mutated::Applied(applied.clone())), "a repeat");
                    }
                    self.applied += 1;
                    let counters = mutation
                        .changes
                        .iter()
                        .cloned()
                        .filter_map(|(field, change)| self.expect(&owner, field, change));
                    assert_eq!(counters.collect::<Vec<_>>(), applied.counters);
                }
                Ok(Mutated::Refused(Refusal::NotLanded | Refusal::Exists(_))) => {}
                Err(error) if error.kind == HotKind::OutOfMemory => {}
                other => panic!("{other:?}"),
            }
        }

        /// Applies an acknowledged change to the expected state. Returns the new value if it is a
        /// counter.
        fn expect(&mut self, owner: &Owner, field: Field, change: Change) -> Option<i64> {
            let name = (owner.clone(), field);
            let old = self.truth.get(&name).cloned();
            let (cell, counter) = match (change, old) {
                (Change::Set(value), _) => (Cell::Live(value), None),
                (Change::Incr(by), old) => {
                    let held = old.as_ref().and_then(Cell::live).map_or(0, |value| {
                        std::str::from_utf8(value).unwrap().parse().unwrap()
                    });
                    (
                        Cell::Live(Bytes::from((held + by).to_string())),
                        Some(held + by),
                    )
                }
                (Change::Remove, Some(Cell::Live(value))) => (Cell::Removed(value), None),
                (Change::Restore, Some(Cell::Removed(value))) => (Cell::Live(value), None),
                (Change::Purge, Some(Cell::Removed(_))) => (Cell::Purged, None),
                _ => return None,
            };
            self.truth.insert(name, cell);
            counter
        }

        fn load(&self, owner: &Owner, observed: Observed) -> Load {
            let rows = self.rows.iter().filter(|((of, _), _)| of == owner);
            let rows = rows
                .map(|((_, field), (cell, version))| (field.clone(), cell.clone(), *version))
                .collect();
            Load {
                owner: owner.clone(),
                observed,
                rows,
                complete: true,
            }
        }

        async fn read(&mut self) {
            let owner = self.owner();
            let read = self
                .store
                .read(&[Read {
                    owner: owner.clone(),
                    fields: Fields::All,
                }])
                .await
                .remove(0)
                .unwrap();
            let Some(header) = read.header else { return };
            let held: BTreeMap<_, _> = read.cells.into_iter().collect();
            for ((_, field), cell) in self.truth.iter().filter(|((of, _), _)| *of == owner) {
                let seen = held.get(field);
                assert!(
                    seen == Some(cell) || (seen.is_none() && !header.complete),
                    "{owner}/{field}: {seen:?}, not {cell:?}"
                );
            }
        }

        /// Remembers a load, to be used at once or much later.
        async fn observe(&mut self) {
            let owner = self.owner();
            let observed = self
                .store
                .observe(std::slice::from_ref(&owner))
                .await
                .remove(0)
                .unwrap();
            let load = self.load(&owner, observed);
            self.loads.push(load);
        }

        async fn fill(&mut self) {
            if self.loads.is_empty() {
                return;
            }
            let load = self
                .loads
                .remove(self.random.random_range(0..self.loads.len()));
            match self
                .store
                .fill(std::slice::from_ref(&load))
                .await
                .remove(0)
                .unwrap()
            {
                Filled::Refused => self.refused_fills += 1,
                Filled::Accepted(read) => {
                    let truth = self
                        .truth
                        .iter()
                        .filter(|((owner, _), _)| *owner == load.owner);
                    let truth: Vec<_> = truth
                        .map(|((_, field), cell)| (field.clone(), cell.clone()))
                        .collect();
                    assert_eq!(read.cells, truth, "an accepted load is the whole owner");
                }
            }
        }

        /// A worker that may stop anywhere. The next worker takes the lock over.
        async fn collect(&mut self) {
            let partition = Partition(self.random.random_range(0..2));
            let Some(lock) = self.lock(partition).await else {
                return;
            };
            let snapshot = match self.store.snapshot(partition, &lock).await.unwrap() {
                Snapshot::Taken(number) | Snapshot::Leftover(number) => number,
                Snapshot::Empty => SnapshotId::default(),
            };
            let count = self.random.random_range(1..6);
            let entries = self
                .store
                .scan(partition, storage_dirty::Map::Snapshot, 0, count)
                .await
                .unwrap()
                .entries;
            let mut wanted: Vec<_> = entries
                .iter()
                .filter_map(|e| e.mark.clone())
                .map(|mark| (mark.owner, mark.fields))
                .collect();
            // The rejected fields of this partition are tried again with the snapshot.
            let errors = self
                .store
                .errors(partition, 0, count)
                .await
                .unwrap()
                .entries;
            wanted.extend(
                errors
                    .into_iter()
                    .filter_map(|error| error.target)
                    .map(|(owner, field)| (owner, vec![field])),
            );
            let collected = self.store.collect(partition, &wanted, None).await.unwrap();
            let mut rows = Vec::new();
            for ((owner, _), read) in wanted.iter().zip(collected.reads) {
                let Some(header) = read.header else { continue };
                rows.extend(
                    read.cells
                        .into_iter()
                        .map(|(field, cell)| (owner.clone(), field, cell, header.version)),
                );
            }
            self.batches.push(Batch {
                partition,
                lock,
                epoch: collected.epoch,
                snapshot,
                entries,
                rows,
            });
        }

        /// The versioned upsert of some batch (R3). The fence rejects a batch of an earlier epoch.
        fn commit(&mut self, at: usize) {
            let Some(batch) = self
                .batches
                .get(at)
                .filter(|batch| batch.epoch.0 == self.epoch)
            else {
                return;
            };
            for (owner, field, cell, version) in batch.rows.clone() {
                let row = self
                    .rows
                    .entry((owner, field))
                    .or_insert((cell.clone(), version));
                if row.1 < version {
                    *row = (cell, version);
                }
            }
        }

        /// Commits the latest batch and settles it, or lets the cold tier reject its first mark.
        async fn settle(&mut self) {
            if self.batches.is_empty() {
                return;
            }
            let refuse = self.random.random_bool(0.2);
            if !refuse {
                self.commit(self.batches.len() - 1);
            }
            let Some(batch) = self
                .batches
                .pop()
                .filter(|batch| batch.epoch.0 == self.epoch)
            else {
                return;
            };
            let Batch {
                partition,
                lock,
                epoch,
                snapshot,
                entries,
                rows,
            } = batch;
            if refuse {
                let Some((entry, mark)) = entries
                    .into_iter()
                    .find_map(|entry| Some((entry.clone(), entry.mark?)))
                else {
                    return;
                };
                let fault = |field: &Field| Fault {
                    field: field.clone(),
                    version: entry.version,
                    code: 1406,
                    message: String::new(),
                };
                let faults = mark.fields.iter().map(fault).collect();
                let rejected = vec![Rejected {
                    leaves: Vec::new(),
                    source: Some(entry.clone()),
                    owner: Some(mark.owner.clone()),
                    faults,
                }];
                let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
                let reject = Reject {
                    partition,
                    lock,
                    epoch,
                    snapshot,
                    retry_min,
                    retry_max,
                    probation: false,
                    rejected,
                };
                self.rejected += usize::from(self.store.reject(&reject).await.is_ok());
                return;
            }
            let marks = entries.into_iter().collect();
            let landed = rows
                .iter()
                .map(|(_, _, _, version)| *version)
                .max()
                .unwrap_or_default();
            let rows = rows
                .into_iter()
                .map(|(owner, field, _, version)| LandedRow {
                    owner,
                    field,
                    version,
                    from: Version::ZERO,
                })
                .collect();
            let settle = Settle {
                partition,
                lock: Some(lock.clone()),
                epoch,
                snapshot,
                landed,
                marks,
                rows,
                probation: true,
            };
            self.landed += usize::from(
                self.store
                    .settle(&settle)
                    .await
                    .is_ok_and(|settled| settled.cleared > 0),
            );
            drop(self.store.unlock(&[partition], &lock).await);
        }

        /// The database comes back with its flushed rows.
        async fn crash(&mut self) {
            let flushed = &self.flushed.1;
            self.forgotten += self
                .rows
                .iter()
                .filter(|(name, row)| flushed.get(*name) != Some(*row))
                .count();
            self.rows = flushed.clone();
            self.adopt().await;
        }

        /// Takes a partition's lock for some worker.
        async fn lock(&mut self, partition: Partition) -> Option<Lock> {
            let lock = Lock {
                holder: "worker".into(),
                token: self.ids.next().to_string(),
            };
            let got = self
                .store
                .lock(&[partition], &lock, Duration::from_secs(2))
                .await
                .remove(0);
            (got == Ok(true)).then_some(lock)
        }

        /// A worker that makes lost marks live again, or remembers a window that leaves.
        async fn look(&mut self) {
            let partition = Partition(self.random.random_range(0..2));
            let Some(lock) = self.lock(partition).await else {
                return;
            };
            match self.store.probation(partition, &lock).await.unwrap() {
                Probation::Leaves(window) => self.left.push((self.steps, partition, window)),
                Probation::Lost => self.requeue(partition, &lock).await,
                Probation::Empty => {}
            }
            self.store
                .unlock(&[partition], &lock)
                .await
                .remove(0)
                .unwrap();
        }

        /// Makes some of the lost marks live again.
        async fn requeue(&mut self, partition: Partition, lock: &Lock) {
            for map in [Map::Expiring, Map::Landed] {
                let count = self.random.random_range(1..6);
                let entries = self
                    .store
                    .scan(partition, map, 0, count)
                    .await
                    .unwrap()
                    .entries;
                self.requeued +=
                    usize::try_from(self.store.requeue(partition, lock, &entries).await.unwrap())
                        .unwrap();
            }
        }

        /// Ends the probation of some marks. Their window began to leave before the last flush of
        /// the database, just then or long before.
        async fn expire(&mut self) {
            let flushed: Vec<_> = self
                .left
                .iter()
                .filter(|(step, ..)| *step < self.flushed.0)
                .cloned()
                .collect();
            if flushed.is_empty() {
                return;
            }
            let (_, partition, window) =
                flushed[flushed.len() - self.random.random_range(1..=flushed.len().min(3))];
            let Some(lock) = self.lock(partition).await else {
                return;
            };
            let count = self.random.random_range(1..6);
            let entries = self
                .store
                .scan(partition, Map::Expiring, 0, count)
                .await
                .unwrap()
                .entries;
            let expire = Expire {
                partition,
                lock: lock.clone(),
                window,
                entries,
            };
            self.expired += self
                .store
                .expire(&expire)
                .await
                .map_or(0, |gone| usize::try_from(gone).unwrap());
            self.store
                .unlock(&[partition], &lock)
                .await
                .remove(0)
                .unwrap();
        }

        /// Lands all marks that are left.
        async fn drain(&mut self) {
            self.store.limit(0);
            for _ in 0..10_000 {
                let peeks = self.store.peek(&[Partition(0), Partition(1)]).await;
                if peeks
                    .iter()
                    .flatten()
                    .all(|peek| peek.live + peek.snapshot + peek.errors == 0 && !peek.requeue)
                {
                    return;
                }
                self.batches.clear();
                self.clock.advance(Duration::from_secs(3));
                self.look().await;
                self.clock.advance(Duration::from_secs(3));
                self.collect().await;
                self.settle().await;
            }
            panic!("marks are left");
        }
    }
}

/// Nothing has landed that could be evicted, so the store tells its bound.
#[tokio::test]
async fn the_memory_of_the_embedded_mode_has_the_bound_of_its_settings() {
    let mut settings = storage_config::Settings::in_memory();
    settings.hot.embedded_bytes_max = 3 << 20;
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let hot = storage_dirty::open(&settings, clock).await.unwrap();
    let told = hot.tier.memory().await.unwrap();
    assert_eq!(told.first().map(|told| told.limit), Some(3 << 20));
}
