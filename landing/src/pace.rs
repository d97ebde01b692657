//! How much is asked of the database at once: more bit by bit while it keeps up, half as soon as it
//! does not (AIMD).
//!
//! Additive increase and multiplicative decrease lead to the knee, beyond which more work at once
//! only waits for longer: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for
//! Congestion Avoidance in Computer Networks" (1989). That the database no longer keeps up is told
//! from what transactions take, against the least that any took: as in TCP Vegas (Brakmo and
//! Peterson, 1995), and for calls of services in Netflix' "concurrency-limits" (2018). A state
//! machine without a clock; whoever measures, tells it.

use std::time::Duration;

/// What takes so many times the least is a sign that it waits for other work. Less than that
/// happens on any busy machine.
const STRAINED: f64 = 4.0;
/// Where the strain is taken to be after a decrease, until transactions of the new pace tell.
const UNKNOWN: f64 = 2.5;
/// How much the last transaction counts beside those before it: one that stumbles alone changes
/// nothing.
const WEIGHT: f64 = 0.25;
/// The largest batch has so many steps of increase, and one of them is the least that a database in
/// trouble gets: below that a batch costs hardly less, since most of it is not its rows.
const STEPS: usize = 16;
/// What a fence costs, in rows: it is a statement of its own.
const FENCE_ROWS: usize = 16;
/// How many bytes of values cost about what a row costs by itself.
const ROW_BYTES: usize = 512;
/// The part by which the least is forgotten, at each transaction that is slow though as little is
/// asked as ever is. After some 40 of them that is how the database is now.
const FORGET: u32 = 256;

/// So many transactions go alone at first.
const LESSONS: usize = 3;
/// Rows of the first batch, before it is known how large rows are: at the default limit of a value
/// 64 MiB at the most.
const FIRST_ROWS: usize = 64;

/// What one transaction wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Rows.
    pub rows: usize,
    /// Bytes of their values.
    pub bytes: usize,
    /// Partitions whose fence was checked.
    pub fences: usize,
}

impl Size {
    /// All of it in rows without a value.
    fn work(self) -> u32 {
        let fences = self.fences.saturating_mul(FENCE_ROWS);
        let work = self
            .rows
            .saturating_add(self.bytes / ROW_BYTES)
            .saturating_add(fences);
        u32::try_from(work).unwrap_or(u32::MAX).max(1)
    }
}

/// The most that may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a transaction.
    pub rows: usize,
    /// Bytes of values of a transaction, about.
    pub bytes: usize,
    /// Transactions under way at once.
    pub transactions: usize,
}

/// How many rows a transaction takes, and how many transactions are under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    limits: Limits,
    rows: usize,
    transactions: usize,
    /// How many rows have about as many bytes as are allowed, as far as is known from those landed
    /// last.
    fitting: usize,
    /// The least that a transaction took, of whatever size.
    least: Duration,
    /// The least that a transaction took for each of its rows.
    least_each: Duration,
    /// How many times the least transactions take at present.
    strain: f64,
    /// Transactions since the last increase of their number.
    eased: usize,
    /// So many of the next transactions don't change the pace: the first ones teach what the least
    /// is, and those that were begun at an earlier pace say nothing about this one.
    outdated: usize,
}

