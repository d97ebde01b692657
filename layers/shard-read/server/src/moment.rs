//! A clock that counts the time in which the machine sleeps.
//!
//! The age of an answer is a difference of two moments. A clock that stands still while the machine sleeps
//! would tell too small an age afterwards.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment of a clock that shows this time.
    #[must_use]
    pub const fn at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The time since an earlier moment. Zero if it is later.
    ///
    /// ```
    /// use shard_read_server::Moment;
    /// use std::time::Duration;
    /// let [early, late] = [2, 5].map(|s| Moment::at(Duration::from_secs(s)));
    /// assert_eq!(late.since(early), Duration::from_secs(3));
    /// assert_eq!(early.since(late), Duration::ZERO);
    /// ```
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Tells moments.
pub trait MomentClock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;
}

/// The machine's clock since its start, with the time in which it slept (`CLOCK_BOOTTIME`).
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl MomentClock for BootClock {
    fn now(&self) -> Moment {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Moment(Duration::new(seconds, nanos))
    }
}
