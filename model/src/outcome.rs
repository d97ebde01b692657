//! What a caller can do about an error.

use std::time::Duration;

/// Whether the write that failed took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did not, and will not.
    NotApplied,
    /// It did; what failed came after it.
    Applied,
    /// It may have. A repeat under the same operation id tells, within the deadline.
    Unknown,
}

/// Whether trying again makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same call fails again.
    Never,
    /// Read first: what the call was built on has changed.
    Reread,
    /// The same call may succeed after this long.
    After(Duration),
    /// Repeat the same write under the same operation id: it is applied at most once, and its
    /// answer tells.
    SameId,
}
