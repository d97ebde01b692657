//! What a session holds in memory, as changes to be saved.

use std::fmt;
use std::sync::Arc;

use storage_model::{Bytes, Change, Field};

use crate::{Record, Result};

/// A copy of what a session holds: S4, a save has what there was when the copy was made.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    /// The number of the last edit that is in it.
    pub(crate) edit: u64,
    /// By field, in the order of their names.
    pub(crate) changes: Arc<[(Field, Change)]>,
    /// What the owner is like after a save of it.
    pub(crate) left: Arc<Left>,
}

/// The fields that a session holds, as a save leaves them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// This field; the session has nothing to do with others.
    Field(Field, Bytes),
    /// These fields, and no other.
    All(Vec<(Field, Bytes)>),
}

impl Left {
    /// Whether an owner is like this.
    pub(crate) fn is_in(&self, stored: &Record) -> bool {
        match self {
            Self::Field(field, value) => stored.get(field.as_str()) == Some(value),
            Self::All(fields) => stored
                .iter()
                .eq(fields.iter().map(|(field, value)| (field, value))),
        }
    }
}

impl Copied {
    pub(crate) fn new(edit: u64, mut changes: Vec<(Field, Change)>, left: Left) -> Self {
        changes.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            edit,
            changes: changes.into(),
            left: Arc::new(left),
        }
    }

    /// Whether a save of it only sets fields: then it can end its session in the same step.
    pub(crate) fn only_sets(&self) -> bool {
        self.changes
            .iter()
            .all(|(_, change)| matches!(change, Change::Set(_)))
    }
}

/// What a session holds. Shared by the game, which edits it, and by the task that saves it.
pub(crate) trait Content: fmt::Debug + Send + Sync {
    /// The number of the last edit; 0 if there was none.
    fn edit(&self) -> u64;

    /// What was edited after this edit; none if nothing was.
    ///
    /// # Errors
    /// `Invalid`: it can't be encoded.
    fn changed(&self, since: u64) -> Result<Option<Copied>>;

    /// All of it, so that an owner that is as in `stored` becomes what the session holds.
    ///
    /// # Errors
    /// `Invalid`: it can't be encoded.
    fn whole(&self, stored: &Record) -> Result<Copied>;
}
