//! The acknowledgement of a write.

use storage_model::{Applied, Field, Position, Version};

use crate::Safety;

/// The acknowledgement of a write.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// let ack = ann.update([("name", "Ann"), ("gold", "10")]).await?;
/// assert_eq!((ack.changed(), ack.version()), (2, ann.version().await?));
///
/// let nothing = ann.remove(["guild"]).await?; // which is not there
/// assert_eq!((nothing.changed(), nothing.version()), (0, ack.version()));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub(crate) applied: Applied,
    pub(crate) safety: Safety,
}

impl Ack {
    /// The owner's version after the write. If no field changed, this is the version before it.
    #[must_use]
    pub fn version(&self) -> Version {
        self.applied.version
    }

    /// The number of changed fields. A field counts even if it is set to its own value. The removal
    /// of an absent field does not count.
    #[must_use]
    pub fn changed(&self) -> u32 {
        self.applied.changed
    }

    /// The place of the write's note in the [feed](crate::feed). `None` if the write carried none, or
    /// changed nothing.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.applied.position
    }

    /// The safety of the write at its acknowledgement.
    #[must_use]
    pub fn durability(&self) -> Safety {
        self.safety
    }
}

/// The acknowledgement of increments, with the new values.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// let now = ann.incr_many([("gold", 10), ("gems", -1)]).await?;
/// assert_eq!((now.get("gold"), now.get("gems"), now.get("name")), (Some(10), Some(-1), None));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    pub(crate) ack: Ack,
    pub(crate) fields: Vec<Field>,
}

impl Counters {
    /// The new value of an incremented field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<i64> {
        let at = self.fields.iter().position(|name| name.as_str() == field)?;
        self.ack.applied.counters.get(at).copied()
    }

    /// The new value of the incremented field. If there are several, the first one by name.
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
