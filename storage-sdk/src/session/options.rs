//! How sessions begin, and how often they save by themselves.

use std::time::Duration;

/// What a start does if another session holds the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It fails as [`Held`](crate::Kind::Held), at once.
    Fail,
    /// It waits until the owner is free, and fails as `Held` if that takes too long.
    Wait {
        /// The longest wait.
        at_most: Duration,
    },
    /// It asks the holder for the owner, and waits. The holder saves at once, and its game is told;
    /// see [`Session::asked`](crate::Session::asked).
    Ask {
        /// How long the holder has to end its session.
        after: Duration,
        /// What happens then.
        then: Otherwise,
    },
    /// It takes the owner at once. Edits that the holder has not saved are lost.
    Steal,
}

/// What a start does if the holder that it asked does not end its session in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It fails as [`Held`](crate::Kind::Held).
    Fail,
    /// It takes the owner. Edits that the holder has not saved are lost.
    Steal,
}

/// When a session saves by itself. It does so only if something was edited since the last save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Autosave {
    /// Never: the game saves.
    Off,
    /// About so often. The first save comes at a random moment within it, so that many sessions
    /// that begin together are spread.
    Every(Duration),
}

/// How sessions begin and save.
///
/// ```
/// use std::time::Duration;
/// use storage_sdk::{Autosave, OnConflict, SessionOptions};
///
/// let defaults = SessionOptions::default();
/// assert_eq!(defaults.autosave, Autosave::Every(Duration::from_secs(60)));
/// let strict = SessionOptions { on_conflict: OnConflict::Fail, ..SessionOptions::default() };
/// assert_eq!(strict.within, Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// What a start does if another session holds the owner. Default: it asks, and takes the owner
    /// after 10 s.
    pub on_conflict: OnConflict,
    /// When a session saves by itself. Default: every 60 s.
    pub autosave: Autosave,
    /// How long a start may take in all. Default: 60 s. After the hot tier was replaced, nothing
    /// starts for a lease and its tenth.
    pub within: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            on_conflict: OnConflict::Ask {
                after: Duration::from_secs(10),
                then: Otherwise::Steal,
            },
            autosave: Autosave::Every(Duration::from_mins(1)),
            within: Duration::from_mins(1),
        }
    }
}
