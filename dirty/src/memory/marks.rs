//! Dirty map, snapshot and error map, and how many marks name an owner.

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

/// The three maps of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Marks {
    live: Numbered<Mark, Version>,
    snapshot: Numbered<Mark, Version>,
    errors: Numbered<(Owner, Field), ErrorMark>,
    // H12: changes only where an entry appears or vanishes, in the methods below.
    outstanding: BTreeMap<Owner, u32>,
    live_since: Option<Timestamp>,
    snapshot_since: Option<Timestamp>,
}

impl Marks {
    /// How many entries name the owner.
    pub(super) fn outstanding(&self, owner: &Owner) -> u32 {
        self.outstanding.get(owner).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.live.len() + self.snapshot.len() + self.errors.len()
    }

    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.live.len(), self.snapshot.len(), self.errors.len()]
    }

    /// When the oldest entry of dirty map or snapshot was marked, or earlier.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.live_since.into_iter().chain(self.snapshot_since).min()
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
        if self.snapshot.get(mark).is_none_or(|held| *held != version && !broken("R5-by-name")) {
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

    pub(super) fn set_error(&mut self, target: (Owner, Field), error: ErrorMark) {
        let owner = target.0.clone();
        if self.errors.insert(target, error) {
            self.count(owner);
        }
    }

    /// Clears a field's error mark if it is at or below the version.
    pub(super) fn clear_error(&mut self, target: &(Owner, Field), version: Version) -> bool {
        let newer = |error: &ErrorMark| error.version > version && !broken("R5-any-error");
        if self.errors.get(target).is_none_or(newer) || broken("R5-kept-error") {
            return false;
        }
        self.errors.remove(target);
        self.uncount(&target.0);
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
        let marks = self.live.keys().chain(self.snapshot.keys()).map(|mark| &mark.owner);
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

/// The name of an entry: its parts with a NUL between them, which no name holds.
fn raw(owner: &Owner, fields: &[Field]) -> Bytes {
    let names = [owner.app(), owner.region(), owner.logic_type(), owner.id()].into_iter();
    let parts: Vec<&str> = names.chain(fields.iter().map(Field::as_str)).collect();
    Bytes::from(parts.join("\0"))
}
