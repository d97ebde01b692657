//! Marks on their way to the database: snapshot, pages, collection, settling.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use async_trait::async_trait;
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Epoch, Field, Owner, Partition};

use super::lock::require;
use super::partition::{collects, current, in_epoch, raise};
use super::read::read;
use super::reject;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use crate::{
    Bound, Collected, Entry, ErrorEntry, Fields, HotError, HotRead, LandedRow, Linked, Links, Lock,
    Map, Marked, Marks, Member, Page, PartitionRecord, Reject, Settle, Settled, Snapshot,
    SnapshotId,
};

#[async_trait]
impl Marks for MemoryStore {
    async fn marks_of(&self, partition: Partition, owners: &[Owner]) -> Result<Marked, HotError> {
        self.run(partition, "marks_of", |state, _| marks_of(state, owners))
    }

    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError> {
        self.run(partition, "snapshot", |state, now| {
            snapshot(state, now, partition, lock)
        })?
    }

    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError> {
        self.run(partition, "scan", |state, _| {
            scan(state, map, cursor, count)
        })
    }

    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError> {
        self.run(partition, "errors", |state, _| {
            reject::errors(state, cursor, count)
        })
    }

    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
        known: Option<SnapshotId>,
    ) -> Result<Collected, HotError> {
        self.run(partition, "collect", |state, _| {
            let collected = collect(state, partition, wanted, known)?;
            collects(state);
            Ok(collected)
        })?
    }

    async fn collect_linked(
        &self,
        partition: Partition,
        wanted: &[(Owner, Fields)],
        bound: Bound,
        follow: bool,
    ) -> Result<Linked, HotError> {
        self.run(partition, "collect_linked", |state, present| {
            let linked = collect_linked(state, present, partition, wanted, bound, follow)?;
            if matches!(linked, Linked::Closed(..)) {
                collects(state);
            }
            Ok(linked)
        })?
    }

    async fn links(
        &self,
        partition: Partition,
        epoch: Epoch,
        owners: &[Owner],
        most: usize,
    ) -> Result<Links, HotError> {
        self.run(partition, "links", |state, _| {
            links(state, partition, epoch, owners, most)
        })?
    }

    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError> {
        self.run(settle.partition, "settle", |state, now| {
            self::settle(state, now, settle)
        })?
    }

    async fn reject(&self, reject: &Reject) -> Result<Vec<bool>, HotError> {
        self.run(reject.partition, "reject", |state, now| {
            reject::reject(state, now, reject)
        })?
    }

    async fn tear(&self, owner: &Owner) -> Result<bool, HotError> {
        self.run_for(owner, "tear", |state, _, partition| {
            reject::tear(state, partition, owner)
        })?
    }
}

/// The marks of owners in the dirty map and in the snapshot.
#[must_use]
pub fn marks_of(state: &PartState, owners: &[Owner]) -> Marked {
    let find = |map| {
        let entries = state.marks.page(map, 0, usize::MAX).entries;
        let is_named = |entry: &Entry| {
            let mark = entry.mark.as_ref().filter(|_| !entry.is_aside());
            mark.is_some_and(|mark| owners.contains(&mark.owner))
        };
        entries.into_iter().filter(is_named).collect()
    };
    Marked {
        dirty: find(Map::Dirty),
        snapshot: find(Map::Snapshot),
    }
}

/// Turns the dirty map into the snapshot, unless a snapshot is left over (R4).
///
/// # Errors
/// `Unprepared`, `LockLost`.
pub fn snapshot(
    state: &mut PartState,
    present: &Present,
    partition: Partition,
    lock: &Lock,
) -> Result<Snapshot, HotError> {
    current(state, partition, "snapshot")?;
    require(state, present.now, partition, lock, "snapshot")?;
    if !state.marks.snapshot_is_empty() {
        return Ok(Snapshot::Leftover(state.marks.number()));
    }
    if state.marks.live_is_empty() {
        return Ok(Snapshot::Empty);
    }
    Ok(Snapshot::Taken(state.marks.turn()))
}

