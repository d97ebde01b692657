//! How safe a write is to be before it is acknowledged.

use std::time::Duration;

/// What a write waits for before it is acknowledged.
///
/// `timeout` is how long to wait once the hot tier has the write. If it runs out, the write fails
/// with the outcome `Applied`: it is in the hot tier with its mark and lands later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The hot tier has it, with its mark. One round trip.
    #[default]
    Cached,
    /// So many replicas of the hot tier have it too.
    Replicated {
        /// How many, at least 1.
        replicas: u32,
        /// How long to wait for them; 1 ms to 60 s.
        timeout: Duration,
    },
    /// The hot tier's append-only file has it, on its disk.
    Fsynced {
        /// How long to wait for the disk; 1 ms to 60 s.
        timeout: Duration,
    },
    /// The database has it.
    Landed {
        /// How long to wait for the database; 1 ms to 60 s.
        timeout: Duration,
    },
}

impl Durability {
    /// The bounds of a timeout. Longer ones would hold up all that waits behind a replica that is
    /// away.
    pub const TIMEOUT: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(60);

    /// Whether its numbers are possible.
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
