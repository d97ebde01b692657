//! Mutations: the effect of one is computed first and then written.

mod plan;

use storage_model::sabotage::{is_kept, keeps};
use storage_model::{
    Applied, Content, Durability, ID_WINDOW, Mutation, Note, Owner, Partition, Position, Version,
};

use self::plan::{OwnerState, Plan, PlanFailure, plan};
use super::fill::{MergedOwner, is_proved, keep, merge, reborn};
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
        loads: &[Load],
    ) -> Result<Mutated, HotError> {
        let wanted = room::of_mutation(mutation, loads);
        self.with_room(
            wanted,
            &mutation.owner,
            "mutate",
            |state, present, partition| mutate(state, present, partition, mutation, loads),
        )
    }
}

/// One owner's part of a mutation, ready to be written.
struct Ready<'a> {
    part: &'a Mutation,
    merged: Option<MergedOwner>,
    plan: Plan,
    /// The owner's version before the mutation, if it is known.
    known: Option<Version>,
}

impl Ready<'_> {
    /// The owner's version before the mutation.
    fn version(&self) -> Version {
        self.known.unwrap_or_default()
    }

    fn changes(&self) -> bool {
        !self.plan.cells.is_empty()
    }
}

/// Applies a mutation, with the loads that it builds on as far as they are proved, or changes
/// nothing.
///
/// # Errors
/// - `Unprepared`: the partition has no record of this incarnation.
/// - `Durability`: the mutation waits for a replica or a disk, which memory does not have.
/// - `Settings`: the deadline lies further ahead than ids are remembered.
/// - `OutOfMemory`: the mutation does not fit, and nothing can be evicted.
/// - `Backlog`: a mark of the owner has no room for another field.
/// - `Corrupt`: the versions ran out.
///
/// Nothing changed.
pub fn mutate(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    mutation: &Mutation,
    loads: &[Load],
) -> Result<Mutated, HotError> {
    let record = current(state, partition, OPERATION)?.clone();
    if let Some(reply) = state
        .ops
        .reply(&mutation.id)
        .filter(|_| mutation.attempt.is_named() && is_kept("R11-ids"))
    {
        return Ok(Mutated::Applied(reply.clone()));
    }
    if let Some(refusal) = refusal(present, &record, mutation)? {
        return Ok(Mutated::Refused(refusal));
    }
    let parts = match prepare_all(state, &record, mutation, loads) {
        Ok(parts) => parts,
        Err(Unready::Refused(refusal)) => return Ok(Mutated::Refused(refusal)),
        Err(Unready::Load(owner)) => {
            state.claim(present, owner);
            return Ok(Mutated::Load(state.observed(owner, record.epoch)));
        }
    };
    let mut next = Version::ZERO;
    if parts.iter().any(Ready::changes) {
        let changing = parts.iter().filter(|ready| ready.changes());
        let last = changing
            .map(Ready::version)
            .fold(record.source, Version::max);
        next = next_version(last, present, OPERATION)?;
        for ready in parts.iter().filter(|ready| ready.changes()) {
            let fields = ready.plan.cells.iter().map(|(field, _)| field);
            state.marks.expect_room(&ready.part.owner, fields)?;
        }
        room::make_or_refuse(
            state,
            present,
            room::of_mutation(mutation, loads),
            &mutation.owner,
            OPERATION,
        )?;
    }
    // Nothing fails from here on.
    let reply = apply_all(state, present, &record, parts, next);
    let is_void = next == Version::ZERO;
    if mutation.attempt.is_named() && (!is_void || is_kept("R11-void")) {
        state.ops.remember(mutation.id, reply.clone());
    }
    Ok(Mutated::Applied(reply))
}

/// Why a mutation is not applied.
enum Unready<'a> {
    Refused(Refusal),
    /// It needs a load of this owner.
    Load(&'a Owner),
}

/// Computes the effect of all parts.
fn prepare_all<'a>(
    state: &PartState,
    record: &PartitionRecord,
    mutation: &'a Mutation,
    loads: &[Load],
) -> Result<Vec<Ready<'a>>, Unready<'a>> {
    let mut parts = Vec::with_capacity(1 + mutation.also.len());
    for (at, part) in mutation.parts().enumerate() {
        match prepare(state, record, part, loads) {
            Ok(ready) => parts.push(ready),
            Err(Unready::Refused(refusal)) if at > 0 => {
                let refusal = Box::new(refusal);
                return Err(Unready::Refused(Refusal::Partner { at, refusal }));
            }
            Err(answer) => return Err(answer),
        }
    }
    Ok(parts)
}

