//! The content of a session in memory, as changes for a save.

use std::fmt;
use std::sync::Arc;

use storage_model::{Bytes, Change, Field};

use crate::{Record, Result};

/// A copy of a session's content. A save stores the content as of the copy (S4).
#[derive(Debug, Clone)]
pub(crate) struct ContentCopy {
    /// The number of the last edit in the copy.
    pub(crate) edit: u64,
    /// The changes, sorted by field.
    pub(crate) changes: Arc<[(Field, Change)]>,
    /// The owner after a save of this copy.
    pub(crate) left: Arc<SavedFields>,
}

/// The fields of a session after a save.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SavedFields {
    /// This field. The session ignores all other fields.
    Field(Field, Bytes),
    /// These fields, and no others.
    All(Vec<(Field, Bytes)>),
}

impl SavedFields {
    /// Whether the stored owner looks like this.
    pub(crate) fn is_in(&self, stored: &Record) -> bool {
        match self {
            Self::Field(field, value) => stored.get(field.as_str()) == Some(value),
            Self::All(fields) => stored
                .iter()
                .eq(fields.iter().map(|(field, value)| (field, value))),
        }
    }
}

impl ContentCopy {
    pub(crate) fn new(edit: u64, mut changes: Vec<(Field, Change)>, left: SavedFields) -> Self {
        changes.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            edit,
            changes: changes.into(),
            left: Arc::new(left),
        }
    }

    /// Whether a save of this copy only sets fields. Such a save can end its session in the same
    /// step.
    pub(crate) fn only_sets(&self) -> bool {
        self.changes
            .iter()
            .all(|(_, change)| matches!(change, Change::Set(_)))
    }
}

/// The content of a session. The game edits it, and a task saves it.
pub(crate) trait Content: fmt::Debug + Send + Sync {
    /// The number of the last edit, 0 before the first one.
    fn edit(&self) -> u64;

    /// The edits after `since`. `None` if there are none.
    ///
    /// # Errors
    /// `Invalid`: the content can't be encoded.
    fn changed(&self, since: u64) -> Result<Option<ContentCopy>>;

    /// All of the content, as changes that turn the owner from `stored` into it.
    ///
    /// # Errors
    /// `Invalid`: the content can't be encoded.
    fn whole(&self, stored: &Record) -> Result<ContentCopy>;
}
