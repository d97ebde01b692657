//! Marks: which fields of which owner are to be landed.

use storage_model::{Field, Owner};

/// An entry of a dirty map: one write's owner and the fields it changed. A later write of the same fields replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// Whose fields.
    pub owner: Owner,
    /// The changed fields, by name, each once.
    pub fields: Vec<Field>,
}
