//! Landed marks on probation (H33).

use async_trait::async_trait;
use storage_model::Partition;

use super::lock::require;
use super::partition::{current, in_epoch};
use super::state::{PartState, Present};
use crate::{Entry, Expire, HotError, Lock, MemoryStore, Probation, Probations, Window};

#[async_trait]
impl Probations for MemoryStore {
    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError> {
        self.run(partition, "probation", |state, now| {
            self::probation(state, now, partition, lock)
        })?
    }

    async fn expire(&self, expire: &Expire) -> Result<u32, HotError> {
        self.run(expire.partition, "expire", |state, now| {
            self::expire(state, now, expire)
        })?
    }

    async fn requeue(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError> {
        self.run(partition, "requeue", |state, now| {
            self::requeue(state, now, partition, lock, entries)
        })?
    }
}

/// Says which landed marks leave probation next. If none are expiring, the marks that are on
/// probation now become the next.
///
/// # Errors
/// `Unprepared`, `LockLost`.
pub fn probation(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    lock: &Lock,
) -> Result<Probation, HotError> {
    let epoch = current(state, partition, "probation")?.epoch;
    require(state, present.now, partition, lock, "probation")?;
    let marks = &mut state.marks;
    if marks.is_lost() {
        return Ok(Probation::Lost);
    }
    if marks.sizes_on_probation() == [0, 0] {
        return Ok(Probation::Empty);
    }
    Ok(Probation::Leaves(Window {
        epoch,
        number: marks.leave(),
    }))
}

/// Ends the probation of expiring marks, if they are still those of the window. Returns how many
/// went.
///
/// # Errors
/// `Unprepared`, `EpochMoved`, `LockLost`. Nothing went.
pub fn expire(state: &mut PartState, present: &Present, expire: &Expire) -> Result<u32, HotError> {
    in_epoch(state, expire.partition, expire.window.epoch, "expire")?;
    require(state, present.now, expire.partition, &expire.lock, "expire")?;
    let mut gone = 0;
    if state.marks.is_lost() || !state.marks.is_window(expire.window.number) {
        return Ok(gone);
    }
    for entry in &expire.entries {
        let Some(mark) = &entry.mark else { continue };
        if state.marks.expire(entry) {
            gone += 1;
            state.release(present, &mark.owner);
        }
    }
    Ok(gone)
}

/// Makes marks on probation live again, after a change of the epoch. Returns how many.
///
/// # Errors
/// `Unprepared`, `LockLost`. Nothing changed.
pub fn requeue(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    lock: &Lock,
    entries: &[Entry],
) -> Result<u32, HotError> {
    current(state, partition, "requeue")?;
    require(state, present.now, partition, lock, "requeue")?;
    let mut lived = 0;
    for entry in entries {
        lived += u32::from(state.marks.requeue(entry, present.now));
    }
    Ok(lived)
}
