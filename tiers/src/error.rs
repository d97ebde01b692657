//! [`TierError`]: a failure of work that needs both tiers.

use storage_dirty::{HotError, HotKind};
use storage_model::Owner;
use storage_sql::{ColdError, ColdKind, RowFault};

use crate::Mismatch;

/// A failure of work that needs both tiers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// The hot tier failed.
    #[error(transparent)]
    Hot(#[from] HotError),
    /// The cold tier failed.
    #[error(transparent)]
    Cold(#[from] ColdError),
    /// The database refuses a field of the owner; its value stays in the hot tier.
    #[error("{owner}: the database refuses field {field:?}: {} (error {})", .fault.message, .fault.code)]
    Refused {
        /// Whose field.
        owner: Owner,
        /// Which field.
        field: String,
        /// The database's words.
        fault: RowFault,
    },
    /// The tiers do not belong together. Nothing was written.
    #[error("{0}")]
    Unpaired(Box<Mismatch>),
    /// Others changed the same owner or partition each time it was tried. Nothing is wrong with
    /// either; try again.
    #[error("{what}: others were faster {tries} times in a row")]
    Contended {
        /// What was attempted, and on which owner or partition.
        what: String,
        /// How often.
        tries: u32,
    },
    /// The work panicked, which is a defect of this program. Nothing was settled that was not
    /// committed.
    #[error("a panic ended the work: {words}")]
    Panicked {
        /// What the panic said.
        words: String,
    },
}

impl TierError {
    /// Whether waiting mends nothing: a tier refuses what only an operator can put right, such as a
    /// password, a right or a full disk.
    #[must_use]
    pub fn is_for_operator(&self) -> bool {
        match self {
            Self::Unpaired(_) => true,
            Self::Hot(error) => matches!(error.kind, HotKind::Denied | HotKind::Settings),
            Self::Cold(error) => matches!(
                error.kind,
                ColdKind::Operator | ColdKind::Settings | ColdKind::Schema
            ),
            _ => false,
        }
    }
}
