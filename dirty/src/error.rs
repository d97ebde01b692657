//! How a caller can react to a failure of the hot tier.

use storage_model::{Outcome, Partition};

/// The kind of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HotKind {
    /// The server can't be reached, is loading, failing over or busy.
    Unavailable,
    /// The server can be read but takes no writes. It can't save to its disk, or has too few
    /// replicas. Nothing was written.
    NoWrites,
    /// The connection broke or no answer came in time, after the command was sent.
    Interrupted,
    /// The partition has no record, or a record of another incarnation. The caller prepares the
    /// partition (R14) and repeats the call.
    Unprepared(Partition),
    /// The server is at `maxmemory`. The call changed nothing.
    OutOfMemory,
    /// An owner has so many fields that have not landed that its mark takes no further one. The call
    /// changed nothing.
    Backlog,
    /// The server's `maxmemory-policy` may evict unlanded data. Writes fail until it is
    /// `noeviction` or `volatile-*`.
    Policy,
    /// The server can't give the requested durability now. It has too few replicas, or no
    /// append-only file that it can wait for. Nothing was written.
    Durability,
    /// The mutation was applied, but the requested durability was not confirmed within the timeout.
    NotReached,
    /// Somebody else holds the lock, or the lock ran out.
    LockLost,
    /// The epoch changed. The caller must collect again.
    EpochMoved,
    /// An operator must act: a user, password, right or certificate is wrong. If a right is missing
    /// in the middle of a script, the outcome is unknown.
    Denied,
    /// The settings can't work: an unknown scheme or host, an unreadable certificate, or too old a
    /// server.
    Settings,
    /// This program does not understand the server's answer, or a key has another type.
    Corrupt,
}

/// A failed call of the hot tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct HotError {
    /// The kind of the failure.
    pub kind: HotKind,
    /// Whether the call was applied.
    pub outcome: Outcome,
    /// The operation, such as "mutate".
    pub operation: &'static str,
    /// The root cause in one line, never with a password.
    pub message: String,
}

impl HotError {
    /// An error of a call that was not applied.
    #[must_use]
    pub fn not_applied(kind: HotKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            outcome: Outcome::NotApplied,
            operation,
            message: message.into(),
        }
    }

    /// Whether the server did not answer: the connection broke, or its time was up, or there was no
    /// server that answers.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        matches!(self.kind, HotKind::Interrupted | HotKind::Unavailable)
    }
}
