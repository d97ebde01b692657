//! One engine of the hot tier, driven step by step. Its answers become words that hold for any
//! engine.
#![expect(clippy::expect_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use storage_dirty::{
    Adopt, Collected, Entry, Fault, Fields, Filled, Hot, LandedRow, Load, Lock, Mutated, Read,
    Refusal, Reject, Rejected, Settle, Snapshot, SnapshotId,
};
use storage_model::{
    Attempt, Cell, Condition, Epoch, Field, Mutation, OpId, Owner, Partition, Version,
};

use super::step::{LandTo, Step, What, When};
use super::words::Words;

/// An engine, and a cold tier of its own.
pub(super) struct Engine {
    store: Hot,
    words: Words,
    last_of: BTreeMap<Owner, Version>,
    rows: BTreeMap<(Owner, Field), (Cell, Version)>,
    kept: Vec<Load>,
    sent: Option<Mutation>,
    steps: usize,
}

const PARTITIONS: u32 = 2;

pub(super) fn owner(number: u8) -> Owner {
    Owner::new("game", "eu", "player", &number.to_string()).expect("names")
}

fn field(name: &str) -> Field {
    Field::new(name).expect("a name")
}

fn lock() -> Lock {
    Lock {
        holder: "worker".to_owned(),
        token: "token".to_owned(),
    }
}

impl Engine {
    /// A fresh engine with two partitions, both adopted.
    pub(super) async fn new(store: Hot) -> Self {
        assert_eq!(store.partitions.partition_count(), PARTITIONS);
        let engine = Self {
            store,
            words: Words::default(),
            last_of: BTreeMap::new(),
            rows: BTreeMap::new(),
            kept: Vec::new(),
            sent: None,
            steps: 0,
        };
        for partition in 0..PARTITIONS {
            engine.adopt(Partition(partition), false).await;
        }
        engine
    }

    /// Carries out a step and describes the answer in words.
    pub(super) async fn answer(&mut self, step: &Step) -> String {
        self.steps += 1;
        match step {
            Step::Mutate {
                owner: number,
                changes,
                condition,
            } => {
                let (owner, deadline) = (
                    owner(*number),
                    self.store
                        .tier
                        .time()
                        .await
                        .expect("the time")
                        .plus(Duration::from_secs(20)),
                );
                let condition = match condition {
                    When::Always => Condition::None,
                    When::Absent => Condition::Absent,
                    When::Last => {
                        Condition::Version(self.last_of.get(&owner).copied().unwrap_or_default())
                    }
                    When::Never => Condition::Version(Version::ZERO),
                };
                let changes = changes
                    .iter()
                    .map(|(name, change)| (field(name), change.clone()))
                    .collect();
                let id = OpId::new((self.steps as u128).to_be_bytes());
                let attempt = if self.steps.is_multiple_of(2) {
                    Attempt::First
                } else {
                    Attempt::Named
                };
                let mutation = Mutation::new(owner, changes, id, deadline)
                    .when(condition)
                    .as_attempt(attempt);
                self.sent = attempt.is_named().then(|| mutation.clone());
                self.mutate(mutation).await
            }
            Step::Again => match self.sent.clone() {
                Some(mutation) => self.mutate(mutation).await,
                None => "nothing was sent".to_owned(),
            },
            Step::Read {
                owner: number,
                fields,
            } => {
                let names = || ["bag", "gold", ":v"].map(field).to_vec();
                let fields = match fields {
                    What::Live => Fields::Live(names()),
                    What::Cells => Fields::Cells(names()),
                    What::All => Fields::All,
                    What::Names => Fields::Names,
                };
                let owner = owner(*number);
                let read = self
                    .store
                    .owners
                    .read(&[Read {
                        owner: owner.clone(),
                        fields,
                    }])
                    .await
                    .remove(0);
                self.words.read(&owner, &read.expect("a read"))
            }
            Step::Observe { owner: number } => {
                let load = self.observe(&owner(*number)).await;
                let told = self.words.observed(&load.owner, load.observed);
                self.kept.push(load);
                told
            }
            Step::Fill { kept } => match self
                .kept
                .get(kept.checked_rem(self.kept.len()).unwrap_or_default())
            {
                Some(load) => match self
                    .store
                    .owners
                    .fill(std::slice::from_ref(load))
                    .await
                    .remove(0)
                    .expect("a fill")
                {
                    Filled::Accepted(read) => {
                        format!("accepted {}", self.words.read(&load.owner, &read))
                    }
                    Filled::Refused => "refused".to_owned(),
                },
                None => "nothing was observed".to_owned(),
            },
            Step::Evict { owner: number } => {
                format!(
                    "{:?}",
                    self.store.owners.evict(&[owner(*number)]).await.remove(0)
                )
            }
            Step::Land { partition, to } => self.land(Partition(*partition), *to).await,
            Step::Adopt { partition, rewound } => self.adopt(Partition(*partition), *rewound).await,
        }
    }

