//! What a caller can do about a failure of the cold tier.

use storage_model::Partition;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColdKind {
    /// The database is away, overloaded, read-only or failing over. The same call may succeed
    /// later.
    Unwell,
    /// The operator has to act: wrong password, missing rights, database, table or column, a full
    /// disk. Retried, and reported loudly.
    Operator,
    /// A row holds what no version of this program writes, such as a name with control characters:
    /// somebody else wrote it. Other owners are not concerned.
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
    /// What the caller can do.
    pub kind: ColdKind,
    /// What was attempted, such as "load" or "connect".
    pub operation: &'static str,
    /// The root cause in one line, with the database's error number where it gave one; never a
    /// password.
    pub message: String,
}

/// Why the database refused what one row or statement holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The database's error number, or 0 if it gave none (a connection that breaks whenever the row
    /// is sent).
    pub code: u32,
    /// The database's message in one line.
    pub message: String,
}

/// Why a landing transaction did not commit, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LandError {
    /// These partitions' records did not match their fences. Nothing was written.
    #[error("the records of {} partitions moved; collect them anew", .0.len())]
    Fenced(Vec<Partition>),
    /// The database refuses something in the batch. Nothing was written; the caller bisects to find
    /// the row.
    #[error("the batch is refused: {} (error {})", .0.message, .0.code)]
    Refused(RowFault),
    /// The database is unwell, or the outcome of the commit is unknown. Landing the same rows again
    /// is harmless.
    #[error(transparent)]
    Cold(#[from] ColdError),
}
