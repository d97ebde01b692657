//! The partition's lock. It only saves work. Nothing is lost without it (R3).

use std::time::Duration;

use storage_model::{Partition, Timestamp};

use super::state::{PartState, Present};
use crate::{HotError, HotKind, Lock};

/// A lock that was taken, and when it runs out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LockLease {
    lock: Lock,
    end: Timestamp,
}

/// The holder of the lock, if the lock has not run out.
#[must_use]
pub fn holder(state: &PartState, now: Timestamp) -> Option<&Lock> {
    state
        .lock
        .as_ref()
        .filter(|held| held.end > now)
        .map(|held| &held.lock)
}

fn holds(state: &PartState, now: Timestamp, lock: &Lock) -> bool {
    holder(state, now).is_some_and(|held| held.token == lock.token)
}

/// Fails unless this lock is held.
pub(super) fn require(
    state: &PartState,
    now: Timestamp,
    partition: Partition,
    lock: &Lock,
    operation: &'static str,
) -> Result<(), HotError> {
    if holds(state, now, lock) {
        return Ok(());
    }
    let message = format!(
        "{} does not hold the lock of partition {partition} any more",
        lock.holder
    );
    Err(HotError::not_applied(HotKind::LockLost, operation, message))
}

/// Takes the lock if nobody else holds it.
pub fn lock(state: &mut PartState, present: &Present, lock: &Lock, ttl: Duration) -> bool {
    if holder(state, present.now).is_some_and(|holder| holder.token != lock.token) {
        return false;
    }
    state.lock = Some(LockLease {
        lock: lock.clone(),
        end: present.now.plus(ttl),
    });
    true
}

/// Prolongs the lock if it is still held.
pub fn renew(state: &mut PartState, present: &Present, lock: &Lock, ttl: Duration) -> bool {
    let held = holds(state, present.now, lock);
    if held {
        state.lock = Some(LockLease {
            lock: lock.clone(),
            end: present.now.plus(ttl),
        });
    }
    held
}

/// Returns the lock if it is still held.
pub fn unlock(state: &mut PartState, present: &Present, lock: &Lock) {
    if holds(state, present.now, lock) {
        state.lock = None;
    }
}
