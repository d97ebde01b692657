//! The clock of a simulated server: simulated time that can be set forward and back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use storage_model::{Clock, Timestamp};
use tokio::time::Instant;

/// The beginning of simulated time, in microseconds since 1970.
const BEGIN: u64 = 1_800_000_000_000_000;

/// A clock that follows tokio's time and may be wrong by any amount.
#[derive(Debug)]
pub struct SkewedClock {
    begun: Instant,
    skew_micros: AtomicI64,
}

impl SkewedClock {
    /// A clock that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            skew_micros: AtomicI64::new(0),
        }
    }

    /// Sets the clock forward.
    pub fn forward(&self, by: Duration) {
        self.skew_micros.fetch_add(micros(by), Ordering::SeqCst);
    }

    /// Sets the clock back.
    pub fn back(&self, by: Duration) {
        self.skew_micros.fetch_sub(micros(by), Ordering::SeqCst);
    }
}

impl Default for SkewedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let straight = Timestamp(BEGIN).plus(self.begun.elapsed()).0;
        Timestamp(straight.saturating_add_signed(self.skew_micros.load(Ordering::SeqCst)))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
