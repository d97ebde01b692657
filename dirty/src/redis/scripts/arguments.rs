//! Times as the scripts take them.

use std::time::Duration;

use storage_model::{Timestamp, Version};

/// Lua's numbers hold no more than 53 bits. A deadline so far away fails anyway.
pub(super) fn deadline_of(deadline: Timestamp) -> u64 {
    deadline.0.min(Version::MAX.get())
}

/// Whole milliseconds, at least 1, since Redis rejects a time to live of 0.
pub(crate) fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 3_155_760_000_000; // keeps sums with the present time far below 2^53 microseconds
    u64::try_from(duration.as_millis())
        .unwrap_or(CENTURY)
        .clamp(1, CENTURY)
}

/// The time to live of a key that may stay for ever, as the scripts have it.
pub(super) fn life(ttl: Option<Duration>) -> u64 {
    ttl.map_or(0, millis)
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .min(Version::MAX.get() / 4)
}
