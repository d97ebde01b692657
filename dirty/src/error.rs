//! What a caller can do about a failure of the hot tier.

use storage_model::{Outcome, Partition};

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HotKind {
    /// The server can't be reached, is loading, failing over or busy.
    Unavailable,
    /// The server can be read and takes no writes: it can't save to its disk, or has too few
    /// replicas. Nothing was written.
    NoWrites,
    /// The connection broke or no answer came in time, after the command was sent.
    Interrupted,
    /// The partition has no record, or one of another incarnation. The caller prepares it (R14) and
    /// repeats.
    Unprepared(Partition),
    /// The server is at `maxmemory`. Nothing of the call changed anything.
    OutOfMemory,
    /// The server's `maxmemory-policy` may evict unlanded data; writes are refused until it is
    /// `noeviction` or `volatile-*`.
    Policy,
    /// The durability that was asked for can't be had from this server now: it has too few
    /// replicas, or no append-only file that it can wait for. Nothing was written.
    Durability,
    /// The mutation was applied, but is not known to be as safe as was asked for in the time that
    /// was given.
    NotReached,
    /// The lock is held by somebody else, or ran out.
    LockLost,
    /// The epoch moved; collect anew.
    EpochMoved,
    /// What an operator has to mend: a wrong user, password, right or certificate. A right that is
    /// missing in the middle of a script leaves the outcome unknown.
    Denied,
    /// Settings that can't work: an unknown scheme or host, an unreadable certificate, too old a
    /// server.
    Settings,
    /// The server answered something that this program does not understand, or a key has another
    /// type.
    Corrupt,
}

/// A failed call of the hot tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct HotError {
    /// What the caller can do.
    pub kind: HotKind,
    /// Whether the call took place.
    pub outcome: Outcome,
    /// What was attempted, such as "mutate".
    pub operation: &'static str,
    /// The root cause in one line; never a password.
    pub message: String,
}

impl HotError {
    /// An error of a call that did not take place.
    #[must_use]
    pub fn not_applied(kind: HotKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            outcome: Outcome::NotApplied,
            operation,
            message: message.into(),
        }
    }
}
