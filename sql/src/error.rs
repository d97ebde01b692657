//! Errors of the cold tier, by the caller's possible reaction.

use storage_model::Partition;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColdKind {
    /// The database is away, overloaded, read-only or failing over. The same call may succeed
    /// later.
    Unwell,
    /// An operator must act: wrong password, missing rights, database, table or column, or a full
    /// disk. The call is retried, and an error is logged.
    Operator,
    /// Another program wrote the row: no version of this program writes such a row, for example a
    /// name with control characters. Other owners are not affected.
    Unreadable,
    /// The schema is newer than this program, or older and in use. Nothing was read or written.
    Schema,
    /// The settings name an impossible database.
    Settings,
}

/// A failed call of the cold tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct ColdError {
    /// The kind, which tells the caller's possible reaction.
    pub kind: ColdKind,
    /// The attempted operation, such as "load" or "connect".
    pub operation: &'static str,
    /// The root cause in one line, with the database's error number if there is one. Never a
    /// password.
    pub message: String,
}

/// Why the database rejected a row or statement because of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The database's error number. 0 if it gave none, for example for a connection that breaks
    /// each time the row is sent.
    pub code: u32,
    /// The database's message in one line.
    pub message: String,
}

/// Why a landing transaction did not commit, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LandError {
    /// These partitions' records did not match their fences. Nothing was written.
    #[error("the records of {} partitions have changed: collect them again", .0.len())]
    Fenced(Vec<Partition>),
    /// The database rejects something in the batch. Nothing was written. The caller bisects to find
    /// the row.
    #[error("the database rejects the batch: {} (error {})", .0.message, .0.code)]
    Refused(RowFault),
    /// The database is unwell, or the outcome of the commit is unknown. Landing the same rows again
    /// is harmless.
    #[error(transparent)]
    Cold(#[from] ColdError),
}
