//! Time that all processes of a run share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the machine's monotonic clock. All processes have the same one.
pub type Micros = u64;

/// Now.
#[must_use]
pub fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(time.tv_nsec / 1_000).unwrap_or_default()
}

/// A duration in microseconds.
#[must_use]
pub fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
