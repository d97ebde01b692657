//! How a write is made, and what comes of it.

use std::time::Duration;

use storage_sdk::feed::Position;
use storage_sdk::{Bytes, Durability, Version};

use crate::once::Once;
use crate::{Conditions, Path};

/// How a write is made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The conditions of the present document.
    pub conditions: Conditions,
    /// How safe the change must be before it is acknowledged.
    pub durability: Durability,
    /// The time for all attempts. While other writers change the document, the write is tried again.
    pub within: Duration,
    /// The time until the document ends by itself, as if it were deleted. Each put sets it anew, and
    /// other changes leave it as it is unless they name one.
    pub lives: Option<Duration>,
    /// The key of the call. A repeat with the same key changes nothing for a day. It is answered as the
    /// first one was, once the change is as safe as the repeat asks.
    pub once: Option<Once>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            conditions: Conditions::default(),
            durability: Durability::Cached,
            within: Duration::from_secs(10),
            lives: None,
            once: None,
        }
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The document, the item or the collection.
    pub path: Path,
    /// The revision since then. For an item, it is that of its collection.
    pub revision: u64,
    /// The version since then.
    pub version: Version,
    /// Whether there was no document before.
    pub created: bool,
    /// The number of items of the collection since then.
    pub count: Option<u64>,
    /// The whole body since then. `None` of a deletion, of a collection, and of a repeat.
    pub body: Option<Bytes>,
    /// The partition and the place of the event in the feed. `None` of a call that changed nothing, and
    /// of a repeat of a call whose process died before it kept its answer.
    pub event: Option<(u32, Position)>,
    /// Whether an earlier call with the same key has made the change.
    pub is_repeat: bool,
}