    /// All data of all owners, for the end of a history.
    pub(super) async fn whole(&mut self, owners: u8) -> String {
        let mut told = Vec::new();
        for owner in 0..owners {
            told.push(
                self.answer(&Step::Read {
                    owner,
                    fields: What::All,
                })
                .await,
            );
        }
        for partition in 0..PARTITIONS {
            let peek = self
                .store
                .partitions
                .peek(&[Partition(partition)])
                .await
                .remove(0)
                .expect("sizes");
            told.push(format!("{} {} {}", peek.live, peek.snapshot, peek.errors));
        }
        told.join("\n")
    }

    async fn mutate(&mut self, mutation: Mutation) -> String {
        let first = self
            .store
            .owners
            .mutate(&[(mutation.clone(), Vec::new())])
            .await
            .remove(0)
            .expect("a write");
        let Mutated::Load(observed) = first else {
            return self.mutated(&mutation, first);
        };
        let load = Load {
            observed,
            ..self.observe(&mutation.owner).await
        };
        let told = self.words.observed(&mutation.owner, observed);
        let second = self
            .store
            .owners
            .mutate(&[(mutation.clone(), vec![load])])
            .await
            .remove(0)
            .expect("a write");
        format!("load {told}, then {}", self.mutated(&mutation, second))
    }

    fn mutated(&mut self, mutation: &Mutation, mutated: Mutated) -> String {
        match mutated {
            Mutated::Applied(applied) => {
                if applied.changed > 0 {
                    self.words
                        .gave(&mutation.owner, applied.version, self.steps);
                    self.last_of.insert(mutation.owner.clone(), applied.version);
                }
                format!(
                    "applied {} {} {:?}",
                    self.words.version(&mutation.owner, applied.version),
                    applied.changed,
                    applied.counters
                )
            }
            Mutated::Refused(Refusal::Version(version)) => {
                format!(
                    "another version: {}",
                    self.words.version(&mutation.owner, version)
                )
            }
            Mutated::Refused(refusal) => format!("{refusal:?}"),
            Mutated::Load(observed) => {
                format!("load {}", self.words.observed(&mutation.owner, observed))
            }
        }
    }