/// Some entries of a map of marks.
#[must_use]
pub fn scan(state: &PartState, map: Map, cursor: u64, count: usize) -> Page<Entry> {
    state.marks.page(map, cursor, count)
}

/// Marked fields of owners, each with its owner's version, and the data that the fence needs.
///
/// # Errors
/// `Unprepared`.
pub fn collect(
    state: &PartState,
    partition: Partition,
    wanted: &[(Owner, Vec<Field>)],
    known: Option<SnapshotId>,
) -> Result<Collected, HotError> {
    let fields = |fields: &Vec<Field>| {
        if fields.is_empty() {
            Fields::All
        } else {
            Fields::Cells(fields.clone())
        }
    };
    let reads = wanted
        .iter()
        .map(|(owner, wanted)| read(state, owner, &fields(wanted)));
    let collected = collected(state, partition, reads.collect())?;
    let is_partial = |(owner, fields): &&(Owner, Vec<Field>)| {
        !fields.is_empty() && state.marks.names_more(owner, fields, known)
    };
    let partial = wanted.iter().filter(is_partial);
    Ok(Collected {
        partial: partial.map(|(owner, _)| owner.clone()).collect(),
        ..collected
    })
}

/// Reads with the data that the fence needs.
fn collected(
    state: &PartState,
    partition: Partition,
    mut reads: Vec<HotRead>,
) -> Result<Collected, HotError> {
    let &PartitionRecord {
        epoch,
        stamp,
        landed,
        source: reaches,
        database,
        ..
    } = current(state, partition, "collect")?;
    for header in reads.iter_mut().filter_map(|read| read.header.as_mut()) {
        header.told_by(state.notes.older());
    }
    Ok(Collected {
        epoch,
        stamp,
        landed,
        reaches,
        database,
        has_errors: state.marks.has_errors(),
        is_linked: state.marks.is_linked(),
        partial: Vec::new(),
        reads,
    })
}

