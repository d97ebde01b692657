//! Observations: the state that a reader remembers before it asks the cold tier (R7, R14, R15).

use storage_model::{Epoch, Owner, Partition};

use super::partition::current;
use super::state::{PartState, Present};
use crate::{HotError, Observed};

/// The epoch of the partition.
///
/// # Errors
/// `Unprepared`.
pub fn epoch(state: &PartState, partition: Partition) -> Result<Epoch, HotError> {
    Ok(current(state, partition, "observe")?.epoch)
}

/// The marker, whether there is a hash, and the epoch. Without a marker it sets one, if there is
/// room.
///
/// # Errors
/// `Unprepared`.
pub fn observe(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    owner: &Owner,
) -> Result<Observed, HotError> {
    let noted = note(state, present, partition, owner)?;
    Ok(with_hash(state, owner, noted))
}

/// The epoch and the marker alone. Redis is asked for these before the hash.
///
/// # Errors
/// `Unprepared`.
pub fn note(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    owner: &Owner,
) -> Result<Observed, HotError> {
    let epoch = epoch(state, partition)?;
    state.claim(present, owner);
    Ok(Observed {
        present: false,
        ..state.observed(owner, epoch)
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