    async fn observe(&self, owner: &Owner) -> Load {
        let observed = self
            .store
            .owners
            .observe(std::slice::from_ref(owner))
            .await
            .remove(0)
            .expect("an observation");
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

    async fn land(&mut self, partition: Partition, to: LandTo) -> String {
        assert_eq!(
            self.store
                .partitions
                .lock(&[partition], &lock(), Duration::from_secs(3_600))
                .await,
            [Ok(true)]
        );
        let snapshot = self
            .store
            .marks
            .snapshot(partition, &lock())
            .await
            .expect("a snapshot");
        let mut told = format!("{snapshot:?}");
        if let Snapshot::Taken(number) | Snapshot::Leftover(number) = snapshot
            && !matches!(to, LandTo::Snapshot)
        {
            let mut entries = self
                .store
                .marks
                .scan(partition, storage_dirty::Map::Snapshot, 0, 1_000)
                .await
                .expect("a page")
                .entries;
            entries.sort_by(|a, b| a.raw.cmp(&b.raw));
            told += &self.land_entries(partition, number, entries, to).await;
        }
        self.store
            .partitions
            .unlock(&[partition], &lock())
            .await
            .remove(0)
            .expect("the lock");
        told
    }

    async fn land_entries(
        &mut self,
        partition: Partition,
        snapshot: SnapshotId,
        mut entries: Vec<Entry>,
        to: LandTo,
    ) -> String {
        if matches!(to, LandTo::Half) {
            entries.truncate(entries.len().div_ceil(2));
        }
        let marks: Vec<_> = entries
            .iter()
            .filter_map(|entry| entry.mark.clone())
            .collect();
        let wanted: Vec<_> = marks
            .iter()
            .map(|mark| (mark.owner.clone(), mark.fields.clone()))
            .collect();
        let collected = self
            .store
            .marks
            .collect(partition, &wanted, None)
            .await
            .expect("values");
        let reads: Vec<_> = wanted
            .iter()
            .zip(&collected.reads)
            .map(|((owner, _), read)| format!("{owner} {}", self.words.read(owner, read)))
            .collect();
        let told = format!(", values {reads:?}");
        if matches!(to, LandTo::Rejected) {
            return format!(
                "{told}, {}",
                self.reject(partition, snapshot, &collected, entries).await
            );
        }
        let rows = self.commit(&wanted, &collected);
        if matches!(to, LandTo::Commit) {
            return told;
        }
        let landed = rows
            .iter()
            .map(|row| row.version)
            .max()
            .unwrap_or_default()
            .max(collected.landed);
        let settle = Settle {
            partition,
            lock: Some(lock()),
            epoch: collected.epoch,
            snapshot,
            landed,
            marks: entries,
            rows,
            probation: false,
        };
        format!(
            "{told}, {:?}",
            self.store.marks.settle(&settle).await.expect("a settle")
        )
    }

    fn commit(&mut self, wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Vec<LandedRow> {
        let mut rows = Vec::new();
        for ((owner, _), read) in wanted.iter().zip(&collected.reads) {
            let Some(header) = read.header else { continue };
            for (field, cell) in &read.cells {
                rows.push(LandedRow {
                    owner: owner.clone(),
                    field: field.clone(),
                    version: header.version,
                    from: header.born,
                });
                let row = self
                    .rows
                    .entry((owner.clone(), field.clone()))
                    .or_insert((Cell::Purged, Version::ZERO));
                if row.1 < header.version {
                    *row = (cell.clone(), header.version);
                }
            }
        }
        rows
    }

    async fn reject(
        &self,
        partition: Partition,
        snapshot: SnapshotId,
        collected: &Collected,
        entries: Vec<Entry>,
    ) -> String {
        let rejected = entries
            .into_iter()
            .zip(&collected.reads)
            .map(|(entry, read)| {
                let mark = entry.mark.clone();
                let version = read.header.map_or(entry.version, |header| header.version);
                let fault = |field: &Field| Fault {
                    field: field.clone(),
                    version,
                    code: 1,
                    message: "no".to_owned(),
                };
                // All fields but the first have landed of a mark with several fields.
                let faults = mark
                    .iter()
                    .flat_map(|mark| &mark.fields)
                    .take(1)
                    .map(fault)
                    .collect();
                Rejected {
                    leaves: Vec::new(),
                    owner: mark.map(|mark| mark.owner),
                    faults,
                    source: Some(entry),
                }
            });
        let second = Duration::from_secs(1);
        let reject = Reject {
            partition,
            lock: lock(),
            epoch: collected.epoch,
            snapshot,
            retry_min: second,
            retry_max: second,
            probation: true,
            rejected: rejected.collect(),
        };
        self.store.marks.reject(&reject).await.expect("a reject");
        let mut errors = self
            .store
            .marks
            .errors(partition, 0, 1_000)
            .await
            .expect("a page")
            .entries;
        errors.sort_by(|a, b| (&a.raw, &a.target).cmp(&(&b.raw, &b.target)));
        let told = errors.iter().map(|entry| {
            let version = entry
                .target
                .as_ref()
                .map(|(owner, _)| self.words.version(owner, entry.version));
            format!("{:?} {version:?} {}", entry.target, entry.attempts)
        });
        told.collect::<Vec<_>>().join(", ")
    }

    async fn adopt(&self, partition: Partition, rewound: bool) -> String {
        let seen = self
            .store
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .expect("a state");
        let (epoch, landed) = seen
            .record
            .as_ref()
            .map_or((0, Version::ZERO), |record| (record.epoch.0, record.landed));
        // Like a landing that this hot tier never knew.
        let last_version = if rewound {
            Version::new(landed.get().max(self.words.newest().get()) + 1_000_000)
        } else {
            Some(landed)
        };
        let last_version = last_version.expect("a version");
        let adopt = Adopt {
            partition,
            seen,
            epoch: Epoch(epoch + 1),
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version,
            landed_here: false,
            compare_all: false,
            feed: storage_model::Position::ZERO,
            database: None,
        };
        format!("{:?}", self.store.partitions.adopt(&[adopt]).await)
    }
}
