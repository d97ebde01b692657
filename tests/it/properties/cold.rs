//! SQLite and MariaDB answer alike: the same calls in the same order get the same answers.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use storage_config::SqlSettings;
use storage_model::{Cell, Epoch, Field, Owner, Partition, Row, Scope, Stamp, Version};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_sql::{Batch, Cold, Fence, LandError, PartitionRecord, Raise};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{FIELDS, OWNERS, histories, runtime, value};

prop_state_machine! {
    #![proptest_config(histories(100))]
    #[test]
    fn sqlite_and_mariadb_answer_alike(sequential 1..30 => Pair);
}

/// A call to both engines. Versions, epochs and `landed` are small numbers, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Land {
        rows: Vec<(u8, &'static str, Cell, u64)>,
        fences: Vec<(u32, u64, u64, u64)>,
    },
    Load {
        owners: Vec<u8>,
        rows_max: usize,
    },
    LoadFields {
        owner: u8,
        fields: Vec<&'static str>,
    },
    LoadNewest {
        owner: u8,
    },
    Owners {
        after: Option<u8>,
        limit: usize,
        logic_type: &'static str,
    },
    Partitions {
        partitions: Vec<u32>,
    },
    Raise {
        seen: Vec<(u32, u64)>,
    },
}

/// The test predicts no answer. Each engine is the other's reference.
#[derive(Debug, Clone)]
struct Calls;

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![4 => value().prop_map(Cell::Live), 1 => value().prop_map(Cell::Removed), 1 => Just(Cell::Purged)]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FIELDS)
}

impl ReferenceStateMachine for Calls {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let owners = || prop::collection::vec(0..OWNERS, 0..4);
        let rows = prop::collection::vec((0..OWNERS, name(), cell(), 1..6_u64), 0..6);
        // Most fences match, since nothing would be written otherwise.
        let fence = (
            0..2_u32,
            prop_oneof![4 => Just(0_u64), 1 => 0..2_u64],
            prop_oneof![4 => Just(0_u64), 1 => 0..6_u64],
            0..6_u64,
        );
        let fences = prop::collection::vec(fence, 0..3);
        prop_oneof![
            6 => (rows, fences).prop_map(|(rows, fences)| Step::Land { rows, fences }),
            2 => (owners(), 0..4_usize).prop_map(|(owners, rows_max)| Step::Load { owners, rows_max }),
            1 => (0..OWNERS, prop::collection::vec(name(), 0..3)).prop_map(|(owner, fields)| Step::LoadFields { owner, fields }),
            1 => (0..OWNERS).prop_map(|owner| Step::LoadNewest { owner }),
            1 => (prop::option::of(0..OWNERS), 0..4_usize, prop::sample::select(["guild", "player"].as_slice()))
                .prop_map(|(after, limit, logic_type)| Step::Owners { after, limit, logic_type }),
            1 => prop::collection::vec(0..2_u32, 0..3).prop_map(|partitions| Step::Partitions { partitions }),
            1 => prop::collection::vec((0..2_u32, 0..2_u64), 0..3).prop_map(|seen| Step::Raise { seen }),
        ]
        .boxed()
    }

    fn apply(state: Self, _: &Step) -> Self {
        state
    }
}

/// Both databases, which all histories share. Each history has its own world and partitions in
/// them.
struct Shared {
    runtime: Runtime,
    stores: [Cold; 2],
    _mariadb: MariaDbServer,
    _folder: TempDir,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (runtime, folder) = (runtime(), tempfile::tempdir().expect("a folder"));
        let mariadb = runtime
            .block_on(MariaDbServer::start(MariaDbOptions::default()))
            .expect("a server");
        let file = format!("sqlite:{}", folder.path().join("cold.db").display());
        let open = |url: String| {
            runtime
                .block_on(storage_sql::open(&SqlSettings::new(
                    url.parse().expect("a URL"),
                )))
                .expect("a store")
        };
        let stores = [open(file), open(mariadb.url())];
        Shared {
            runtime,
            stores,
            _mariadb: mariadb,
            _folder: folder,
        }
    })
}

/// The data of one history.
struct Pair {
    scope: Scope,
    first_partition: u32,
}

impl Pair {
    fn owner(&self, owner: u8) -> Owner {
        self.scope
            .owner(
                if owner == 0 { "guild" } else { "player" },
                &owner.to_string(),
            )
            .expect("names")
    }

    fn partition(&self, partition: u32) -> Partition {
        Partition(self.first_partition + partition)
    }