impl Pace {
    /// Begins with one transaction at a time, which shows what the database takes when it does
    /// nothing else.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let limits = Limits {
            rows: limits.rows.max(1),
            transactions: limits.transactions.max(1),
            ..limits
        };
        Self {
            limits,
            rows: limits.rows,
            transactions: 1,
            fitting: FIRST_ROWS,
            least: Duration::MAX,
            least_each: Duration::MAX,
            strain: 1.0,
            eased: 0,
            outdated: LESSONS,
        }
    }

    /// How many rows a transaction takes.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.min(self.fitting).max(1)
    }

    /// How many transactions may be under way.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.transactions
    }

    /// A batch of this size was read: the next ones are sized by the bytes of its rows.
    pub fn read(&mut self, size: Size) {
        let fitting = match size.bytes.checked_div(size.rows) {
            Some(average) => self.limits.bytes.checked_div(average).unwrap_or(usize::MAX),
            None => self.fitting.saturating_mul(2),
        };
        self.fitting = fitting.clamp(1, self.limits.rows);
    }

    /// A transaction was committed and took so long.
    pub fn took(&mut self, size: Size, time: Duration) {
        let work = size.work();
        self.least = self.least.min(time);
        self.least_each = self.least_each.min(time / work);
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        // What it would take if nothing else went on, or somewhat more: the least is that of the
        // few rows of another transaction.
        let alone = self
            .least
            .saturating_add(self.least_each.saturating_mul(work));
        let strain = time.as_secs_f64() / alone.as_secs_f64().max(f64::MIN_POSITIVE);
        self.strain += (strain - self.strain) * WEIGHT;
        if self.strain < STRAINED {
            self.increase();
        } else if self.transactions > 1 || self.rows > self.step() {
            self.decrease(self.step());
        } else {
            self.least += time.saturating_sub(self.least) / FORGET;
            self.least_each += (time / work).saturating_sub(self.least_each) / FORGET;
        }
    }

    /// A batch failed. It may have been too large for the time that an answer may take, so the next
    /// ones may become as small as one row.
    pub fn failed(&mut self) {
        self.decrease(1);
    }

    /// By how many rows a batch grows.
    fn step(&self) -> usize {
        (self.limits.rows / STEPS).max(1)
    }

    /// One more step of rows after each transaction, one more transaction after as many as may be
    /// under way.
    fn increase(&mut self) {
        self.rows = self.rows.saturating_add(self.step()).min(self.limits.rows);
        self.eased += 1;
        if self.eased >= self.transactions && self.transactions < self.limits.transactions {
            self.transactions += 1;
            self.eased = 0;
        }
    }

    fn decrease(&mut self, rows_min: usize) {
        self.outdated = self.transactions - 1;
        self.rows = (self.rows / 2).max(rows_min.min(self.rows));
        self.transactions = (self.transactions / 2).max(1);
        self.eased = 0;
        self.strain = UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        rows: 1_000,
        bytes: 1 << 20,
        transactions: 64,
    };

    /// A database that does so many transactions side by side as fast as one alone; more of them
    /// wait for each other.
    struct Database {
        side_by_side: usize,
        slowness: u32,
    }

    impl Database {
        fn time(&self, size: Size, under_way: usize) -> Duration {
            let waits = u32::try_from(under_way.div_ceil(self.side_by_side)).unwrap();
            (Duration::from_micros(500) + Duration::from_micros(5) * size.work())
                * waits
                * self.slowness
        }

        /// So many transactions, always as many under way as the pace allows; answers the least and
        /// the most of them.
        fn land(&self, pace: &mut Pace, transactions: usize) -> (usize, usize) {
            let mut seen = (usize::MAX, 0);
            for _ in 0..transactions {
                let size = Size {
                    rows: pace.rows(),
                    bytes: pace.rows() * 64,
                    fences: 1,
                };
                pace.read(size);
                pace.took(size, self.time(size, pace.transactions()));
                seen = (
                    seen.0.min(pace.transactions()),
                    seen.1.max(pace.transactions()),
                );
            }
            seen
        }
    }

    #[test]
    fn the_pace_finds_the_knee_and_stays_there() {
        for knee in [1, 2, 5, 12] {
            let database = Database {
                side_by_side: knee,
                slowness: 1,
            };
            let mut pace = Pace::new(LIMITS);
            database.land(&mut pace, 2_000);
            let (least, most) = database.land(&mut pace, 10_000);
            assert!(
                least >= knee && most <= knee * 5 + 1,
                "{least} to {most} at a knee of {knee}"
            );
        }
    }

    #[test]
    fn a_database_that_keeps_up_is_asked_for_all_that_is_allowed() {
        let database = Database {
            side_by_side: 64,
            slowness: 1,
        };
        let mut pace = Pace::new(LIMITS);
        assert_eq!((pace.rows(), pace.transactions()), (FIRST_ROWS, 1));
        database.land(&mut pace, 3_000);
        assert_eq!((pace.rows(), pace.transactions()), (1_000, 64));
    }

    #[test]
    fn the_pace_falls_when_the_database_is_slowed_down_and_rises_when_that_ends() {
        let fast = Database {
            side_by_side: 2,
            slowness: 1,
        };
        let mut pace = Pace::new(Limits {
            transactions: 2,
            ..LIMITS
        });
        fast.land(&mut pace, 50);
        assert_eq!((pace.rows(), pace.transactions()), (1_000, 2));
        Database {
            slowness: 20,
            ..fast
        }
        .land(&mut pace, 10);
        assert_eq!((pace.rows(), pace.transactions()), (LIMITS.rows / STEPS, 1));
        fast.land(&mut pace, 20);
        assert_eq!((pace.rows(), pace.transactions()), (1_000, 2));
    }

    #[test]
    fn a_database_that_stays_slow_is_known_as_such_after_a_while() {
        let slow = Database {
            side_by_side: 2,
            slowness: 20,
        };
        let mut pace = Pace::new(Limits {
            transactions: 2,
            ..LIMITS
        });
        Database {
            slowness: 1,
            ..slow
        }
        .land(&mut pace, 50);
        slow.land(&mut pace, 30);
        assert_eq!(pace.transactions(), 1);
        slow.land(&mut pace, 100);
        assert_eq!((pace.rows(), pace.transactions()), (1_000, 2));
    }

    #[test]
    fn one_transaction_that_stumbles_changes_nothing() {
        let database = Database {
            side_by_side: 2,
            slowness: 1,
        };
        let mut pace = Pace::new(Limits {
            transactions: 2,
            ..LIMITS
        });
        database.land(&mut pace, 50);
        let (before, size) = (
            pace.clone(),
            Size {
                rows: 1_000,
                bytes: 64_000,
                fences: 1,
            },
        );
        pace.took(size, database.time(size, 2) * 10);
        assert_eq!(
            (pace.rows(), pace.transactions()),
            (before.rows(), before.transactions())
        );
    }

    #[test]
    fn a_batch_that_fails_is_halved_down_to_one_row_and_bytes_limit_it() {
        let mut pace = Pace::new(LIMITS);
        pace.read(Size {
            rows: 10,
            bytes: 10 << 18,
            fences: 1,
        });
        assert_eq!(pace.rows(), 4, "so many rows of 256 KiB have 1 MiB");
        pace.read(Size {
            rows: 10,
            bytes: 0,
            fences: 1,
        });
        assert_eq!(pace.rows(), 1_000);
        (0..20).for_each(|_| pace.failed());
        assert_eq!((pace.rows(), pace.transactions()), (1, 1));
    }
}
