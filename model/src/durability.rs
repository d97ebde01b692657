//! How safe a write must be before it is acknowledged.

use std::time::Duration;

/// How safe a write must be before it is acknowledged.
///
/// `timeout` is the time to wait once the hot tier has the write. When it runs out, the write fails
/// with the outcome `Applied`: the hot tier has the write and its mark, and the write lands later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The hot tier has the write and its mark. This takes one round trip.
    #[default]
    Cached,
    /// This number of replicas of the hot tier have the write, too.
    Replicated {
        /// The number of replicas, at least 1.
        replicas: u32,
        /// The time to wait for the replicas: 1 ms to 60 s.
        timeout: Duration,
    },
    /// The write is on disk, in the append-only file of the hot tier.
    Fsynced {
        /// The time to wait for the disk: 1 ms to 60 s.
        timeout: Duration,
    },
    /// The database has the write.
    Landed {
        /// The time to wait for the database: 1 ms to 60 s.
        timeout: Duration,
    },
}

impl Durability {
    /// The bounds of a timeout. A longer timeout would delay all writes that wait behind an
    /// unreachable replica.
    pub const TIMEOUT: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(60);

    /// Whether the numbers are within their bounds.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        match self {
            Self::Cached => true,
            Self::Replicated { replicas, timeout } => {
                *replicas > 0 && Self::TIMEOUT.contains(timeout)
            }
            Self::Fsynced { timeout } | Self::Landed { timeout } => Self::TIMEOUT.contains(timeout),
        }
    }
}