    fn row(&self, (owner, field, cell, number): &(u8, &'static str, Cell, u64)) -> Row {
        Row {
            owner: self.owner(*owner),
            field: field_of(field),
            cell: cell.clone(),
            version: version(*number),
        }
    }

    fn batch(
        &self,
        rows: &[(u8, &'static str, Cell, u64)],
        fences: &[(u32, u64, u64, u64)],
    ) -> Batch {
        let fences = fences
            .iter()
            .map(|(partition, epoch, landed, reaches)| Fence {
                partition: self.partition(*partition),
                epoch: Epoch(*epoch),
                stamp: Stamp::NONE,
                landed: version(*landed),
                reaches: version(*reaches.max(landed)),
                database: None,
            });
        Batch {
            whole: false,
            trial: false,
            events: Vec::new(),
            leads: Vec::new(),
            fences: fences.collect(),
            rows: rows.iter().map(|row| self.row(row)).collect(),
        }
    }

    /// The answer of one engine, as text.
    async fn answer(&self, store: &Cold, step: &Step) -> String {
        match step {
            Step::Land { rows, fences } => {
                match store.landing.land(&self.batch(rows, fences)).await {
                    Err(LandError::Cold(error)) => panic!("{error}"),
                    landed => format!("{landed:?}"),
                }
            }
            Step::Load { owners, rows_max } => {
                let owners: Vec<Owner> = owners.iter().map(|owner| self.owner(*owner)).collect();
                format!(
                    "{:?}",
                    store.rows.load(&owners, *rows_max).await.expect("a load")
                )
            }
            Step::LoadFields { owner, fields } => {
                let fields: Vec<Field> = fields.iter().map(|field| field_of(field)).collect();
                let mut rows = store
                    .rows
                    .load_fields(&self.owner(*owner), &fields)
                    .await
                    .expect("a load");
                rows.sort_by(|a, b| a.field.cmp(&b.field));
                format!("{rows:?}")
            }
            Step::LoadNewest { owner } => {
                format!(
                    "{:?}",
                    store
                        .rows
                        .load_newest(&self.owner(*owner))
                        .await
                        .expect("a load")
                )
            }
            Step::Owners {
                after,
                limit,
                logic_type,
            } => {
                let after = after.map(|owner| self.owner(owner));
                format!(
                    "{:?}",
                    store
                        .rows
                        .owners(&self.scope, logic_type, after.as_ref(), *limit)
                        .await
                        .expect("owners")
                )
            }
            Step::Partitions { partitions } => {
                let partitions: Vec<_> = partitions
                    .iter()
                    .map(|partition| self.partition(*partition))
                    .collect();
                told(
                    &store
                        .partitions
                        .partitions(&partitions)
                        .await
                        .expect("records"),
                )
            }
            Step::Raise { seen } => {
                let raise = |(partition, epoch): &(u32, u64)| {
                    Raise::by_one(self.partition(*partition), Epoch(*epoch))
                };
                let raises: Vec<_> = seen.iter().map(raise).collect();
                let raised = store.partitions.raise(&raises).await.expect("records");
                let moved: Vec<bool> = raised.iter().map(|raised| raised.moved).collect();
                let records: Vec<PartitionRecord> =
                    raised.iter().map(|raised| raised.record).collect();
                format!("{} {moved:?}", told(&records))
            }
        }
    }

    fn compare(&self, step: &Step) {
        let Shared {
            runtime,
            stores: [sqlite, mariadb],
            ..
        } = shared();
        let answers = async {
            (
                self.answer(sqlite, step).await,
                self.answer(mariadb, step).await,
            )
        };
        let (sqlite, mariadb) = runtime.block_on(answers);
        assert_eq!(sqlite, mariadb, "{step:?}");
    }
}

fn field_of(name: &str) -> Field {
    Field::new(name).expect("a name")
}

fn version(number: u64) -> Version {
    Version::new(number).expect("a small number")
}

impl StateMachineTest for Pair {
    type SystemUnderTest = Self;
    type Reference = Calls;

    fn init_test(_: &Calls) -> Self {
        static HISTORIES: AtomicU32 = AtomicU32::new(0);
        let number = HISTORIES.fetch_add(1, Ordering::Relaxed);
        let pair = Self {
            scope: Scope::new(&format!("game{number}"), "eu").expect("names"),
            first_partition: number * 2,
        };
        // A fence matches a record of epoch 0 only if the record exists.
        pair.compare(&Step::Raise {
            seen: vec![(0, 1), (1, 1)],
        });
        pair
    }

    fn apply(pair: Self, _: &Calls, step: Step) -> Self {
        pair.compare(&step);
        pair
    }

    fn teardown(pair: Self, _: Calls) {
        pair.compare(&Step::Load {
            owners: (0..OWNERS).collect(),
            rows_max: 100,
        });
        pair.compare(&Step::Partitions {
            partitions: vec![0, 1],
        });
    }
}

/// Records without the identity of the database, which always differs.
fn told(records: &[PartitionRecord]) -> String {
    let told = records
        .iter()
        .map(|record| (record.partition, record.epoch, record.last_version));
    format!("{:?}", told.collect::<Vec<_>>())
}
