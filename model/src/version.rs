//! Numbers that order things.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The order of writes, in microseconds. Each later write of an owner has a greater version. 0
/// means "never written".
///
/// A version is `max(last version of the partition + 2, time of the hot tier)`. It stays below 2^53
/// until the year 2255, so that Lua's numbers hold it exactly. A larger version is never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(u64);

impl Version {
    /// The version of an owner that was never written.
    pub const ZERO: Self = Self(0);
    /// The largest version that is ever given: 2^53 − 1.
    pub const MAX: Self = Self((1 << 53) - 1);
    const HOUR: u64 = 3_600_000_000;

    /// A version, if it is at most [`Version::MAX`].
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// The version that is higher by `by`, at most [`Version::MAX`].
    #[must_use]
    pub fn plus(self, by: u64) -> Self {
        Self(self.0.saturating_add(by).min(Self::MAX.0))
    }

    /// How far versions leap, in microseconds, when the hot tier came back older than the landed
    /// data. The leap is one to sixteen hours, and differs among sixteen consecutive epochs.
    ///
    /// So versions that the hot tier gave and forgot are not given to other writes. This holds also
    /// if it comes back older again before anything has landed. It does not hold if the hot tier
    /// forgot more than an hour and its clock is behind by more than that, too.
    #[must_use]
    pub fn rewind_leap(epoch: Epoch) -> u64 {
        Self::HOUR * (1 + epoch.0 % 16)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A number.
impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        Self::new(number).ok_or_else(|| {
            let max = Self::MAX;
            D::Error::custom(format!("version {number} is above {max}"))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often a partition's hot tier was replaced. Both tiers keep the number. A landing transaction
/// of another epoch fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment: microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment plus `later`, at most the largest timestamp.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(later.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// The time from `earlier` to this moment. It is zero if `earlier` lies after this moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error as ValueError, U64Deserializer};

    use super::*;

    #[test]
    fn serde_reads_a_version_from_its_number_and_refuses_one_that_is_never_given() {
        let read = |number: u64| {
            let deserializer: U64Deserializer<ValueError> = number.into_deserializer();
            Version::deserialize(deserializer)
        };
        assert_eq!(read(17), Ok(Version(17)));
        let refused = read(Version::MAX.get() + 1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "version 9007199254740992 is above 9007199254740991"
        );
    }
}
