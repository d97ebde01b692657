//! The SDK is a map. With eviction, landing, expiry and reopening in between, it answers as a plain
//! map does.
#![expect(clippy::expect_used, reason = "a test that can't go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use storage_config::{LandingSettings, SessionSettings, Settings};
use storage_landing::{Backlog, LandingWorker};
use storage_model::{Bytes, Cell, Change, Condition, Field, ManualClock, RandomIds, Timestamp};
use storage_sdk::{ByteOwner, Error, Kind, Storage};
use storage_tests::reference::{Done, OwnerModel, Refused};
use storage_tests::{rows, size};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{FIELDS, OWNERS, by, histories, runtime, value};

prop_state_machine! {
    #![proptest_config(histories(size(70, 150)))]
    #[test]
    fn the_sdk_answers_as_a_map_whatever_lands_expires_or_is_opened_again(sequential 1..40 => Sdk);
}

/// The actions of a game server, and the events around it.
#[derive(Debug, Clone)]
enum Step {
    /// One call that writes. With `absent`, it applies only if no named field is live.
    Write {
        owner: u8,
        changes: BTreeMap<&'static str, Change>,
        absent: bool,
    },
    /// Drops the cached data as soon as it has landed.
    Evict { owner: u8 },
    /// Lands one owner, in the caller's process.
    Flush { owner: u8 },
    /// A worker lands everything.
    Land,
    /// Hours pass, so that clean data expires.
    Later,
    /// All data lands, and the storage closes and opens again.
    Reopen,
}

/// The maps.
#[derive(Debug, Clone, Default)]
struct Maps {
    owners: BTreeMap<u8, OwnerModel>,
    /// Owners with changes that no worker has landed.
    marked: BTreeSet<u8>,
}

impl Maps {
    /// The expected answer of a write. The write is also applied to the maps unless it is rejected.
    fn write(
        &mut self,
        owner: u8,
        changes: &BTreeMap<&'static str, Change>,
        absent: bool,
    ) -> Result<Done, Kind> {
        if self.marked.contains(&owner)
            && changes
                .values()
                .any(|change| matches!(change, Change::Purge))
        {
            return Err(Kind::NotLanded);
        }
        let fields = changes
            .iter()
            .map(|(field, change)| (Field::new(field).expect("a name"), change.clone()));
        let condition = if absent {
            Condition::Absent
        } else {
            Condition::None
        };
        let mut fields: Vec<_> = fields.collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        let done = self
            .owners
            .entry(owner)
            .or_default()
            .after(&fields, condition)
            .map_err(|refused| match refused {
                Refused::NotInteger => Kind::NotInteger,
                Refused::Overflow => Kind::Overflow,
                Refused::Exists => Kind::Conflict,
                Refused::OutOfBounds => Kind::OutOfBounds,
            })?;
        if done.changed > 0 {
            self.marked.insert(owner);
        }
        self.owners.insert(owner, done.owner.clone());
        Ok(done)
    }
}

/// The changes of one call of the SDK are all of one kind.
fn changes() -> impl Strategy<Value = BTreeMap<&'static str, Change>> {
    let fields = || prop::sample::subsequence(FIELDS, 1..=FIELDS.len());
    let each = |change: Change| {
        fields().prop_map(move |fields| {
            fields
                .into_iter()
                .map(|field| (field, change.clone()))
                .collect()
        })
    };
    let sets = prop::collection::btree_map(
        prop::sample::select(FIELDS),
        value().prop_map(Change::Set),
        1..3,
    );
    let incrs = prop::collection::btree_map(
        prop::sample::select(FIELDS),
        by().prop_map(Change::Incr),
        1..3,
    );
    prop_oneof![4 => sets, 4 => incrs, 2 => each(Change::Remove), 1 => each(Change::Restore), 1 => each(Change::Purge)]
}

impl ReferenceStateMachine for Maps {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let write = (0..OWNERS, changes(), prop::bool::weighted(0.2));
        prop_oneof![
            10 => write.prop_map(|(owner, changes, absent)| {
                let absent = absent && changes.values().all(|change| matches!(change, Change::Set(_)));
                Step::Write { owner, changes, absent }
            }),
            2 => (0..OWNERS).prop_map(|owner| Step::Evict { owner }),
            1 => (0..OWNERS).prop_map(|owner| Step::Flush { owner }),
            2 => Just(Step::Land),
            1 => Just(Step::Later),
            1 => Just(Step::Reopen),
        ]
        .boxed()
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        match step {
            Step::Write {
                owner,
                changes,
                absent,
            } => drop(state.write(*owner, changes, *absent)),
            Step::Land | Step::Reopen => state.marked.clear(),
            Step::Evict { .. } | Step::Flush { .. } | Step::Later => {}
        }
        state
    }
}

/// An embedded storage. The test controls its time and its landing.
struct Sdk {
    runtime: Runtime,
    folder: TempDir,
    clock: Arc<ManualClock>,
    storage: Storage,
    /// The maps before the step under way.
    before: Maps,
}

impl Sdk {
    fn open() -> Self {
        let (runtime, folder) = (runtime(), tempfile::tempdir().expect("a folder"));
        let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
        let storage = runtime.block_on(open(&folder, &clock));
        Self {
            runtime,
            folder,
            clock,
            storage,
            before: Maps::default(),
        }
    }

    fn owner(&self, owner: u8) -> ByteOwner {
        self.storage
            .world("game", "eu")
            .and_then(|world| world.bytes().owner("player", u64::from(owner)))
            .expect("names")
    }

