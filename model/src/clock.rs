//! The source of time. Every reading of the wall clock goes through [`Clock`], so that tests
//! control time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// A source of wall-clock time. The time may jump in either direction, and nothing breaks.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the wall clock"
        )]
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::default().plus(since)
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicU64::new(start.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    /// Sets the clock, also backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
