//! How large everything is.

use std::time::Duration;

use serde::Serialize;

/// How large worlds are and how long repetitions take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As small as possible: shows that every case runs, and nothing about speed.
    Smoke,
    /// All cases within 4 minutes.
    Quick,
    /// For figures that are to be told.
    Full,
}

impl Scale {
    /// The one of three values that is meant.
    pub fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// How long one repetition of a throughput takes.
    #[must_use]
    pub fn slice(self) -> Duration {
        Duration::from_millis(self.pick(10, 150, 600))
    }

    /// The database's buffers, in GiB: the largest world's rows fit in.
    #[must_use]
    pub fn database_gib(self) -> u32 {
        self.pick(1, 1, 6)
    }
}
