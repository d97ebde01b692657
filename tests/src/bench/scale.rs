//! The scale of a run.

use std::time::Duration;

use serde::Serialize;

/// The size of worlds, and the length of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As small as possible. It shows that every case runs, and nothing about speed.
    Smoke,
    /// All cases within 4 minutes.
    Quick,
    /// For published figures.
    Full,
}

impl Scale {
    /// The one of three values that belongs to this scale.
    pub fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// The length of one repetition of a throughput.
    #[must_use]
    pub fn slice(self) -> Duration {
        Duration::from_millis(self.pick(10, 150, 600))
    }

    /// The database's buffers, in GiB. The largest world's rows fit in.
    #[must_use]
    pub fn database_gib(self) -> u32 {
        self.pick(1, 1, 6)
    }
}
