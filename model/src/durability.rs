//! How safe a write must be before it is acknowledged.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::parse_duration;

/// How safe a write must be before it is acknowledged.
///
/// `timeout` is the time to wait once the hot tier has the write. When it runs out, the write fails
/// with the outcome `Applied`: the hot tier has the write and its mark, and the write lands later.
///
/// As text it is `cached`, or such as `replicated 2 200ms`, `fsynced 200ms` or `landed 2s`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
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

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = |timeout: &Duration| humantime::format_duration(*timeout);
        match self {
            Self::Cached => f.write_str("cached"),
            Self::Replicated { replicas, timeout } => {
                write!(f, "replicated {replicas} {}", within(timeout))
            }
            Self::Fsynced { timeout } => write!(f, "fsynced {}", within(timeout)),
            Self::Landed { timeout } => write!(f, "landed {}", within(timeout)),
        }
    }
}

/// Text that is no durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no durability; it is \"cached\", or such as \"replicated 2 200ms\", \"fsynced 200ms\" or \"landed 2s\""
)]
pub struct NoDurability;

/// The numbers may lie outside of their bounds: [`Durability::is_possible`] tells.
impl FromStr for Durability {
    type Err = NoDurability;

    fn from_str(text: &str) -> Result<Self, NoDurability> {
        let within = |text: &str| parse_duration(text).map_err(|_| NoDurability);
        match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
            ("cached", "") => Ok(Self::Cached),
            ("fsynced", timeout) => within(timeout).map(|timeout| Self::Fsynced { timeout }),
            ("landed", timeout) => within(timeout).map(|timeout| Self::Landed { timeout }),
            ("replicated", rest) => {
                let (replicas, timeout) = rest.split_once(' ').ok_or(NoDurability)?;
                Ok(Self::Replicated {
                    replicas: replicas.parse().map_err(|_| NoDurability)?,
                    timeout: within(timeout)?,
                })
            }
            _ => Err(NoDurability),
        }
    }
}

impl TryFrom<String> for Durability {
    type Error = NoDurability;

    fn try_from(text: String) -> Result<Self, NoDurability> {
        text.parse()
    }
}

impl From<Durability> for String {
    fn from(durability: Durability) -> Self {
        durability.to_string()
    }
}
