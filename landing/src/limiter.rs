//! How much the worker asks of the database: a fixed number of concurrent transactions, and batches
//! that are halved after a failure and doubled after a success.
//!
//! A failed batch may have been too large for the time limit of an answer. So a database in trouble
//! first gets small batches.

use std::sync::{Mutex, MutexGuard};

use storage_coalesce::locked;
use storage_config::LandingSettings;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The most rows of the first batch, before the size of rows is known. At the default limit of a
/// value that is at most 64 MiB.
const FIRST_ROWS: usize = 64;

/// The content of one transaction, or its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    /// Rows.
    pub(crate) rows: usize,
    /// Bytes of their values, approximately.
    pub(crate) bytes: usize,
}

/// The limits that the settings give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The largest batch.
    pub(crate) batch: Size,
    /// Concurrent transactions.
    pub(crate) transactions: usize,
}

impl From<&LandingSettings> for Limits {
    fn from(settings: &LandingSettings) -> Self {
        let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            batch: Size {
                rows: size(settings.batch_rows),
                bytes: settings.batch_bytes,
            },
            transactions: size(settings.connections),
        }
    }
}

/// Limits the transactions of one worker.
#[derive(Debug)]
pub(crate) struct Limiter {
    transactions: Semaphore,
    // A plain mutex: held for arithmetic only, never across an await.
    batch: Mutex<Batch>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits) -> Self {
        let transactions = limits.transactions.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            transactions: Semaphore::new(transactions),
            batch: Mutex::new(Batch::new(limits.batch)),
        }
    }

    /// Waits until another transaction may begin. It ends with the returned value. The semaphore is
    /// never closed, so this is never `None`.
    pub(crate) async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        self.transactions.acquire().await.ok()
    }

    /// How many rows the next batch takes.
    pub(crate) fn rows(&self) -> usize {
        self.batch().rows()
    }

    /// Reports a batch that landed.
    pub(crate) fn succeeded(&self, size: Size) {
        self.batch().succeeded(size);
    }

    /// Reports a batch that failed.
    pub(crate) fn failed(&self) {
        self.batch().failed();
    }

    fn batch(&self) -> MutexGuard<'_, Batch> {
        locked(&self.batch)
    }
}

/// The size of the next batches.
#[derive(Debug)]
struct Batch {
    largest: Size,
    /// How often both limits are halved at present. At most until one row is left.
    halvings: u32,
    /// The bytes of a row, on average over the last batch.
    row_bytes: usize,
}

impl Batch {
    fn new(largest: Size) -> Self {
        let largest = Size {
            rows: largest.rows.max(1),
            ..largest
        };
        Self {
            largest,
            halvings: largest
                .rows
                .div_ceil(FIRST_ROWS)
                .next_power_of_two()
                .ilog2(),
            row_bytes: 0,
        }
    }

    fn rows(&self) -> usize {
        let rows = self.largest.rows >> self.halvings;
        let fitting = (self.largest.bytes >> self.halvings).checked_div(self.row_bytes);
        fitting.map_or(rows, |fitting| rows.min(fitting)).max(1)
    }

    /// A batch without rows asked nothing of the database.
    fn succeeded(&mut self, size: Size) {
        if let Some(row_bytes) = size.bytes.checked_div(size.rows) {
            self.row_bytes = row_bytes;
            self.halvings = self.halvings.saturating_sub(1);
        }
    }

    fn failed(&mut self) {
        self.halvings = (self.halvings + 1).min(self.largest.rows.ilog2());
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const LARGEST: Size = Size {
        rows: 1_000,
        bytes: 1 << 20,
    };

    fn rows_of(row_bytes: usize) -> Size {
        Size {
            rows: 10,
            bytes: 10 * row_bytes,
        }
    }

    #[test]
    fn the_first_batches_are_small_and_each_success_doubles_them() {
        let mut batch = Batch::new(LARGEST);
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(batch.rows());
            batch.succeeded(rows_of(8));
        }
        assert_eq!(seen, [62, 125, 250, 500, 1_000, 1_000]);
    }

    #[test]
    fn each_failure_halves_batches_down_to_one_row_and_successes_bring_them_back() {
        let mut batch = Batch::new(LARGEST);
        (0..9).for_each(|_| batch.succeeded(rows_of(8)));
        batch.failed();
        assert_eq!(batch.rows(), 500);
        (0..99).for_each(|_| batch.failed());
        assert_eq!(batch.rows(), 1);
        batch.succeeded(Size::default());
        assert_eq!(batch.rows(), 1, "nothing was asked of the database");
        (0..9).for_each(|_| batch.succeeded(rows_of(8)));
        assert_eq!(batch.rows(), 1_000);
    }

    #[test]
    fn bytes_limit_a_batch_and_are_halved_too() {
        let mut batch = Batch::new(LARGEST);
        (0..9).for_each(|_| batch.succeeded(rows_of(1 << 18)));
        assert_eq!(batch.rows(), 4, "so many rows of 256 KiB have 1 MiB");
        batch.failed();
        assert_eq!(batch.rows(), 2);
        (0..2).for_each(|_| batch.succeeded(rows_of(1 << 22)));
        assert_eq!(batch.rows(), 1, "a larger row goes alone");
    }

    #[test]
    fn limits_without_sense_still_allow_one_row() {
        for largest in [Size::default(), Size { rows: 1, bytes: 0 }] {
            let mut batch = Batch::new(largest);
            batch.failed();
            batch.succeeded(rows_of(8));
            assert_eq!(batch.rows(), 1);
        }
    }

    #[test]
    fn a_transaction_waits_while_as_many_as_allowed_are_under_way() {
        let limiter = Limiter::new(Limits {
            batch: LARGEST,
            transactions: 2,
        });
        let begin = || limiter.begin().now_or_never().flatten();
        let (first, second) = (begin(), begin());
        assert!(first.is_some() && second.is_some() && begin().is_none());
        drop(first);
        assert!(begin().is_some());
    }
}
