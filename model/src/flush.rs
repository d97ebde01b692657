//! Landing an owner at once, and dropping its hash: what such a call reports.

use crate::Version;

/// The result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flushed {
    /// All changes of the owner up to this version are in the database.
    pub version: Version,
    /// How many rows this call committed. While a mark of the owner stands, that includes fields
    /// that had landed before. 0 if no map names the owner.
    pub rows: usize,
}

impl Flushed {
    /// A flush up to a version, which committed so many rows.
    #[must_use]
    pub fn new(version: Version, rows: usize) -> Self {
        Self { version, rows }
    }
}

/// The result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// The hash is gone, or was not there.
    Gone,
    /// The hash stays. It has unlanded marks or marks on probation, or a session holds the owner.
    /// It goes with the last of these.
    WhenLanded,
}
