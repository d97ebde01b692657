//! The error map: fields that the database rejected, with the reason and the next attempt.

use storage_model::sabotage::is_kept;
use storage_model::{Owner, Partition, Timestamp};

use super::lock::require;
use super::maps::ErrorMark;
use super::partition::{current, in_epoch};
use super::state::{PartState, Present};
use crate::{ErrorEntry, Fault, HotError, Page, Reject, Rejected};

/// Moves snapshot entries to the error map, and counts attempts. Returns for each entry whether it
/// is there now.
///
/// # Errors
/// `Unprepared`, `EpochMoved`, `LockLost`. Nothing was moved.
pub fn reject(
    state: &mut PartState,
    present: &Present,
    reject: &Reject,
) -> Result<Vec<bool>, HotError> {
    in_epoch(state, reject.partition, reject.epoch, "reject")?;
    require(state, present.now, reject.partition, &reject.lock, "reject")?;
    Ok(reject
        .rejected
        .iter()
        .map(|rejected| reject_one(state, present, reject, rejected))
        .collect())
}

fn reject_one(
    state: &mut PartState,
    present: &Present,
    reject: &Reject,
    rejected: &Rejected,
) -> bool {
    // Every name in memory can be read, so there is always an owner.
    let Some(owner) = &rejected.owner else {
        return false;
    };
    // An entry that is gone from the snapshot has landed or was moved by another worker, or the
    // scan brought it twice.
    if let Some(entry) = &rejected.source {
        let Some(cleared) = state.marks.clear(reject.snapshot, entry) else {
            return false;
        };
        state.marks.keep_partners(owner, &cleared);
        if reject.probation && rejected.has_landed() {
            state.marks.put_on_probation(cleared);
        }
    }
    let mut is_there = false;
    for fault in &rejected.faults {
        // The error mark of a retried field may be gone, even if a newer one is there. Then the
        // field has landed, or the mark was lost with another server. A new mark would name a hash
        // that may have a time to live.
        let is_same = |old: &ErrorMark| old.version <= fault.version;
        if rejected.source.is_some() || state.marks.error(owner, &fault.field).is_some_and(is_same)
        {
            refuse(state, present.now, reject, owner, fault);
            is_there = true;
        }
    }
    if is_there {
        if is_kept("G1-kept") {
            state.marks.leave_partners(owner, &rejected.leaves);
        }
        // The mark may have been put aside. Its owner has another hash by now, which may have
        // landed.
        state.hashes.edit(owner, |hash| {
            if is_kept("R2-rejected") {
                hash.expires = None;
            }
        });
    }
    state.release(present, owner);
    is_there
}

/// Makes a field's error mark, or counts another attempt. The greater version stays, with its
/// reason.
fn refuse(state: &mut PartState, now: Timestamp, reject: &Reject, owner: &Owner, fault: &Fault) {
    let old = state.marks.error(owner, &fault.field).cloned();
    let attempts = old.as_ref().map_or(1, |old| old.attempts.saturating_add(1));
    let delay = reject
        .retry_min
        .saturating_mul(1 << (attempts - 1).min(31))
        .min(reject.retry_max);
    let first = old.as_ref().map_or(now, |old| old.first);
    let (version, code, message) = match old {
        Some(old) if old.version > fault.version => (old.version, old.code, old.message),
        _ => (fault.version, fault.code, fault.message.clone()),
    };
    let error = ErrorMark {
        version,
        attempts,
        first,
        last: now,
        next: now.plus(delay),
        code,
        message,
    };
    state
        .marks
        .set_error(owner.clone(), fault.field.clone(), error);
}

/// Some entries of the error map.
#[must_use]
pub fn errors(state: &PartState, cursor: u64, count: usize) -> Page<ErrorEntry> {
    state.marks.error_page(cursor, count)
}

/// Lets a rejected owner land apart from its partners. Returns whether it did.
///
/// # Errors
/// `Unprepared`.
pub fn tear(state: &mut PartState, partition: Partition, owner: &Owner) -> Result<bool, HotError> {
    current(state, partition, "tear")?;
    Ok(state.marks.tear(owner))
}
