//! What a server tells of itself in each reply.

use std::fmt;
use std::time::Duration;

use crate::ShardRange;

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It holds no range.
    Standby,
    /// It holds a range, and loads it.
    Loading,
    /// It answers for its range.
    Serving,
    /// It has lost or released its range, and answers for some seconds more.
    Draining,
}

impl State {
    /// Whether a server in this state answers to keys.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(self, Self::Serving | Self::Draining)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standby => "standby",
            Self::Loading => "loading",
            Self::Serving => "serving",
            Self::Draining => "draining",
        })
    }
}

/// What a server holds, as it told in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Its range. None if it holds none.
    pub range: Option<ShardRange>,
    /// Its state.
    pub state: State,
    /// The name of its data centre.
    pub dc: String,
    /// Every change that landed longer ago than this is in its answers. None: it does not know.
    pub age: Option<Duration>,
    /// The number of the plan that the range is of. 0: of no plan.
    pub plan: u32,
}

impl ShardInfo {
    /// A server without a range.
    #[must_use]
    pub fn standby(dc: impl Into<String>) -> Self {
        Self {
            range: None,
            state: State::Standby,
            dc: dc.into(),
            age: None,
            plan: 0,
        }
    }

    /// A server with a range of a plan.
    #[must_use]
    pub fn holding(dc: impl Into<String>, state: State, range: ShardRange, plan: u32) -> Self {
        Self {
            range: Some(range),
            state,
            plan,
            ..Self::standby(dc)
        }
    }

    /// The same with an age.
    #[must_use]
    pub fn aged(self, age: Option<Duration>) -> Self {
        Self { age, ..self }
    }

    /// Whether the server answers to this sharding key.
    #[must_use]
    pub fn answers(&self, key: u64) -> bool {
        self.state.answers() && self.range.is_some_and(|range| range.contains(key))
    }
}
