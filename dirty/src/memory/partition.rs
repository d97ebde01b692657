//! Partitions: the record (R14), and sizes.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Epoch, Partition, Timestamp, Version};

use super::lock as lease;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use crate::{
    Adopt, HotError, HotKind, Lock, PartitionPeek, PartitionRecord, PartitionState, Partitions,
};

#[async_trait]
impl Partitions for MemoryStore {
    fn partition_count(&self) -> u32 {
        self.partitions()
    }

    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>> {
        let one =
            |at: &Partition| self.run(*at, "partition_states", |state, _| partition_state(state));
        partitions.iter().map(one).collect()
    }

    async fn times(&self, partitions: &[Partition]) -> Vec<Result<Timestamp, HotError>> {
        partitions.iter().map(|_| Ok(self.now())).collect()
    }

    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>> {
        let one = |adopt: &Adopt| {
            self.run(adopt.partition, "adopt", |state, now| {
                self::adopt(state, now, adopt)
            })
        };
        adopts.iter().map(one).collect()
    }

    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError> {
        self.run(partition, "raise_landed", |state, _| {
            raise_landed(state, partition, epoch, landed)
        })?
    }

    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "peek", |state, present| peek(state, present)))
            .collect()
    }

    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "lock", |state, now| lease::lock(state, now, lock, ttl)))
            .collect()
    }

    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        partitions
            .iter()
            .map(|at| {
                self.run(*at, "renew", |state, now| {
                    lease::renew(state, now, lock, ttl)
                })
            })
            .collect()
    }

    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>> {
        partitions
            .iter()
            .map(|at| self.run(*at, "unlock", |state, now| lease::unlock(state, now, lock)))
            .collect()
    }

    async fn forget_calls(&self, _partitions: &[Partition]) -> Result<(), HotError> {
        Ok(()) // a call of memory is never lost
    }
}

/// The record of any incarnation. `Unprepared` if there is none.
pub(super) fn recorded<'a>(
    state: &'a PartState,
    partition: Partition,
    operation: &'static str,
) -> Result<&'a PartitionRecord, HotError> {
    state.record.as_ref().ok_or_else(|| {
        let message = format!("partition {partition} has no record; adopt it first");
        HotError::not_applied(HotKind::Unprepared(partition), operation, message)
    })
}

/// The record, if the present incarnation made it. Otherwise `Unprepared`.
pub(super) fn current<'a>(
    state: &'a PartState,
    partition: Partition,
    operation: &'static str,
) -> Result<&'a PartitionRecord, HotError> {
    let record = recorded(state, partition, operation)?;
    if keeps("R14-incarnation", *record.incarnation == *state.incarnation) {
        return Ok(record);
    }
    let message =
        format!("partition {partition} was recorded under another incarnation; adopt it first");
    Err(HotError::not_applied(
        HotKind::Unprepared(partition),
        operation,
        message,
    ))
}

/// The present record, if its epoch is the caller's. Otherwise `EpochMoved`.
pub(super) fn in_epoch<'a>(
    state: &'a PartState,
    partition: Partition,
    epoch: Epoch,
    operation: &'static str,
) -> Result<&'a PartitionRecord, HotError> {
    let record = current(state, partition, operation)?;
    if record.epoch == epoch {
        return Ok(record);
    }
    let message = format!(
        "partition {partition} is in epoch {}, not {epoch}; collect anew",
        record.epoch
    );
    Err(HotError::not_applied(
        HotKind::EpochMoved,
        operation,
        message,
    ))
}

/// The record and the incarnation.
#[must_use]
pub fn partition_state(state: &PartState) -> PartitionState {
    PartitionState {
        incarnation: state.incarnation.to_string(),
        record: state.record.clone(),
    }
}

/// Where versions begin under a record that replaces another one: above the landed version, and
/// after a rewind also above forgotten versions.
fn next_source(old: &PartitionRecord, present: &Present, adopt: &Adopt, suspect: bool) -> Version {
    if !is_kept("R14-source") {
        return old.source;
    }
    let from = old.source.max(adopt.last_version);
    if suspect {
        leapt(present, from, adopt.epoch)
    } else {
        from
    }
}

fn leapt(present: &Present, from: Version, epoch: Epoch) -> Version {
    from.max(time(present)).plus(Version::rewind_leap(epoch))
}

