//! What an acknowledged write says of itself.

use storage_model::{Applied, Field, Version};

use crate::Safety;

/// The acknowledgement of a write.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
/// # let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
/// let ack = ann.update([("name", "Ann"), ("gold", "10")]).await?;
/// assert_eq!((ack.changed(), ack.version()), (2, ann.version().await?));
///
/// let nothing = ann.remove(["guild"]).await?; // which is not there
/// assert_eq!((nothing.changed(), nothing.version()), (0, ack.version()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub(crate) applied: Applied,
    pub(crate) safety: Safety,
}

impl Ack {
    /// The owner's version after the write; the one before it if no field changed.
    #[must_use]
    pub fn version(&self) -> Version {
        self.applied.version
    }

    /// How many fields changed. Setting one to what it holds changes it; a removal of what was not
    /// there changes none.
    #[must_use]
    pub fn changed(&self) -> u32 {
        self.applied.changed
    }

    /// How safe the write was when it was acknowledged.
    #[must_use]
    pub fn durability(&self) -> Safety {
        self.safety
    }
}

/// The acknowledgement of increments, with the new values.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
/// # let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
/// let now = ann.incr_many([("gold", 10), ("gems", -1)]).await?;
/// assert_eq!((now.get("gold"), now.get("gems"), now.get("name")), (Some(10), Some(-1), None));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    pub(crate) ack: Ack,
    pub(crate) fields: Vec<Field>,
}

impl Counters {
    /// The new value of a field that was incremented.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<i64> {
        let at = self.fields.iter().position(|name| name.as_str() == field)?;
        self.ack.applied.counters.get(at).copied()
    }

    /// The new value, of a write that incremented one field; the first one by name otherwise.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.ack
            .applied
            .counters
            .first()
            .copied()
            .unwrap_or_default()
    }

    /// The acknowledgement.
    #[must_use]
    pub fn ack(&self) -> &Ack {
        &self.ack
    }

    /// The owner's version after the write.
    #[must_use]
    pub fn version(&self) -> Version {
        self.ack.version()
    }
}