/// As [`collect`], with all fields that marks name, and with `follow` all partners that the marks
/// lead to.
///
/// # Errors
/// `Unprepared`.
pub fn collect_linked(
    state: &PartState,
    present: &Present,
    partition: Partition,
    wanted: &[(Owner, Fields)],
    bound: Bound,
    follow: bool,
) -> Result<Linked, HotError> {
    let mut known: BTreeSet<Owner> = wanted.iter().map(|(owner, _)| owner.clone()).collect();
    let mut next: VecDeque<(Owner, Fields)> = wanted.to_vec().into();
    let (mut members, mut reads, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((owner, fields)) = next.pop_front() {
        let member = member(state, present, &owner, &fields);
        for partner in member.partners.iter().filter(|_| follow) {
            if !known.insert(partner.clone()) {
                continue;
            }
            match state.hashes.get(partner) {
                Some(_) => next.push_back((partner.clone(), Fields::Cells(Vec::new()))),
                None => missing.push(partner.clone()),
            }
        }
        reads.push(read(state, &owner, &member.fields));
        members.push(member);
    }
    if members.len() + missing.len() > bound.rows {
        return Ok(Linked::Large);
    }
    if !missing.is_empty() {
        return Ok(Linked::Open(missing));
    }
    let cells = || reads.iter().flat_map(|read| &read.cells);
    let bytes: usize = cells().map(|(_, cell)| cell.value().len()).sum();
    if cells().count() > bound.rows || bytes > bound.bytes {
        return Ok(Linked::Large);
    }
    Ok(Linked::Closed(collected(state, partition, reads)?, members))
}

/// An owner with its partners, and the wanted and the marked fields.
fn member(state: &PartState, present: &Present, owner: &Owner, fields: &Fields) -> Member {
    let (mut marked, partners) = state.marks.links(owner);
    let fields = match fields {
        Fields::Cells(fields) => {
            marked.extend(fields.iter().cloned());
            Fields::Cells(marked.into_iter().collect())
        }
        other => other.clone(),
    };
    let since = state.marks.rejected_since(owner);
    Member {
        owner: owner.clone(),
        fields,
        partners: partners.into_iter().collect(),
        rejected_for: since.map(|since| present.now.since(since)),
        mark: state.marks.saved(owner),
    }
}

/// The partners of owners, and those of the partners. Follows at most so many owners beside these.
///
/// # Errors
/// `Unprepared`, `EpochMoved`.
pub fn links(
    state: &PartState,
    partition: Partition,
    epoch: Epoch,
    owners: &[Owner],
    most: usize,
) -> Result<Links, HotError> {
    in_epoch(state, partition, epoch, "links")?;
    let mut linked: BTreeMap<Owner, Vec<Owner>> = BTreeMap::new();
    let mut known: BTreeSet<Owner> = owners.iter().cloned().collect();
    let (mut next, mut count, mut more) = (owners.to_vec(), 0, false);
    while let Some(owner) = next.pop() {
        let (_, partners) = state.marks.links(&owner);
        for partner in &partners {
            linked.entry(partner.clone()).or_default();
            if known.insert(partner.clone()) {
                count += 1;
                more |= count > most;
                next.push(partner.clone());
            }
        }
        if !partners.is_empty() {
            linked.insert(owner, partners.into_iter().collect());
        }
        if more {
            break;
        }
    }
    Ok(Links {
        owners: linked.into_iter().collect(),
        more,
    })
}

/// Whether the owner of a landed mark still has a hash. If somebody deleted it, its marks stay until
/// they are told: a load under way may bring rows from before the commit, which land over it (R6).
fn has_hash(state: &PartState, owner: &Owner) -> bool {
    keeps("R6-gone", state.hashes.get(owner).is_some())
}

/// The row, as it clears error marks. A hash that was made anew can have rows that no write has changed.
/// They prove nothing about a write that went with the hash before (R6).
fn since_birth(state: &PartState, row: &LandedRow) -> LandedRow {
    let hash = state
        .hashes
        .get(&row.owner)
        .filter(|_| is_kept("R6-before"));
    let born = hash.map(|hash| hash.born).unwrap_or_default();
    LandedRow {
        from: row.from.max(born),
        ..row.clone()
    }
}

/// Clears marks whose rows were committed (R5).
///
/// # Errors
/// `Unprepared`, `EpochMoved`, `LockLost`. Nothing was cleared.
pub fn settle(
    state: &mut PartState,
    present: &Present,
    settle: &Settle,
) -> Result<Settled, HotError> {
    in_epoch(state, settle.partition, settle.epoch, "settle")?;
    if let Some(lock) = &settle.lock {
        require(state, present.now, settle.partition, lock, "settle")?;
    }
    let mut settled = Settled::default();
    let mut touched = BTreeSet::new();
    // A call without the lock is a flush. It leaves its marks to the worker.
    for entry in settle
        .marks
        .iter()
        .filter(|_| keeps("R5-flush", settle.lock.is_some()))
    {
        let Some(mark) = &entry.mark else { continue };
        if !has_hash(state, &mark.owner) {
            continue;
        }
        if let Some(cleared) = state.marks.clear(settle.snapshot, entry) {
            settled.cleared += 1;
            touched.insert(&mark.owner);
            if settle.probation && is_kept("H33-forgotten") {
                state.marks.put_on_probation(cleared);
            }
        }
    }
    for row in &settle.rows {
        let LandedRow { owner, field, .. } = row;
        if !has_hash(state, owner) {
            continue;
        }
        let row = &since_birth(state, row);
        if let Some((refused, partners)) = state.marks.clear_error(row) {
            settled.errors_cleared += 1;
            touched.insert(owner);
            if settle.probation && is_kept("H33-forgotten") {
                let marks = &mut state.marks;
                marks.put_field_on_probation(owner, field, refused, partners);
            }
        }
    }
    raise(state, settle.landed);
    touched
        .into_iter()
        .for_each(|owner| state.release(present, owner));
    Ok(settled)
}
