//! Sessions: one server at a time owns an entity.

use std::fmt;

use crate::{OpId, Version};

/// What tells one session of an owner from all others, before and after it. A later session of the
/// owner has a greater one.
///
/// The version is drawn when the session is opened, above all that the partition has given, so it
/// grows over any loss of the hot tier (R14). The token is drawn at random: two histories of a hot
/// tier may give one version twice.
///
/// ```
/// use storage_model::{Fence, OpId, Version};
/// let fence = |version| Fence { version: Version::new(version).unwrap(), token: OpId::new([7; 16]) };
/// assert!(fence(5) < fence(6));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    /// When the session was opened.
    pub version: Version,
    /// What no other session has.
    pub token: OpId,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.token)
    }
}
