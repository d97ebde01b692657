//! The state of a field, in both tiers.

use bytes::Bytes;

use crate::{Field, Owner, Version};

/// The state of a field that was written at least once. A field without a cell was never written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cell {
    /// The field has this value.
    Live(Bytes),
    /// The field was removed. Its last value is kept until it is purged (a *tombstone*).
    Removed(Bytes),
    /// The field was removed and its last value was given up. The row stays, so that a late writer
    /// can't bring the value back.
    Purged,
}

impl Cell {
    /// The value, if the field is live.
    #[must_use]
    pub fn live(&self) -> Option<&Bytes> {
        match self {
            Self::Live(value) => Some(value),
            Self::Removed(_) | Self::Purged => None,
        }
    }

    /// The number that stands for this state in the column `is_del`: 0 live, 1 removed, 2 purged.
    #[must_use]
    pub fn is_del(&self) -> u8 {
        match self {
            Self::Live(_) => 0,
            Self::Removed(_) => 1,
            Self::Purged => 2,
        }
    }

    /// The cell of a row with this `is_del` and value. Any number above 1 reads as purged.
    #[must_use]
    pub fn from_row(is_del: u8, value: Bytes) -> Self {
        match is_del {
            0 => Self::Live(value),
            1 => Self::Removed(value),
            _ => Self::Purged,
        }
    }

    /// The bytes in the column `value` for this cell. A purged cell has none.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self {
            Self::Live(value) | Self::Removed(value) => value,
            Self::Purged => &[],
        }
    }
}

/// One field of one owner as the cold tier holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// The owner of the field.
    pub owner: Owner,
    /// The name of the field.
    pub field: Field,
    /// The state of the field.
    pub cell: Cell,
    /// The owner's version when the cell was read from the hot tier. An older row never replaces a
    /// newer one.
    pub version: Version,
}
