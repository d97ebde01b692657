//! Mutations: the effect of one is computed first and then written.

mod plan;

use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Applied, Durability, ID_WINDOW, Mutation, Owner, Partition, Version};

use self::plan::{Met, Plan, Unmet, plan};
use super::fill::{Merged, is_proved, keep, merge};
use super::hash::OwnerHash;
use super::partition::current;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use super::{room, session};
use crate::{HotError, HotKind, Load, Marker, Mutated, PartitionRecord, Refusal};

const OPERATION: &str = "mutate";

impl MemoryStore {
    pub(super) fn mutate_one(
        &self,
        mutation: &Mutation,
        load: Option<&Load>,
    ) -> Result<Mutated, HotError> {
        let wanted = room::of_mutation(mutation, load);
        self.with_room(
            wanted,
            &mutation.owner,
            "mutate",
            |state, present, partition| mutate(state, present, partition, mutation, load),
        )
    }
}

/// Applies a mutation, with the load that it builds on if that load is proved, or changes nothing.
///
/// # Errors
/// - `Unprepared`: the partition has no record of this incarnation.
/// - `Durability`: the mutation waits for a replica or a disk, which memory does not have.
/// - `Settings`: the deadline lies further ahead than ids are remembered.
/// - `OutOfMemory`: the mutation does not fit, and nothing can be evicted.
/// - `Corrupt`: the versions ran out.
///
/// Nothing changed.
pub fn mutate(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    mutation: &Mutation,
    load: Option<&Load>,
) -> Result<Mutated, HotError> {
    let record = current(state, partition, OPERATION)?.clone();
    if let Some(reply) = state
        .ops
        .reply(&mutation.id)
        .filter(|_| mutation.attempt.is_named() && is_kept("R11-ids"))
    {
        return Ok(Mutated::Applied(reply.clone()));
    }
    if let Some(refusal) = refusal(state, present, &record, mutation)? {
        return Ok(Mutated::Refused(refusal));
    }
    let proved = |load: &&Load| load.owner == mutation.owner && is_proved(state, &record, load);
    let load = load.filter(proved);
    let merged = load.map(|load| merge(state, &record, load));
    let met = meet(state, &record, mutation, merged.as_ref());
    let version = met.version().unwrap_or_default();
    let plan = match plan(&met, mutation) {
        Ok(plan) => plan,
        Err(Unmet::Refused(refusal)) => return Ok(Mutated::Refused(refusal)),
        Err(Unmet::Load) => {
            return Ok(Mutated::Load(state.observed(&mutation.owner, record.epoch)));
        }
    };
    if plan.cells.is_empty() {
        return Ok(Mutated::Applied(change_nothing(
            state, present, &record, mutation, plan, version,
        )));
    }
    let next = next_version(record.source.max(version), present, OPERATION)?;
    room::make_or_refuse(
        state,
        present,
        room::of_mutation(mutation, load),
        &mutation.owner,
        OPERATION,
    )?;
    // Nothing fails from here on.
    if let Some(merged) = merged {
        keep(state, present, &mutation.owner, merged, Some(next));
    }
    // Also if the load has just found that there is no row.
    let complete = keeps(
        "R8-complete",
        state.markers.get(&mutation.owner) == Marker::Absent,
    );
    make(state, &record, &mutation.owner, next, complete);
    let applied = write(state, present, mutation, plan, next);
    session::saved(state, present, mutation, record.epoch);
    Ok(Mutated::Applied(applied))
}

/// Why the mutation is rejected now, for reasons beside the owner's data.
///
/// # Errors
/// `Durability`, `Settings`: the mutation can never be applied.
fn refusal(
    state: &PartState,
    present: &Present,
    record: &PartitionRecord,
    mutation: &Mutation,
) -> Result<Option<Refusal>, HotError> {
    if matches!(
        mutation.durability,
        Durability::Replicated { .. } | Durability::Fsynced { .. }
    ) {
        let message = "the hot tier is this process's memory, which has neither replicas nor a disk; ask for Landed";
        return Err(HotError::not_applied(
            HotKind::Durability,
            OPERATION,
            message,
        ));
    }
    if present.now >= mutation.deadline {
        return Ok(Some(Refusal::Expired));
    }
    if mutation.deadline > present.now.plus(ID_WINDOW) {
        let message = format!(
            "the deadline is more than {} s ahead, longer than ids are remembered; choose an earlier one",
            ID_WINDOW.as_secs()
        );
        return Err(HotError::not_applied(HotKind::Settings, OPERATION, message));
    }
    let (epoch, generation) = (record.epoch, record.generation);
    if mutation.epoch.is_some_and(|sent_in| sent_in != epoch) && is_kept("R11-outlived") {
        return Ok(Some(Refusal::Moved { epoch, generation }));
    }
    Ok(session::refusal(state, record, mutation))
}

