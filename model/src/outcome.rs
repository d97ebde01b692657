//! How a caller can react to an error.

use std::time::Duration;

/// Whether the failed write was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not applied, and never will be.
    NotApplied,
    /// It was applied. A later step failed.
    Applied,
    /// It may have been applied. A repeat under the same operation id tells, within the deadline.
    Unknown,
}

/// Whether a retry makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same call fails again.
    Never,
    /// Read first. The data that the call was built on has changed.
    Reread,
    /// The same call may succeed after this long, under the same id if it had one.
    After(Duration),
    /// Repeat the same write under the same operation id. It is applied at most once, and the
    /// answer tells the outcome.
    SameId,
}
