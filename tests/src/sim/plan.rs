//! What one seed plays: sizes, operations and faults. Each seed leaves out a random half of both, since some bugs show only where others do
//! not happen ("swarm testing", Groce and others, 2012).

use std::collections::BTreeMap;
use std::time::Duration;

use super::chance::Chance;
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
    Update UpdatePair UpdateIfVersion UpdateIfAbsent UpdateLanded Incr IncrTwo Remove Restore Purge Get GetAll Flush Evict Names
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
];

/// Faults that come from outside, at some time.
const GLOBAL: &[Fault] = &[
    Fault::RedisRestarts,
    Fault::RedisRewinds,
    Fault::RedisWiped,
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
    Fault::RowRefused,
];

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
    /// Owners that they share.
    pub owners: u64,
    /// Partitions.
    pub partitions: u32,
    /// The longest that anything takes by itself, milliseconds.
    pub delay_max: u64,
    /// The longest that a player waits between two operations, milliseconds.
    pub pause_max: u64,
    /// How long landed data stays.
    pub clean_ttl: Duration,
    /// How long it is remembered that an owner has no data.
    pub absent_ttl: Duration,
    /// How long locks outlive their holders.
    pub lock_ttl: Duration,
    /// Marks of one landing transaction.
    pub batch_rows: usize,
    /// Rows of an owner that is loaded whole.
    pub load_rows_max: u32,
    /// How long a write is repeated.
    pub deadline: Duration,
    /// What players do.
    pub operations: Vec<Operation>,
    /// What befalls single requests and statements.
    pub local: BTreeMap<Fault, u32>,
    /// What comes from outside.
    pub global: Vec<Fault>,
    /// The longest time between two faults from outside, milliseconds.
    pub calm_max: u64,
}

impl Plan {
    /// Draws a plan.
    #[must_use]
    pub fn draw(chance: &Chance) -> Self {
        let count = |from: u64, to: u64| from + chance.below(to - from + 1);
        let size = |from: u64, to: u64| usize::try_from(count(from, to)).unwrap_or(usize::MAX);
        let half = || chance.below(2) == 0;
        let mut operations: Vec<Operation> = Operation::ALL.iter().copied().filter(|_| half()).collect();
        operations.extend([Operation::Update, Operation::Get]);
        let rate = *chance.one(&[1, 1, 3]);
        let global: Vec<Fault> = GLOBAL.iter().copied().filter(|_| half()).collect();
        // Which version an owner has is not certain once Redis came back older, so no write is made to depend on it there; and of an
        // owner that is too large to be loaded whole nobody knows it.
        let forgets = global.iter().any(|fault| matches!(fault, Fault::RedisRewinds | Fault::RedisWiped));
        let rewinds = global.contains(&Fault::RedisRewinds);
        if rewinds {
            operations.retain(|operation| *operation != Operation::UpdateIfVersion);
        }
        let load_rows_max = if forgets { 4_096 } else { *chance.one(&[2, 4_096, 4_096]) };
        Self {
            games: size(1, 3),
            workers: size(1, 3),
            players: count(2, 5),
            operations_each: count(10, 30),
            owners: count(1, 4),
            partitions: u32::try_from(count(1, 4)).unwrap_or(1),
            delay_max: count(1, 4),
            pause_max: *chance.one(&[5, 50, 400, 2_000]),
            clean_ttl: chance.millis(50, 3_000),
            absent_ttl: chance.millis(50, 2_000),
            lock_ttl: chance.millis(500, 3_000),
            batch_rows: size(1, 8),
            load_rows_max,
            deadline: chance.millis(1_000, 4_000),
            operations,
            local: LOCAL.iter().filter(|_| half()).map(|(fault, chance)| (*fault, chance * rate)).collect(),
            global,
            calm_max: *chance.one(&[100, 400, 1_500]),
        }
    }

    /// Whether a fault may happen.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.local.contains_key(&fault) || self.global.contains(&fault)
    }
}
