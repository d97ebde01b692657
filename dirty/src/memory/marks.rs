//! Dirty map, snapshot, error map and the maps of landed marks on probation, and how many marks name an owner.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Timestamp, Version};

use super::numbered::Numbered;
use crate::{Entry, ErrorEntry, Map, Mark, Page};

/// What an error mark says beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ErrorMark {
    pub(super) version: Version,
    pub(super) attempts: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) next: Timestamp,
    pub(super) code: u32,
    pub(super) message: String,
}

/// The maps of a partition that hold marks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Marks {
    live: Numbered<Mark, Version>,
    snapshot: Numbered<Mark, Version>,
    errors: Numbered<(Owner, Field), ErrorMark>,
    landed: Numbered<Mark, Version>,
    leaving: Numbered<Mark, Version>,
    // H12: changes only where an entry appears or vanishes, in the methods below.
    outstanding: BTreeMap<Owner, u32>,
    live_since: Option<Timestamp>,
    snapshot_since: Option<Timestamp>,
    /// The number of the window that leaves, or left last.
    window: u64,
    /// Whether the epoch changed since the marks on probation were settled.
    lost: bool,
}

impl Marks {
    /// How many entries name the owner.
    pub(super) fn outstanding(&self, owner: &Owner) -> u32 {
        self.outstanding.get(owner).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.live.len() + self.snapshot.len() + self.errors.len() + self.landed.len() + self.leaving.len()
    }

    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.live.len(), self.snapshot.len(), self.errors.len()]
    }

    /// When the oldest entries of dirty map and snapshot were marked, or earlier.
    pub(super) fn since(&self) -> [Option<Timestamp>; 2] {
        [self.live_since, self.snapshot_since]
    }

    /// Marks a write in the dirty map.
    pub(super) fn mark(&mut self, mark: Mark, version: Version, now: Timestamp) {
        let owner = mark.owner.clone();
        self.live_since.get_or_insert(now);
        if self.live.insert(mark, version) {
            self.count(owner);
        }
    }

    pub(super) fn live_is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn snapshot_is_empty(&self) -> bool {
        self.snapshot.is_empty()
    }

    /// Turns the dirty map into the snapshot. The caller has made sure that none is left over.
    pub(super) fn turn(&mut self) {
        self.snapshot = self.live.take();
        self.snapshot_since = self.live_since.take();
    }

    /// Clears a mark of the snapshot if it still has this version.
    pub(super) fn clear(&mut self, mark: &Mark, version: Version) -> bool {
        if self.snapshot.get(mark).is_none_or(|held| *held != version && !broken("R5-by-name") && !broken("R5-unlocked")) {
            return false;
        }
        self.snapshot.remove(mark);
        if self.snapshot.is_empty() {
            self.snapshot_since = None;
        }
        self.uncount(&mark.owner);
        true
    }

    pub(super) fn error(&self, target: &(Owner, Field)) -> Option<&ErrorMark> {
        self.errors.get(target)
    }

    /// Whether anything is parked.
    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(super) fn set_error(&mut self, target: (Owner, Field), error: ErrorMark) {
        let owner = target.0.clone();
        if self.errors.insert(target, error) && !broken("R2-parked") {
            self.count(owner);
        }
    }

    /// Clears a field's error mark if it is at or below the version; answers the version it had.
    pub(super) fn clear_error(&mut self, target: &(Owner, Field), version: Version) -> Option<Version> {
        let older = |refused: &Version| *refused <= version || broken("R5-any-error");
        let refused = self.errors.get(target).map(|error| error.version).filter(older).filter(|_| !broken("R5-kept-error"))?;
        self.errors.remove(target);
        if !broken("H12-replayed") {
            self.uncount(&target.0);
        }
        Some(refused)
    }

    /// Puts a mark that was cleared on probation.
    pub(super) fn put_on_probation(&mut self, mark: Mark, version: Version) {
        let owner = mark.owner.clone();
        let version = greater(self.landed.get(&mark).copied(), version);
        if self.landed.insert(mark, version) {
            self.count(owner);
        }
    }

    /// How many marks are on probation, and how many of them leave.
    pub(super) fn sizes_on_probation(&self) -> [usize; 2] {
        [self.landed.len(), self.leaving.len()]
    }

    /// Notes that the epoch changed: what is on probation may be lost.
    pub(super) fn lose(&mut self) {
        self.lost = self.sizes_on_probation() != [0, 0] && !broken("H33-kept");
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The window that leaves. If none does, the marks on probation become the next.
    pub(super) fn leave(&mut self) -> u64 {
        if self.leaving.is_empty() {
            self.leaving = self.landed.take();
            self.window += 1;
        }
        self.window
    }

    /// Whether the leaving marks are those of this window.
    pub(super) fn is_window(&self, number: u64) -> bool {
        self.window == number
    }

    /// Ends the probation of a leaving mark if it still has this version.
    pub(super) fn acquit(&mut self, mark: &Mark, version: Version) -> bool {
        if self.leaving.get(mark) != Some(&version) {
            return false;
        }
        self.leaving.remove(mark);
        self.uncount(&mark.owner);
        true
    }

    /// Makes a mark on probation live again, if the epoch changed since it was settled.
    pub(super) fn relive(&mut self, mark: &Mark, now: Timestamp) -> bool {
        let found = self.landed.get(mark).copied().max(self.leaving.get(mark).copied());
        let Some(version) = found.filter(|_| self.lost) else { return false };
        self.live_since.get_or_insert(now);
        let version = greater(self.live.get(mark).copied(), version);
        if self.live.insert(mark.clone(), version) {
            self.count(mark.owner.clone());
        }
        let removed = [self.landed.remove(mark), self.leaving.remove(mark)];
        removed.iter().flatten().for_each(|_| self.uncount(&mark.owner));
        if self.sizes_on_probation() == [0, 0] {
            self.lost = false;
        }
        true
    }

    pub(super) fn page(&self, map: Map, cursor: u64, count: usize) -> Page<Entry> {
        let entry = |mark: &Mark, version: &Version| Entry {
            raw: raw(&mark.owner, &mark.fields),
            mark: Some(mark.clone()),
            version: *version,
        };
        match map {
            Map::Dirty => self.live.page(cursor, count, entry),
            Map::Snapshot => self.snapshot.page(cursor, count, entry),
            Map::Landed => self.landed.page(cursor, count, entry),
            Map::Leaving => self.leaving.page(cursor, count, entry),
            Map::Error => self.errors.page(cursor, count, |(owner, field), error| {
                entry(&Mark { owner: owner.clone(), fields: vec![field.clone()] }, &error.version)
            }),
        }
    }

    pub(super) fn error_page(&self, cursor: u64, count: usize) -> Page<ErrorEntry> {
        self.errors.page(cursor, count, |(owner, field), error| ErrorEntry {
            raw: raw(owner, std::slice::from_ref(field)),
            target: Some((owner.clone(), field.clone())),
            version: error.version,
            attempts: error.attempts,
            first: error.first,
            last: error.last,
            next: error.next,
            code: error.code,
            message: error.message.clone(),
        })
    }

    /// How many entries name each owner, by counting them.
    pub(super) fn counted(&self) -> BTreeMap<Owner, u32> {
        let made = [&self.live, &self.snapshot].into_iter().flat_map(Numbered::keys);
        let landed = [&self.landed, &self.leaving].into_iter().flat_map(Numbered::keys);
        let marks = made.chain(landed).map(|mark| &mark.owner);
        let errors = self.errors.keys().map(|(owner, _)| owner);
        let mut counts = BTreeMap::new();
        marks.chain(errors).for_each(|owner| *counts.entry(owner.clone()).or_default() += 1);
        counts
    }

    /// How many entries name each owner, as kept.
    pub(super) fn kept(&self) -> &BTreeMap<Owner, u32> {
        &self.outstanding
    }

    fn count(&mut self, owner: Owner) {
        *self.outstanding.entry(owner).or_default() += 1;
    }

    fn uncount(&mut self, owner: &Owner) {
        match self.outstanding.get_mut(owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.outstanding.remove(owner)),
        }
    }
}

/// Where there is a mark of a name, the greater version stays.
fn greater(held: Option<Version>, version: Version) -> Version {
    held.filter(|_| !broken("H33-lowered")).unwrap_or_default().max(version)
}

/// The name of an entry: its parts with a NUL between them, which no name holds.
fn raw(owner: &Owner, fields: &[Field]) -> Bytes {
    let names = [owner.app(), owner.region(), owner.logic_type(), owner.id()].into_iter();
    let parts: Vec<&str> = names.chain(fields.iter().map(Field::as_str)).collect();
    Bytes::from(parts.join("\0"))
}
