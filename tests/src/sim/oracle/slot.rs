//! One field, and the effect of a mutation on it.

use storage_model::Cell;

/// The content of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Slot {
    /// It was never written.
    #[default]
    Never,
    /// A value.
    Live(Vec<u8>),
    /// It was removed, with this value.
    Removed(Vec<u8>),
    /// Its last value was given up.
    Purged,
}

impl Slot {
    /// The value that a read finds.
    #[must_use]
    pub fn live(&self) -> Option<&[u8]> {
        match self {
            Self::Live(value) => Some(value),
            _ => None,
        }
    }

    /// The content that a row or a hash has for it.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        match cell {
            Cell::Live(value) => Self::Live(value.to_vec()),
            Cell::Removed(value) => Self::Removed(value.to_vec()),
            Cell::Purged => Self::Purged,
        }
    }
}

/// The effect of a mutation on a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It gets this value.
    Set(Vec<u8>),
    /// It grows by the first number and then is the second.
    Incr(i64, i64),
    /// It is removed.
    Remove,
    /// It comes back.
    Restore,
    /// It gives up its last value.
    Purge,
}

impl Change {
    /// The field after the change. None if the mutation can't have been answered like this.
    #[must_use]
    pub fn after(&self, before: &Slot) -> Option<Slot> {
        Some(match (self, before) {
            (Self::Set(value), _) => Slot::Live(value.clone()),
            (Self::Incr(by, sum), before) => {
                let text = before
                    .live()
                    .map_or(Some("0"), |value| std::str::from_utf8(value).ok())?;
                let old: i64 = text.parse().ok()?;
                return (old.checked_add(*by) == Some(*sum))
                    .then(|| Slot::Live(sum.to_string().into_bytes()));
            }
            (Self::Remove, Slot::Live(value)) => Slot::Removed(value.clone()),
            (Self::Restore, Slot::Removed(value)) => Slot::Live(value.clone()),
            (Self::Purge, Slot::Removed(_)) => Slot::Purged,
            (_, other) => other.clone(),
        })
    }
}
