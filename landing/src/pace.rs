//! How much load the worker puts on the database: a step more while the database keeps up, half of
//! it when the database does not (AIMD).
//!
//! Additive increase and multiplicative decrease lead to the knee. Beyond the knee, more concurrent
//! work only waits longer: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for
//! Congestion Avoidance in Computer Networks" (1989).
//!
//! The pace compares the time of a transaction with the shortest time of any transaction. TCP Vegas
//! does this (Brakmo and Peterson, 1995), and for calls of services Netflix' "concurrency-limits"
//! (2018).
//!
//! A state machine without a clock. The caller measures and reports the times.

use std::time::Duration;

use storage_config::LandingSettings;

/// A transaction that takes this many times the shortest time waits for other work. Smaller factors
/// occur on any busy machine.
const STRAINED: f64 = 4.0;
/// The assumed strain after a decrease, until transactions of the new pace show the real one.
const UNKNOWN: f64 = 2.5;
/// The weight of the last transaction against all earlier ones. One slow transaction alone changes
/// nothing.
const WEIGHT: f64 = 0.25;
/// The largest batch takes this many steps of increase. One step is the smallest batch of a
/// database in trouble. A smaller batch costs hardly less, because most of its cost is not its
/// rows.
const STEPS: usize = 16;
/// The cost of a fence, in rows. It is a statement of its own.
const FENCE_ROWS: usize = 16;
/// This many bytes of values cost about as much as one row.
const ROW_BYTES: usize = 512;
/// The shortest time moves towards the present one by one part in this many. It moves at each slow
/// transaction while the load is already at its minimum. After some 40 such transactions the
/// present speed counts as normal.
const FORGET: u32 = 256;

/// This many transactions go alone at first.
const LESSONS: usize = 3;
/// Rows of the first batch, before the size of rows is known. At the default limit of a value that
/// is at most 64 MiB.
const FIRST_ROWS: usize = 64;

/// The content of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Rows.
    pub rows: usize,
    /// Bytes of their values.
    pub bytes: usize,
    /// Partitions with a checked fence.
    pub fences: usize,
}

impl Size {
    /// The whole cost, in rows without a value.
    fn work(self) -> u32 {
        let fences = self.fences.saturating_mul(FENCE_ROWS);
        let work = self
            .rows
            .saturating_add(self.bytes / ROW_BYTES)
            .saturating_add(fences);
        u32::try_from(work).unwrap_or(u32::MAX).max(1)
    }
}

/// The upper limits of the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a transaction.
    pub rows: usize,
    /// Bytes of values of a transaction, approximately.
    pub bytes: usize,
    /// Concurrent transactions.
    pub transactions: usize,
}

impl From<&LandingSettings> for Limits {
    fn from(settings: &LandingSettings) -> Self {
        let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            rows: size(settings.batch_rows),
            bytes: settings.batch_bytes,
            transactions: size(settings.connections),
        }
    }
}

/// How many rows a transaction takes, and how many transactions run at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    limits: Limits,
    rows: usize,
    transactions: usize,
    /// How many rows have about the allowed number of bytes, judged by the last batch.
    fitting: usize,
    /// The shortest time of a transaction of any size.
    least: Duration,
    /// The shortest time for each row of a transaction.
    least_each: Duration,
    /// The present time of transactions, as a multiple of the shortest time.
    strain: f64,
    /// Transactions since the last increase of their number.
    eased: usize,
    /// How many of the next transactions do not change the pace. The first ones only teach the
    /// shortest time. Transactions that began at an earlier pace say nothing about this one.
    outdated: usize,
}

impl Pace {
    /// Begins with one transaction at a time, which shows the speed of the database without other
    /// load.
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

    /// How many transactions can run at once.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.transactions
    }

    /// Reports the size of a batch that was read. The bytes of its rows set the size of the next
    /// batches.
    pub fn read(&mut self, size: Size) {
        let fitting = match size.bytes.checked_div(size.rows) {
            Some(average) => self.limits.bytes.checked_div(average).unwrap_or(usize::MAX),
            None => self.fitting.saturating_mul(2),
        };
        self.fitting = fitting.clamp(1, self.limits.rows);
    }

    /// Reports the time of a committed transaction.
    pub fn took(&mut self, size: Size, time: Duration) {
        let work = size.work();
        self.least = self.least.min(time);
        self.least_each = self.least_each.min(time / work);
        if self.outdated > 0 {
            self.outdated -= 1;
            return;
        }
        // The time without any other work, or somewhat more. The shortest time already includes the
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

    /// Reports a failed batch. It may have been too large for the time limit of an answer. So the
    /// next batches can shrink down to one row.
    pub fn failed(&mut self) {
        self.decrease(1);
    }

    /// By how many rows a batch grows.
    fn step(&self) -> usize {
        (self.limits.rows / STEPS).max(1)
    }

    /// Adds one step of rows after each transaction. Adds one transaction after as many as can run
    /// at once.
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

    /// A database that runs this many transactions at once as fast as one alone. More of them wait
    /// for each other.
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

        /// Runs this many transactions, always as many at once as the pace allows. Answers the
        /// smallest and the largest number at once.
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