/// The mutation has nothing to change. Its session is still confirmed or ended, and its id
/// remembered. Otherwise a delayed copy could be applied after later writes of others.
fn change_nothing(
    state: &mut PartState,
    present: &Present,
    record: &PartitionRecord,
    mutation: &Mutation,
    plan: Plan,
    version: Version,
) -> Applied {
    let reply = Applied {
        version,
        changed: 0,
        counters: plan.counters,
    };
    session::saved(state, present, mutation, record.epoch);
    if mutation.attempt.is_named() && is_kept("R11-void") {
        state.ops.remember(mutation.id, reply.clone());
    }
    reply
}

/// The owner as the mutation finds it: with its load, if that is proved.
fn meet<'a>(
    state: &'a PartState,
    record: &PartitionRecord,
    mutation: &Mutation,
    merged: Option<&'a Merged>,
) -> Met<'a> {
    let owner = &mutation.owner;
    let marker = state.markers.get(owner);
    let (hash, marker) = match merged {
        Some(merged) => (
            merged.hash.as_ref(),
            if merged.absent {
                Marker::Absent
            } else {
                marker
            },
        ),
        None => (state.hashes.get(owner), marker),
    };
    let is_marked = state.marks.names(owner);
    Met {
        hash,
        marker,
        generation: record.generation,
        is_marked,
        loaded: merged.is_some(),
    }
}

/// The version of the next write: above the last version of the partition and of the owner, and at
/// least the present time.
pub(super) fn next_version(
    last: Version,
    present: &Present,
    operation: &'static str,
) -> Result<Version, HotError> {
    Version::new(last.get().saturating_add(2).max(present.now.0)).ok_or_else(|| {
        let message = format!(
            "the next version would be above {}; set the clock right",
            Version::MAX
        );
        HotError::not_applied(HotKind::Corrupt, operation, message)
    })
}

/// Makes the owner's hash if there is none. Its number is the version of the write that follows.
fn make(
    state: &mut PartState,
    record: &PartitionRecord,
    owner: &Owner,
    version: Version,
    complete: bool,
) {
    if state.hashes.get(owner).is_some() {
        return;
    }
    let mut hash = OwnerHash::new(version, record.generation);
    hash.complete = complete;
    let is_known = matches!(state.markers.get(owner), Marker::At(_));
    let number = if is_kept("R7-unraised") || !is_known {
        version
    } else {
        state.markers.get(owner).version()
    };
    state.number(owner, &mut hash, number);
    state.hashes.put(owner.clone(), hash);
}

/// The write itself: mark, data, source and reply in one step (R1).
fn write(
    state: &mut PartState,
    present: &Present,
    mutation: &Mutation,
    plan: Plan,
    version: Version,
) -> Applied {
    let owner = &mutation.owner;
    if is_kept("R1-unmarked") {
        let fields = plan.cells.iter().map(|(field, _)| field.clone()).collect();
        state.marks.mark(owner, fields, version, present.now);
    }
    let changed = u32::try_from(plan.cells.len()).unwrap_or(u32::MAX);
    let reply = Applied {
        version,
        changed,
        counters: plan.counters,
    };
    state.hashes.edit(owner, |hash| {
        hash.version = version;
        if is_kept("R2-expires") {
            hash.expires = None;
        }
        plan.cells
            .into_iter()
            .for_each(|(field, cell)| hash.set(field, cell));
    });
    if let Some(record) = &mut state.record {
        record.source = version;
    }
    if mutation.attempt.is_named() {
        state.ops.remember(mutation.id, reply.clone());
    }
    reply
}
