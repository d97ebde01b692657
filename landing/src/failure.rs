//! How much of a worker's work a failure concerns.

use storage_dirty::{HotError, HotKind};
use storage_sql::ColdKind;
use storage_tiers::TierError;

/// Whether a failure concerns only some partitions and says nothing about others.
pub(crate) fn is_confined(error: &TierError) -> bool {
    match error {
        TierError::Hot(error) => error.kind == HotKind::Corrupt || is_lost(error),
        TierError::Cold(error) => error.kind == ColdKind::Unreadable,
        TierError::Contended { .. }
        | TierError::Linked { .. }
        | TierError::TooLarge { .. }
        | TierError::Panicked { .. } => true,
        _ => false,
    }
}

/// Whether a partition now belongs to another worker or another incarnation.
pub(crate) fn is_lost(error: &HotError) -> bool {
    matches!(
        error.kind,
        HotKind::LockLost | HotKind::EpochMoved | HotKind::Unprepared(_)
    )
}
