//! The engine in memory and the engine on Redis answer alike: the same calls in the same order get
//! the same answers.
#![expect(clippy::expect_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use storage_config::{HotSettings, RedisSettings};
use storage_dirty::{Hot, MemoryStore, RedisStore};
use storage_model::{ManualClock, Timestamp};
use storage_servers::RedisServer;
use tokio::runtime::Runtime;

use super::engine::Engine;
use super::step::{LandTo, Step, What, When};
use super::{FIELDS, OWNERS, change, histories, runtime};

prop_state_machine! {
    #![proptest_config(histories(300))]
    #[test]
    fn memory_and_redis_answer_alike(sequential 1..40 => Pair);
}

/// The test predicts no answer. Each engine is the other's reference.
#[derive(Debug, Clone)]
struct Calls;

impl ReferenceStateMachine for Calls {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        let when = prop_oneof![6 => Just(When::Always), 1 => Just(When::Absent), 1 => Just(When::Last), 1 => Just(When::Never)];
        let what = prop::sample::select(vec![What::Live, What::Cells, What::All, What::Names]);
        let to = prop_oneof![
            4 => Just(LandTo::Settled),
            1 => Just(LandTo::Half),
            1 => Just(LandTo::Commit),
            1 => Just(LandTo::Snapshot),
            1 => Just(LandTo::Rejected),
        ];
        let changes = prop::collection::btree_map(prop::sample::select(FIELDS), change(), 1..4);
        let mutate = (0..OWNERS, changes, when);
        prop_oneof![
            10 => mutate.prop_map(|(owner, changes, condition)| {
                Step::Mutate { owner, changes: changes.into_iter().collect(), condition }
            }),
            1 => Just(Step::Again),
            3 => (0..OWNERS, what).prop_map(|(owner, fields)| Step::Read { owner, fields }),
            2 => (0..OWNERS).prop_map(|owner| Step::Observe { owner }),
            2 => (0..8_usize).prop_map(|kept| Step::Fill { kept }),
            2 => (0..OWNERS).prop_map(|owner| Step::Evict { owner }),
            4 => (0..2_u32, to).prop_map(|(partition, to)| Step::Land { partition, to }),
            1 => (0..2_u32, any::<bool>()).prop_map(|(partition, rewound)| Step::Adopt { partition, rewound }),
        ]
        .boxed()
    }

    fn apply(state: Self, _: &Step) -> Self {
        state
    }
}

/// The runtime and the server that all histories share. Each history has a prefix of its own.
fn shared() -> &'static (Runtime, RedisServer) {
    static SHARED: OnceLock<(Runtime, RedisServer)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = runtime();
        let server = runtime
            .block_on(RedisServer::start(storage_servers::RedisOptions::default()))
            .expect("a server");
        (runtime, server)
    })
}

struct Pair {
    memory: Engine,
    redis: Engine,
}

impl Pair {
    fn compare(&mut self, step: &Step) {
        let answers = async {
            (
                self.memory.answer(step).await,
                self.redis.answer(step).await,
            )
        };
        let (memory, redis) = shared().0.block_on(answers);
        assert_eq!(memory, redis, "{step:?}");
    }
}

impl StateMachineTest for Pair {
    type SystemUnderTest = Self;
    type Reference = Calls;

    fn init_test(_: &Calls) -> Self {
        static HISTORIES: AtomicU32 = AtomicU32::new(0);
        let (runtime, server) = shared();
        let prefix = format!("h{}", HISTORIES.fetch_add(1, Ordering::Relaxed));
        let settings = RedisSettings::new(server.url().parse().expect("a URL")).with(|redis| {
            redis.partitions = 2;
            redis.prefix = prefix;
            redis.connections = 1;
        });
        let hot = HotSettings::default();
        let redis = runtime
            .block_on(RedisStore::open(&settings, &hot))
            .expect("a store");
        let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
        let memory = MemoryStore::new(&settings, &hot, clock);
        let (memory, redis) = runtime.block_on(async {
            (
                Engine::new(Hot::of(&Arc::new(memory))).await,
                Engine::new(Hot::of(&Arc::new(redis))).await,
            )
        });
        Self { memory, redis }
    }

    fn apply(mut pair: Self, _: &Calls, step: Step) -> Self {
        pair.compare(&step);
        pair
    }

    fn teardown(mut pair: Self, _: Calls) {
        let (memory, redis) = shared().0.block_on(async {
            (
                pair.memory.whole(OWNERS).await,
                pair.redis.whole(OWNERS).await,
            )
        });
        assert_eq!(memory, redis, "all that is visible at the end");
    }
}