fn time(present: &Present) -> Version {
    Version::new(present.now.0).unwrap_or_default()
}

/// Makes or replaces the record, if record and incarnation are still those seen and the epoch is
/// greater, until the deadline.
pub fn adopt(state: &mut PartState, present: &Present, adopt: &Adopt) -> bool {
    let made_under =
        |record: &Option<PartitionRecord>| record.as_ref().map(|record| record.incarnation.clone());
    let seen = &adopt.seen;
    let moved = *seen.incarnation != *state.incarnation
        || made_under(&seen.record) != made_under(&state.record);
    let late = present.now > adopt.until && is_kept("R14-adopted-after");
    if moved || late {
        return false;
    }
    let record = match &state.record {
        Some(old) if adopt.epoch <= old.epoch => return false,
        Some(old) => {
            let forgotten = old.has_forgotten(adopt.last_version, adopt.landed_here)
                && is_kept("R14-generation");
            let suspect = forgotten || adopt.compare_all;
            PartitionRecord {
                incarnation: state.incarnation.to_string(),
                epoch: adopt.epoch,
                stamp: adopt.stamp,
                generation: if suspect { adopt.epoch } else { old.generation },
                source: next_source(old, present, adopt, suspect),
                // Also if that is less: the database lost commits, and only its own data counts.
                landed: adopt.last_version,
                collected: old.collected,
                database: adopt.database.or(old.database),
            }
        }
        None => PartitionRecord {
            incarnation: state.incarnation.to_string(),
            epoch: adopt.epoch,
            stamp: adopt.stamp,
            generation: adopt.epoch,
            source: if adopt.last_version == Version::ZERO {
                time(present)
            } else {
                leapt(present, adopt.last_version, adopt.epoch)
            },
            landed: adopt.last_version,
            collected: Version::ZERO,
            database: adopt.database,
        },
    };
    if record.generation == adopt.epoch {
        state.markers.forget_absent();
    }
    state.sessions.adopted(record.epoch, record.source);
    let had_record = state.record.replace(record).is_some();
    state.notes.adopt(adopt.epoch, adopt.feed, had_record);
    state.marks.lose();
    state.marks.renumber(adopt.epoch);
    true
}

/// Notes that values are collected. Their rows have versions up to the source, since no version is
/// given here without the source. So the source need not be raised, as it is in Redis.
pub fn collects(state: &mut PartState) {
    if let Some(record) = &mut state.record {
        record.collected = record.source;
    }
}

/// Raises `landed`. The version source follows, so that no later write is ever below it.
pub(super) fn raise(state: &mut PartState, landed: Version) {
    if let Some(record) = &mut state.record {
        record.landed = record.landed.max(landed);
        record.source = record.source.max(landed);
    }
}

/// Raises `landed` after a fence found that a commit was not settled.
///
/// # Errors
/// `Unprepared`, `EpochMoved`.
pub fn raise_landed(
    state: &mut PartState,
    partition: Partition,
    epoch: Epoch,
    landed: Version,
) -> Result<(), HotError> {
    in_epoch(state, partition, epoch, "raise_landed")?;
    raise(state, landed);
    Ok(())
}

/// Sizes, the oldest mark's age and the lock's holder.
#[must_use]
pub fn peek(state: &PartState, present: &Present) -> PartitionPeek {
    let [live, snapshot, errors] = state
        .marks
        .sizes()
        .map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let holder = lease::holder(state, present.now).map(|lock| lock.holder.clone());
    let probation = state.marks.sizes_on_probation().iter().sum::<usize>();
    let [live_since, snapshot_since] = state.marks.since();
    PartitionPeek {
        live,
        snapshot,
        errors,
        probation: u64::try_from(probation).unwrap_or(u64::MAX),
        requeue: state.marks.is_lost(),
        live_since,
        snapshot_since,
        holder,
        last_note: state.notes.last(),
        noted: state.notes.noted(),
        stream: u64::try_from(state.notes.len()).unwrap_or(u64::MAX),
        is_resynced: state
            .record
            .as_ref()
            .is_some_and(|record| state.notes.is_resynced(record.epoch)),
        has_record: state.record.is_some(),
    }
}