/// Writes all parts, and links the owners that have changed.
fn apply_all(
    state: &mut PartState,
    present: &Present,
    record: &PartitionRecord,
    parts: Vec<Ready<'_>>,
    next: Version,
) -> Applied {
    let (mut changed, mut replies) = (Vec::new(), Vec::with_capacity(parts.len()));
    for ready in parts {
        if ready.changes() {
            changed.push(ready.part.owner.clone());
        }
        replies.push(apply(state, present, record, ready, next));
    }
    if is_kept("G1-unlinked") {
        state.marks.link(&changed);
    }
    let mut replies = replies.into_iter();
    let mut reply = replies.next().unwrap_or_default();
    reply.also = replies.collect();
    reply
}

/// Computes the effect of one owner's part.
fn prepare<'a>(
    state: &PartState,
    record: &PartitionRecord,
    part: &'a Mutation,
    loads: &[Load],
) -> Result<Ready<'a>, Unready<'a>> {
    if let Some(refusal) = session::refusal(state, record, part) {
        return Err(Unready::Refused(refusal));
    }
    let proved = |load: &&Load| load.owner == part.owner && is_proved(state, record, load);
    let load = loads.iter().find(proved);
    let merged = load.map(|load| merge(state, record, load));
    let met = meet(state, record, part, merged.as_ref());
    let known = met.version();
    match plan(&met, part) {
        Ok(plan) => Ok(Ready {
            part,
            merged,
            plan,
            known,
        }),
        Err(PlanFailure::Refused(refusal)) => Err(Unready::Refused(refusal)),
        Err(PlanFailure::Load) => Err(Unready::Load(&part.owner)),
    }
}

/// Writes one owner's part. A part without changes still confirms or ends its session.
fn apply(
    state: &mut PartState,
    present: &Present,
    record: &PartitionRecord,
    ready: Ready<'_>,
    next: Version,
) -> Applied {
    if !ready.changes() {
        session::saved(state, present, ready.part, record.epoch);
        return Applied {
            version: ready.version(),
            counters: ready.plan.counters,
            ..Applied::default()
        };
    }
    let owner = &ready.part.owner;
    if let Some(merged) = ready.merged {
        keep(state, present, owner, merged, Some(next));
    }
    // Also if the load has just found that there is no row.
    let complete = keeps("R8-complete", state.marker(owner).is_absent());
    make(state, present, record, owner, next, complete);
    let mut applied = write(state, present, owner, ready.plan, next);
    applied.position = note(state, record, ready.part, ready.known, &applied);
    session::saved(state, present, ready.part, record.epoch);
    applied
}

/// Why the mutation is rejected now, for reasons beside the owner's data.
///
/// # Errors
/// `Durability`, `Settings`: the mutation can never be applied.
fn refusal(
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
    Ok(None)
}

/// The owner as the mutation finds it: with its load, if that is proved.
fn meet<'a>(
    state: &'a PartState,
    record: &PartitionRecord,
    mutation: &Mutation,
    merged: Option<&'a MergedOwner>,
) -> OwnerState<'a> {
    let owner = &mutation.owner;
    let marker = state.marker(owner);
    let (hash, marker) = match merged {
        Some(merged) if merged.absent => (merged.hash.as_ref(), Marker::Absent(marker.number())),
        Some(merged) => (merged.hash.as_ref(), marker),
        None => (state.hashes.get(owner), marker),
    };
    let is_marked = state.marks.names(owner);
    OwnerState {
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
    present: &Present,
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
    let unlanded = reborn(state, owner, &mut hash);
    let number = match state.marker(owner) {
        Marker::At(number) if !is_kept("R7-unraised") => number,
        _ => version,
    };
    state.number(present, owner, &mut hash, number);
    state.hashes.put(owner.clone(), hash);
    if !unlanded.is_empty() {
        state.marks.mark(owner, unlanded, version, present.now);
    }
}

/// The write itself: mark, data and source in one step (R1).
fn write(
    state: &mut PartState,
    present: &Present,
    owner: &Owner,
    plan: Plan,
    version: Version,
) -> Applied {
    if is_kept("R1-unmarked") {
        let fields = plan.cells.iter().map(|(field, _)| field.clone()).collect();
        state.marks.mark(owner, fields, version, present.now);
    }
    let changed = u32::try_from(plan.cells.len()).unwrap_or(u32::MAX);
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
    Applied {
        version,
        changed,
        counters: plan.counters,
        position: None,
        also: Vec::new(),
    }
}

/// Adds the write's note to the stream, in the same step (F1). Returns its place.
fn note(
    state: &mut PartState,
    record: &PartitionRecord,
    part: &Mutation,
    previous: Option<Version>,
    applied: &Applied,
) -> Option<Position> {
    let body = part.note.clone()?;
    let note = Note {
        owner: part.owner.clone(),
        version: applied.version,
        previous,
        counters: applied.counters.clone(),
        body,
    };
    let position = state.notes.add(record.epoch, Content::Note(note));
    state.hashes.edit(&part.owner, |hash| hash.noted = position);
    Some(position)
}