    fn read(&self, owner: u8) -> BTreeMap<String, Bytes> {
        let record = self
            .runtime
            .block_on(self.owner(owner).get_all())
            .expect("a read");
        record
            .iter()
            .map(|(field, value)| (field.to_string(), value.clone()))
            .collect()
    }

    /// The number of changed fields, and the counters.
    fn write(
        &self,
        owner: u8,
        changes: &BTreeMap<&'static str, Change>,
        absent: bool,
    ) -> Result<(u32, Vec<i64>), Error> {
        let owner = self.owner(owner);
        let names = || changes.keys().copied();
        let plain = match changes.values().next() {
            Some(Change::Set(_)) => {
                let fields = changes.iter().filter_map(|(field, change)| match change {
                    Change::Set(value) => Some((*field, value.clone())),
                    _ => None,
                });
                let write = owner.update(fields);
                if absent { write.if_absent() } else { write }
            }
            Some(Change::Incr(_)) => {
                let fields = changes.iter().filter_map(|(field, change)| match change {
                    Change::Incr(by) => Some((*field, *by)),
                    _ => None,
                });
                let counters = self
                    .runtime
                    .block_on(owner.incr_many(fields).into_future())?;
                let mut sorted: Vec<Field> = names()
                    .map(|name| Field::new(name).expect("a name"))
                    .collect();
                sorted.sort();
                let values = sorted
                    .iter()
                    .filter_map(|field| counters.get(field.as_str()))
                    .collect();
                return Ok((counters.ack().changed(), values));
            }
            Some(Change::Remove) => owner.remove(names()),
            Some(Change::Restore) => owner.restore(names()),
            _ => owner.purge(names()),
        };
        self.runtime
            .block_on(plain.into_future())
            .map(|ack| (ack.changed(), Vec::new()))
    }

    /// Lets a worker land everything.
    fn land(&self) {
        let landing = LandingSettings::default().with(|landing| {
            landing.interval = Duration::from_millis(1);
            landing.batch_rows = 4;
        });
        let (tiers, sessions) = (self.storage.tiers().clone(), SessionSettings::default());
        let worker = LandingWorker::new(tiers, &landing, &sessions, &RandomIds);
        let landed = async {
            let hot = self.storage.tiers().hot();
            while Backlog::read(hot).await.expect("a backlog").marks() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        self.runtime.block_on(worker.run(landed));
    }

    fn reopen(&mut self) {
        self.land();
        let report = self
            .runtime
            .block_on(self.storage.close(Duration::from_secs(30)));
        assert_eq!(report.under_way, 0);
        self.storage = self.runtime.block_on(open(&self.folder, &self.clock));
    }

    /// Database and maps are equal once all data has landed.
    fn check_rows(&self, maps: &Maps) {
        let url = format!("sqlite:{}", self.folder.path().join("game.db").display());
        let mut stored: BTreeMap<String, Cell> = BTreeMap::new();
        for row in self.runtime.block_on(rows(&url)).expect("rows") {
            stored.insert(
                row.name.clone(),
                Cell::from_row(row.is_del, Bytes::from(row.value)),
            );
        }
        let wanted = maps.owners.iter().flat_map(|(owner, model)| {
            model
                .cells
                .iter()
                .map(move |(field, cell)| (format!("player/{owner}/{field}"), cell.clone()))
        });
        assert_eq!(stored, wanted.collect::<BTreeMap<_, _>>(), "the rows");
    }
}

async fn open(folder: &TempDir, clock: &Arc<ManualClock>) -> Storage {
    let settings = Settings::embedded(folder.path().join("game.db"));
    let builder = Storage::builder(settings)
        .clock(Arc::clone(clock) as _)
        .landing(false);
    builder.open().await.expect("a storage")
}

impl StateMachineTest for Sdk {
    type SystemUnderTest = Self;
    type Reference = Maps;

    fn init_test(_: &Maps) -> Self {
        Self::open()
    }

    fn apply(mut sdk: Self, _: &Maps, step: Step) -> Self {
        let mut maps = sdk.before.clone();
        match &step {
            Step::Write {
                owner,
                changes,
                absent,
            } => {
                let wanted = maps
                    .write(*owner, changes, *absent)
                    .map(|done| (done.changed, done.counters));
                let got = sdk
                    .write(*owner, changes, *absent)
                    .map_err(|error| error.kind());
                assert_eq!(got, wanted, "{step:?}");
            }
            Step::Evict { owner } => drop(
                sdk.runtime
                    .block_on(sdk.owner(*owner).evict())
                    .expect("an eviction"),
            ),
            Step::Flush { owner } => {
                sdk.runtime
                    .block_on(sdk.owner(*owner).flush(Duration::from_secs(30)))
                    .expect("a flush");
            }
            Step::Land => sdk.land(),
            Step::Later => sdk.clock.advance(Duration::from_hours(5)),
            Step::Reopen => sdk.reopen(),
        }
        if let Step::Write { owner, .. } = &step {
            let model = maps.owners.entry(*owner).or_default();
            assert_eq!(sdk.read(*owner), model.live(), "after {step:?}");
        }
        sdk.before = <Maps as ReferenceStateMachine>::apply(sdk.before.clone(), &step);
        sdk
    }

    fn teardown(sdk: Self, maps: Maps) {
        for (owner, model) in &maps.owners {
            assert_eq!(sdk.read(*owner), model.live(), "owner {owner} at the end");
        }
        sdk.land();
        sdk.check_rows(&maps);
    }
}
