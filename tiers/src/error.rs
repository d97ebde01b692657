//! [`TierError`]: a failure of work that needs both tiers.

use storage_dirty::{HotError, HotKind};
use storage_model::Owner;
use storage_sql::{ColdError, ColdKind, RowFault};

use crate::{Behind, Mismatch};

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
    /// The database rejects a field of the owner. Its value stays in the hot tier.
    #[error("{owner}: the database rejects field {field:?}: {} (error {})", .fault.message, .fault.code)]
    Refused {
        /// The owner of the field.
        owner: Owner,
        /// The field.
        field: String,
        /// The database's answer.
        fault: RowFault,
    },
    /// The tiers do not belong together. Nothing was written.
    #[error("{0}")]
    Unpaired(Box<Mismatch>),
    /// The hot tier lacks landed data, or is blank, and another one is used. It waits until that one
    /// is silent. Nothing was written.
    #[error("{0}")]
    Behind(Box<Behind>),
    /// Concurrent changes of the same owner or partition came first at each attempt. Neither tier
    /// has a fault. Try again.
    #[error("{what}: gave up after {tries} attempts with concurrent changes: try again later")]
    Contended {
        /// The attempted operation, with its owner or partition.
        what: String,
        /// How many attempts.
        tries: u32,
    },
    /// The connection to the hot tier breaks whenever the owner is read, although the hot tier
    /// answers. The other owners are not affected.
    #[error(
        "{owner}: the connection breaks whenever this owner is read, perhaps at client-output-buffer-limit of the server or a limit of a proxy: raise it"
    )]
    Unreadable {
        /// The owner.
        owner: Owner,
    },
    /// Transactions that have not landed link an owner with more than one transaction of the database
    /// takes. The worker lands them apart.
    #[error(
        "{owner}: its transactions link more owners or bytes than land together; a worker lands them, so wait for it, and make the groups smaller"
    )]
    Linked {
        /// The owner.
        owner: Owner,
    },
    /// The owner has more rows or bytes than the hot tier takes in one step. Nothing changed.
    #[error(
        "{owner}: the load needs {size}: ask for fewer fields at once, split the owner, or raise the setting"
    )]
    TooLarge {
        /// The owner.
        owner: Owner,
        /// What was found, and the limit.
        size: String,
    },
    /// The work panicked, which is a defect of this program. Only committed rows were settled.
    #[error("a panic ended the work: {words}")]
    Panicked {
        /// The panic's message.
        words: String,
    },
}

impl TierError {
    pub(crate) fn too_large(owner: &Owner, size: String) -> Self {
        Self::TooLarge {
            owner: owner.clone(),
            size,
        }
    }

    /// Whether the hot tier did not answer, as [`HotError::is_cut_off`] says.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        matches!(self, Self::Hot(error) if error.is_cut_off())
    }

    /// Whether waiting does not help. A tier rejects the call until an operator acts, for example
    /// on a password, a right or a full disk.
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
