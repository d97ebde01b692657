//! Sessions: one server at a time owns an entity.

use std::fmt;

use crate::{OpId, Version};

/// The identity of one session of an owner. It differs from the fences of all sessions before and
/// after it. A later session of the owner has a greater fence.
///
/// The version is drawn when the session is opened, above all versions that the partition has
/// given. So it grows across any loss of the hot tier (R14). The token is drawn at random, because
/// two histories of a hot tier may give the same version.
///
/// ```
/// use storage_model::{Fence, OpId, Version};
/// let fence = |version| Fence { version: Version::new(version).unwrap(), token: OpId::new([7; 16]) };
/// assert!(fence(5) < fence(6));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    /// The version that was drawn when the session was opened.
    pub version: Version,
    /// A random token that no other session has.
    pub token: OpId,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.token)
    }
}
