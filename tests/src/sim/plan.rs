//! What one seed plays: sizes, operations and faults. Each seed leaves out a random half of both,
//! since some bugs show only where others do not happen ("swarm testing", Groce and others, 2012);
//! what it keeps has weights of its own, and faults and delays a point where they come most. One
//! fault is in the plan for certain, each in its turn, so that as many seeds as there are faults
//! plan all of them.

use std::time::Duration;

use super::chance::{Chance, Weather};
use super::fault::Fault;

macro_rules! operations {
    ($($name:ident)*) => {
        /// What a player does.
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
    Restore RestorePair Purge PurgePair Get GetAll Flush Evict Names
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

/// Faults that come from outside, at some time.
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

/// Points where faults and delays may come most. Those are named twice where most may happen behind
/// somebody's back: between what was read and what is done with it.
const FOCUSES: &[&str] = &[
    "update",
    "mutate",
    "observe",
    "fill",
    "fill",
    "snapshot",
    "settle",
    "settle",
    "park",
    "check_part",
    "check_part",
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

/// Those who have sessions.
#[derive(Debug, Clone, Copy)]
pub struct Sessions {
    /// How many there are at once.
    pub guests: u64,
    /// How many times each of them wants an owner.
    pub visits: u64,
    /// Owners that they share.
    pub owners: u64,
}

/// What a seed plays.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Game servers.
    pub games: usize,
    /// Landing workers.
    pub workers: usize,
    /// Players at once, and what each of them does.
    pub players: u64,
    /// Operations of each player.
    pub operations_each: u64,
    /// Owners that they share at a time.
    pub owners: u64,
    /// After so many turns of a player its owners move on by one; never if it is 0.
    pub moves_on: u64,
    /// Texts, and counters, that each owner has.
    pub texts: usize,
    /// As above.
    pub counters: usize,
    /// Partitions.
    pub partitions: u32,
    /// How many times as long as others a process takes for everything; one of these.
    pub slowness: &'static [u64],
    /// The longest that a player waits between two operations, milliseconds.
    pub pause_max: u64,
    /// How long landed data stays.
    pub clean_ttl: Duration,
    /// How long it is remembered that an owner has no data.
    pub absent_ttl: Duration,
    /// How long locks outlive their holders.
    pub lock_ttl: Duration,
    /// Marks of one landing transaction.
    pub batch_rows: u32,
    /// Rows of an owner that is loaded whole.
    pub load_rows_max: u32,
    /// How long a write is repeated.
    pub deadline: Duration,
    /// How long landed marks stay on probation; zero if they don't.
    pub probation: Duration,
    /// Who has sessions, if anybody has.
    pub sessions: Option<Sessions>,
    /// For how long a holder of sessions must be silent until they lapse.
    pub lease: Duration,
    /// What players do, each operation as often as its weight.
    pub operations: Vec<Operation>,
    /// How long things take, and what befalls single requests and statements.
    pub weather: Weather,
    /// What comes from outside.
    pub global: Vec<Fault>,
    /// The longest time between two faults from outside, milliseconds.
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
            // Nobody knows the version of an owner that is too large to be loaded whole, once Redis
            // came back older; no session holds it.
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

    /// Whether Redis may lose something.
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

/// Whether Redis loses something by it.
pub(super) fn is_loss(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::RedisRewinds | Fault::RedisDemoted | Fault::RedisWiped | Fault::RedisFlushed
    )
}

/// Of these faults those that may happen together: what both Redis and the database forget is lost.
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
