//! Durability: the safety that a write asks for, and the safety that it reached.

use storage_config::DurabilitySettings;
use storage_model::{Durability, Owner};

use crate::{Error, Kind, Result};

/// The safety of a write at the moment of its acknowledgement.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// use storage_sdk::Safety;
/// let answer = match ann.incr("gems", 500).await?.ack().durability() {
///     Safety::Landed => "your gems are in the database",
///     _ => "your gems will be in the database soon",
/// };
/// assert_eq!(answer, "your gems will be in the database soon");
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Safety {
    /// The hot tier has the write, marked for landing.
    Cached,
    /// At least this number of replicas of the hot tier have the write, too.
    Replicated {
        /// The number of replicas.
        replicas: u32,
    },
    /// The write is also on the disk of the hot tier, in its append-only file.
    Fsynced,
    /// The database has the write, too.
    Landed,
}

/// The durability of writes that set none: that of the owner's logic type. Otherwise that of its
/// Rust type, otherwise the default.
pub(crate) fn default_of(
    settings: &DurabilitySettings,
    owner: &Owner,
    derived: Option<Durability>,
) -> Durability {
    match settings.logic_types.get(owner.logic_type()) {
        Some(durability) => *durability,
        None => derived.unwrap_or(settings.default),
    }
}

/// The safety that the acknowledgement of the hot tier proves. `None` if the write has to land
/// first.
pub(crate) fn at_once(durability: Durability) -> Option<Safety> {
    match durability {
        Durability::Replicated { replicas, .. } => Some(Safety::Replicated { replicas }),
        Durability::Fsynced { .. } => Some(Safety::Fsynced),
        Durability::Landed { .. } => None,
        _ => Some(Safety::Cached),
    }
}

/// Rejects impossible numbers.
pub(crate) fn check(durability: Durability) -> Result<()> {
    if durability.is_possible() {
        return Ok(());
    }
    let (min, max) = (Durability::TIMEOUT.start(), Durability::TIMEOUT.end());
    let message = format!(
        "durability is {durability:?}; its timeout must be {min:?} to {max:?}, and its replicas at least 1"
    );
    Err(Error::new(Kind::Invalid, message))
}
