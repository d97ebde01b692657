//! Observations: the state that a reader remembers before it asks the cold tier (R7, R14, R15).

use storage_model::{Owner, Partition};

use super::partition::current;
use super::state::PartState;
use crate::{HotError, Observed};

/// The marker, whether there is a hash, and the epoch.
///
/// # Errors
/// `Unprepared`.
pub fn observe(
    state: &PartState,
    partition: Partition,
    owner: &Owner,
) -> Result<Observed, HotError> {
    Ok(with_hash(state, owner, note(state, partition, owner)?))
}

/// The epoch and the marker alone. Redis is asked for these before the hash.
///
/// # Errors
/// `Unprepared`.
pub fn note(state: &PartState, partition: Partition, owner: &Owner) -> Result<Observed, HotError> {
    let record = current(state, partition, "observe")?;
    Ok(Observed {
        present: false,
        ..state.observed(owner, record.epoch)
    })
}

/// The observation that was noted, and whether there is a hash now.
#[must_use]
pub fn with_hash(state: &PartState, owner: &Owner, noted: Observed) -> Observed {
    Observed {
        present: state.hashes.get(owner).is_some(),
        ..noted
    }
}
