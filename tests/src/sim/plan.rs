//! The plan of one seed: sizes, operations and faults. Each seed leaves out a random half of the
//! operations and of the faults, since some bugs show only where others do not happen ("swarm
//! testing", Groce and others, 2012). The remaining ones have random weights, and faults and delays
//! have a point where they come most. One fault is certain in each plan, in turn, so that as many
//! seeds as there are faults plan all of them.

use std::time::Duration;

use super::chance::{Chance, Weather};
use super::fault::Fault;

macro_rules! operations {
    ($($name:ident)*) => {
        /// An action of a player.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the call of that name")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

operations! {
    Update UpdatePair UpdateAll UpdateSome UpdateIfVersion UpdateIfAbsent UpdateLanded SetCounter Incr IncrLarge IncrTwo Remove RemovePair
    Restore RestorePair Purge PurgePair Get GetAll Flush Evict Names Together
}

/// Faults of single requests and statements, with their chance in a million.
const LOCAL: &[(Fault, u32)] = &[
    (Fault::RequestLost, 6_000),
    (Fault::ReplyLost, 10_000),
    (Fault::RequestLate, 4_000),
    (Fault::ReplyLate, 4_000),
    (Fault::RequestCopied, 15_000),
    (Fault::CallDropped, 30_000),
    (Fault::Deadlock, 15_000),
    (Fault::StatementLost, 10_000),
    (Fault::CommitUnknown, 80_000),
    (Fault::DatabaseSlow, 10_000),
    (Fault::RowsLate, 100_000),
];

/// Faults from outside, at some time.
const GLOBAL: &[Fault] = &[
    Fault::RedisRestarts,
    Fault::RedisRewinds,
    Fault::RedisDemoted,
    Fault::RedisWiped,
    Fault::RedisFlushed,
    Fault::RedisHangs,
    Fault::ScriptsFlushed,
    Fault::RedisFull,
    Fault::KeyEvicted,
    Fault::ClockForward,
    Fault::ClockBack,
    Fault::WorkerKilled,
    Fault::WorkerStopped,
    Fault::WorkerEnds,
    Fault::GameKilled,
    Fault::GameStopped,
    Fault::ReadOnly,
    Fault::DatabaseAway,
    Fault::DatabaseForgets,
    Fault::RowRefused,
];

/// Points where faults and delays may come most. Points between a read and the use of its result
/// are named twice, because the most can change there unnoticed.
const FOCUSES: &[&str] = &[
    "update",
    "mutate",
    "transact",
    "observe",
    "fill",
    "fill",
    "snapshot",
    "settle",
    "settle",
    "reject",
    "end_collect",
    "end_collect",
    "scan",
    "read",
    "lock",
    "renew",
    "adopt",
    "load",
    "load",
    "load",
    "fence",
    "upsert",
    "commit",
];

/// The guests with sessions.
#[derive(Debug, Clone, Copy)]
pub struct Sessions {
    /// The number of guests at once.
    pub guests: u64,
    /// The number of times that each guest wants an owner.
    pub visits: u64,
    /// The number of owners that they share.
    pub owners: u64,
}

/// The plan of a seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of game servers.
    pub games: usize,
    /// The number of landing workers.
    pub workers: usize,
    /// The number of players at once.
    pub players: u64,
    /// The number of operations of each player.
    pub operations_each: u64,
    /// The number of owners that they share at a time.
    pub owners: u64,
    /// The number of turns after which a player's owners move on by one. 0 means never.
    pub moves_on: u64,
    /// The number of texts of each owner.
    pub texts: usize,
    /// The number of counters of each owner.
    pub counters: usize,
    /// The number of partitions.
    pub partitions: u32,
    /// The factors by which a process may be slower than others. Each process draws one of these.
    pub slowness: &'static [u64],
    /// The longest wait of a player between two operations, in milliseconds.
    pub pause_max: u64,
    /// The time for which landed data stays.
    pub clean_ttl: Duration,
    /// The time for which Redis remembers that an owner has no data.
    pub absent_ttl: Duration,
    /// The time for which locks outlive their holders.
    pub lock_ttl: Duration,
    /// The number of marks of one landing transaction.
    pub batch_rows: u32,
    /// The largest number of rows of an owner that is loaded whole.
    pub load_rows_max: u32,
    /// The time for which a write is repeated.
    pub deadline: Duration,
    /// The time for which landed marks stay on probation. Zero means no probation.
    pub probation: Duration,
    /// The guests with sessions, if there are any.
    pub sessions: Option<Sessions>,
    /// The time for which a holder of sessions must be silent until they lapse.
    pub lease: Duration,
    /// The operations of players, each as often as its weight.
    pub operations: Vec<Operation>,
    /// The delays, and the faults of single requests and statements.
    pub weather: Weather,
    /// The faults from outside.
    pub global: Vec<Fault>,
    /// The longest time between two faults from outside, in milliseconds.
    pub calm_max: u64,
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(seed: u64, chance: &Chance) -> Self {
        let count = |from: u64, to: u64| from + chance.below(to - from + 1);
        let size = |from: u64, to: u64| usize::try_from(count(from, to)).unwrap_or(usize::MAX);
        let certain = Fault::ALL
            .iter()
            .copied()
            .cycle()
            .nth(usize::try_from(seed % 1_000).unwrap_or_default());
        let is_in = |fault: &Fault| certain == Some(*fault) || chance.below(2) == 0;
        let global = possible(GLOBAL.iter().copied().filter(is_in).collect(), certain);
        let rate = *chance.one(&[1, 1, 3]);
        let local = LOCAL
            .iter()
            .filter(|(fault, _)| is_in(fault))
            .map(|(fault, chance)| (*fault, chance * rate));
        let weather = Weather {
            delay_max: count(2, 5),
            faults: local.collect(),
            focus: (chance.below(3) > 0).then(|| *chance.one(FOCUSES)),
        };
        let on_probation = global.contains(&Fault::DatabaseForgets) || chance.below(8) == 0;
        let pause_max = *chance.one(&[1, 5, 50, 400, 2_000]);
        let sessions = (chance.below(2) == 0).then(|| Sessions {
            guests: count(2, 4),
            visits: count(2, 8),
            owners: count(1, 3),
        });
        Self {
            games: size(1, 3),
            workers: size(1, 3),
            players: count(2, 5),
            operations_each: count(10, 30) * if pause_max < 50 { 2 } else { 1 },
            owners: *chance.one(&[count(1, 2), count(1, 4), count(4, 12)]),
            moves_on: *chance.one(&[0, 0, 1, 5]),
            texts: size(1, 2),
            counters: size(1, 2),
            partitions: u32::try_from(count(1, 4)).unwrap_or(1),
            slowness: chance.one::<&[u64]>(&[&[1], &[1, 1, 30], &[1, 100]]),
            pause_max,
            clean_ttl: *chance.one(&[
                chance.millis(5, 50),
                chance.millis(50, 500),
                chance.millis(50, 3_000),
            ]),
            absent_ttl: *chance.one(&[chance.millis(50, 2_000), Duration::from_secs(60)]),
            lock_ttl: chance.millis(500, 3_000),
            batch_rows: u32::try_from(count(1, 8)).unwrap_or(1),
            // Once Redis came back older, the version of an owner that is too large to be loaded
            // whole is unknown. No session holds such an owner.
            load_rows_max: if sessions.is_some() || global.iter().any(is_loss) {
                4_096
            } else {
                *chance.one(&[2, 4_096, 4_096])
            },
            deadline: chance.millis(1_000, 4_000),
            probation: if on_probation {
                chance.millis(1_000, 4_000)
            } else {
                Duration::ZERO
            },
            lease: if sessions.is_some() {
                Duration::from_secs(1)
            } else {
                Duration::from_secs(10)
            },
            sessions,
            operations: weighed(chance),
            weather,
            global,
            calm_max: *chance.one(&[200, 1_000, 4_000]),
        }
    }

    /// Whether Redis may lose data.
    #[must_use]
    pub fn redis_loses(&self) -> bool {
        self.global.iter().any(is_loss)
    }

    /// Whether a fault may happen.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.weather.faults.contains_key(&fault) || self.global.contains(&fault)
    }
}

/// Whether Redis loses data by it.
pub(super) fn is_loss(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::RedisRewinds | Fault::RedisDemoted | Fault::RedisWiped | Fault::RedisFlushed
    )
}

/// The faults of these that may happen together. Data that both Redis and the database forget would
/// be lost.
fn possible(global: Vec<Fault>, certain: Option<Fault>) -> Vec<Fault> {
    let forgets = certain == Some(Fault::DatabaseForgets) || !global.iter().any(is_loss);
    global
        .into_iter()
        .filter(|fault| {
            if forgets {
                !is_loss(fault)
            } else {
                *fault != Fault::DatabaseForgets
            }
        })
        .collect()
}

/// A random half of the operations, each as often as its weight.
fn weighed(chance: &Chance) -> Vec<Operation> {
    let kept = Operation::ALL
        .iter()
        .filter(|_| chance.below(2) == 0)
        .chain(&[Operation::Update, Operation::Get]);
    kept.flat_map(|operation| std::iter::repeat_n(*operation, *chance.one(&[1, 1, 2, 5])))
        .collect()
}
