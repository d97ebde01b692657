//! Dirty map, snapshot, error map and the maps of landed marks on probation.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Epoch, Field, Owner, Timestamp, Version};

use super::numbered::Numbered;
use crate::mark::SEPARATOR;
use crate::{
    Entry, ErrorEntry, HotError, HotKind, LandedRow, Load, Map, Mark, Page, SnapshotId, key,
};

/// The content of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MarkContent {
    fields: BTreeSet<Field>,
    /// Owners that must land together with this one (G1).
    partners: BTreeSet<Owner>,
    version: Version,
}

impl MarkContent {
    /// Joins this mark with the one before: the fields of both, and the greater version.
    fn joined(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before {
            self.fields.extend(before.fields.iter().cloned());
            self.partners.extend(before.partners.iter().cloned());
            self.version = self.version.max(before.version);
        }
        self
    }
}

/// The name of a mark: its owner, and its version if it was put aside. A mark is put aside when the
/// owner's hash was lost. Nothing joins such a mark.
type Name = (Owner, Option<Version>);
type MarkMap = Numbered<Name, MarkContent>;

/// The numbers of snapshots that an epoch has.
const SNAPSHOTS_OF_EPOCH: u64 = 1 << 28;

/// The length of a mark that takes no further fields, bytes. The scripts have the same number.
const MARK_MAX: usize = 65_536;

/// The content of an error mark.
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
    live: MarkMap,
    snapshot: MarkMap,
    errors: Numbered<Owner, BTreeMap<Field, ErrorMark>>,
    landed: MarkMap,
    expiring: MarkMap,
    /// Owners to evict once no map names them and no session holds them.
    evicted: BTreeSet<Owner>,
    /// The partners of owners in the error map (G1).
    rejected_partners: BTreeMap<Owner, BTreeSet<Owner>>,
    /// Whether marks of the dirty map have partners, and whether others have.
    linked: [bool; 2],
    live_since: Option<Timestamp>,
    snapshot_since: Option<Timestamp>,
    /// The number of the present snapshot, or of the last one.
    number: SnapshotId,
    /// The number of the window that is expiring, or of the last one that left.
    window: u64,
    /// Whether the epoch changed since the marks on probation were settled.
    lost: bool,
}

impl Marks {
    /// Whether a map names the owner. Marks that were put aside do not count.
    pub(super) fn names(&self, owner: &Owner) -> bool {
        let name = (owner.clone(), None);
        let maps = [&self.live, &self.snapshot, &self.landed, &self.expiring];
        let is_refused = self.errors.get(owner).is_some() && is_kept("R2-rejected");
        is_refused || maps.iter().any(|map| map.get(&name).is_some())
    }

    /// All owners that a map names.
    pub(super) fn named(&self) -> impl Iterator<Item = &Owner> {
        let maps = [&self.live, &self.snapshot, &self.landed, &self.expiring]
            .into_iter()
            .flat_map(Numbered::keys);
        maps.filter(|(_, aside)| aside.is_none())
            .map(|(owner, _)| owner)
            .chain(self.errors.keys())
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
            + self.snapshot.len()
            + self.errors.len()
            + self.landed.len()
            + self.expiring.len()
    }

    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.live.len(), self.snapshot.len(), self.errors.len()]
    }

    /// When the oldest entries of dirty map and snapshot were marked, or earlier.
    pub(super) fn since(&self) -> [Option<Timestamp>; 2] {
        [self.live_since, self.snapshot_since]
    }

    /// Refuses to let a long mark grow, as the scripts do.
    ///
    /// # Errors
    /// `Backlog`.
    pub(super) fn expect_room<'a>(
        &self,
        owner: &Owner,
        mut fields: impl Iterator<Item = &'a Field>,
    ) -> Result<(), HotError> {
        let Some(mark) = self.live.get(&(owner.clone(), None)) else {
            return Ok(());
        };
        let length: usize = mark
            .fields
            .iter()
            .map(|field| key::stored(field).len() + 1)
            .sum();
        if length < MARK_MAX || fields.all(|field| mark.fields.contains(field)) {
            return Ok(());
        }
        let message = format!(
            "the names of the unlanded fields of {owner} have reached {MARK_MAX} B; retry later, once they have landed"
        );
        Err(HotError::not_applied(HotKind::Backlog, "mutate", message))
    }

    /// Marks a write in the dirty map.
    pub(super) fn mark(
        &mut self,
        owner: &Owner,
        fields: BTreeSet<Field>,
        version: Version,
        now: Timestamp,
    ) {
        let name = (owner.clone(), None);
        self.live_since.get_or_insert(now);
        let before = self.live.get(&name).filter(|_| is_kept("R1-list"));
        let changed = MarkContent {
            fields,
            partners: BTreeSet::new(),
            version,
        }
        .joined(before);
        self.live.insert(name, changed);
    }

    /// Links owners that were just marked, by way of the first of them (G1).
    pub(super) fn link(&mut self, owners: &[Owner]) {
        let [hub, others @ ..] = owners else { return };
        for other in others {
            let [_, elsewhere] = self.linked;
            self.linked = [true, elsewhere];
            for (one, partner) in [(hub, other), (other, hub)] {
                let name = (one.clone(), None);
                if let Some(mut changed) = self.live.get(&name).cloned() {
                    changed.partners.insert(partner.clone());
                    self.live.insert(name, changed);
                }
            }
        }
    }

    /// Gives marks of a lost hash a name of their own, since the owner gets another hash (R6).
    pub(super) fn put_aside(&mut self, owner: &Owner) {
        let maps = [
            Some(&mut self.live),
            is_kept("R6-aside").then_some(&mut self.snapshot),
            Some(&mut self.landed),
            Some(&mut self.expiring),
        ];
        for map in maps.into_iter().flatten() {
            if let Some(changed) = map.remove(&(owner.clone(), None)) {
                let name = (owner.clone(), Some(changed.version));
                let changed = changed.joined(map.get(&name));
                map.insert(name, changed);
            }
        }
    }

    /// Whether a mark may have partners. A mark without partners can also be among those.
    pub(super) fn is_linked(&self) -> bool {
        self.linked.contains(&true)
    }

    /// The fields of all marks of an owner, and its partners. Marks that were put aside belong to a
    /// lost hash, and do not count.
    pub(super) fn links(&self, owner: &Owner) -> (BTreeSet<Field>, BTreeSet<Owner>) {
        let name = (owner.clone(), None);
        let mut fields = BTreeSet::new();
        let mut partners = BTreeSet::new();
        for map in [&self.live, &self.snapshot, &self.landed, &self.expiring] {
            if let Some(changed) = map.get(&name) {
                fields.extend(changed.fields.iter().cloned());
                partners.extend(changed.partners.iter().cloned());
            }
        }
        if let Some(errors) = self.errors.get(owner) {
            fields.extend(errors.keys().cloned());
            partners.extend(self.error_partners(owner));
        }
        (fields, partners)
    }

    /// Whether a mark names another field of the owner than these, or the error map names the owner
    /// (R16). The fields of the snapshot of the number `known` are among these. Marks on probation
    /// count while the database may have forgotten their rows.
    pub(super) fn names_more(
        &self,
        owner: &Owner,
        fields: &[Field],
        known: Option<SnapshotId>,
    ) -> bool {
        let name = (owner.clone(), None);
        let is_known = known == Some(self.number);
        let maps = [
            Some(&self.live),
            (!is_known && is_kept("R16-snapshot")).then_some(&self.snapshot),
            (self.lost && is_kept("R16-requeue")).then_some(&self.landed),
            (self.lost && is_kept("R16-requeue")).then_some(&self.expiring),
        ];
        let mut marks = maps.into_iter().flatten().filter_map(|map| map.get(&name));
        let is_rejected = self.errors.get(owner).is_some() && is_kept("R16-errors");
        let names_more = marks.any(|mark| mark.fields.iter().any(|one| !fields.contains(one)));
        is_rejected || names_more && is_kept("R16-named")
    }

    /// The fields of the owner that will land by themselves, since a mark names them. Marks on
    /// probation count while the database may have forgotten their rows.
    pub(super) fn landing(&self, owner: &Owner) -> BTreeSet<Field> {
        let name = (owner.clone(), None);
        let mut maps = vec![&self.live, &self.snapshot];
        if self.lost {
            maps.extend([&self.landed, &self.expiring]);
        }
        let marked = maps
            .into_iter()
            .filter_map(|map| map.get(&name))
            .flat_map(|mark| &mark.fields);
        let errors = self.errors.get(owner);
        let rejected = errors.into_iter().flat_map(BTreeMap::keys);
        marked.chain(rejected).cloned().collect()
    }

    /// The rejected fields without which the owner has landed up to this version of its hash: a row
    /// of another field is as new as the rejection, and their own row is not.
    pub(super) fn torn(&self, load: &Load, until: Version) -> BTreeSet<Field> {
        let errors = self.errors.get(&load.owner);
        let rejected = errors.into_iter().flatten();
        let is_torn = |(field, error): &(&Field, &ErrorMark)| {
            let is_as_new = |row: Version| row >= error.version;
            let mut rows = load.rows.iter();
            let has_landed = rows
                .clone()
                .any(|(one, _, row)| one == *field && is_as_new(*row));
            let is_behind =
                rows.any(|(one, _, row)| one != *field && is_as_new(*row) && *row <= until);
            is_behind && !has_landed && !error.message.starts_with("vanished")
        };
        let torn = rejected.filter(is_torn);
        torn.map(|(field, _)| field.clone()).collect()
    }

    /// The mark of the owner in the snapshot, and the snapshot's number.
    pub(super) fn saved(&self, owner: &Owner) -> Option<(SnapshotId, Entry)> {
        let name = (owner.clone(), None);
        let changed = self.snapshot.get(&name)?;
        Some((self.number, entry(&name, changed)))
    }

    /// When the database rejected a field of the owner first. A mark whose value vanished from the
    /// hot tier was not rejected by the database.
    pub(super) fn rejected_since(&self, owner: &Owner) -> Option<Timestamp> {
        let errors = self.errors.get(owner)?.values();
        errors
            .filter(|error| !error.message.starts_with("vanished"))
            .map(|error| error.first)
            .min()
    }

    /// Makes the error marks of an owner old and due. Returns whether it has any that the database
    /// made.
    pub(super) fn tear(&mut self, owner: &Owner) -> bool {
        let mut fields = self.errors.get(owner).cloned().unwrap_or_default();
        let mut is_rejected = false;
        for error in fields.values_mut() {
            if !error.message.starts_with("vanished") {
                (error.first, error.next, is_rejected) = (Timestamp(0), Timestamp(0), true);
            }
        }
        if is_rejected {
            self.errors.insert(owner.clone(), fields);
        }
        is_rejected
    }

    /// Notes the partners of a mark that goes to the error map (G1).
    pub(super) fn keep_partners(&mut self, owner: &Owner, cleared: &ClearedMark) {
        if cleared.name.1.is_none()
            && !cleared.changed.partners.is_empty()
            && is_kept("G1-rejected")
        {
            let partners = self.rejected_partners.entry(owner.clone()).or_default();
            partners.extend(cleared.changed.partners.iter().cloned());
        }
    }

    /// Drops partners of an owner in the error map, since they have landed apart (G1).
    pub(super) fn leave_partners(&mut self, owner: &Owner, partners: &[Owner]) {
        if let Some(held) = self.rejected_partners.get_mut(owner) {
            held.retain(|partner| !partners.contains(partner));
            if held.is_empty() {
                self.rejected_partners.remove(owner);
            }
        }
    }

    pub(super) fn live_is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn snapshot_is_empty(&self) -> bool {
        self.snapshot.is_empty()
    }

    /// The number of the present snapshot, or of the last one.
    pub(super) fn number(&self) -> SnapshotId {
        self.number
    }

    /// Turns the dirty map into the snapshot. The caller has checked that no snapshot is left over.
    pub(super) fn turn(&mut self) -> SnapshotId {
        self.number.0 += 1;
        let stay = !self.errors.is_empty() || self.sizes_on_probation() != [0, 0];
        let [live, others] = self.linked;
        self.linked = [false, live && is_kept("G1-flag") || others && stay];
        self.snapshot = self.live.take();
        self.snapshot_since = self.live_since.take();
        self.number
    }

    /// Takes an entry out of the snapshot of this number. `None` if it is not there.
    pub(super) fn clear(&mut self, number: SnapshotId, entry: &Entry) -> Option<ClearedMark> {
        if !keeps("R5-number", number == self.number) {
            return None;
        }
        let name = name_of(entry)?;
        let changed = self.snapshot.remove(&name)?;
        if self.snapshot.is_empty() {
            self.snapshot_since = None;
        }
        Some(ClearedMark { name, changed })
    }

    pub(super) fn error(&self, owner: &Owner, field: &Field) -> Option<&ErrorMark> {
        self.errors.get(owner)?.get(field)
    }

    /// Whether the error map has entries.
    pub(super) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(super) fn set_error(&mut self, owner: Owner, field: Field, error: ErrorMark) {
        let mut fields = self.errors.get(&owner).cloned().unwrap_or_default();
        fields.insert(field, error);
        self.errors.insert(owner, fields);
    }

    /// Clears a field's error mark if its write is in the landed row. Returns the version of the
    /// mark, and the owner's partners.
    pub(super) fn clear_error(
        &mut self,
        LandedRow {
            owner,
            field,
            version,
            from,
        }: &LandedRow,
    ) -> Option<(Version, BTreeSet<Owner>)> {
        let older = |refused: &Version| {
            keeps("R5-any-error", refused <= version) && keeps("R6-settled", from <= refused)
        };
        let refused = self
            .error(owner, field)
            .map(|error| error.version)
            .filter(older)
            .filter(|_| is_kept("R5-kept-error"))?;
        let partners = self.error_partners(owner);
        let mut fields = self.errors.get(owner).cloned().unwrap_or_default();
        fields.remove(field);
        if fields.is_empty() {
            self.errors.remove(owner);
            self.rejected_partners.remove(owner);
        } else {
            self.errors.insert(owner.clone(), fields);
        }
        Some((refused, partners))
    }

    fn error_partners(&self, owner: &Owner) -> BTreeSet<Owner> {
        let partners = self.rejected_partners.get(owner).cloned();
        partners.unwrap_or_default()
    }

    /// Puts a cleared mark on probation.
    pub(super) fn put_on_probation(&mut self, ClearedMark { name, changed }: ClearedMark) {
        let changed = changed.joined(self.landed.get(&name));
        self.landed.insert(name, changed);
    }

    /// Puts a field on probation after its error mark was cleared.
    pub(super) fn put_field_on_probation(
        &mut self,
        owner: &Owner,
        field: &Field,
        version: Version,
        partners: BTreeSet<Owner>,
    ) {
        let changed = MarkContent {
            fields: BTreeSet::from([field.clone()]),
            partners,
            version,
        };
        self.put_on_probation(ClearedMark {
            name: (owner.clone(), None),
            changed,
        });
    }

    /// How many marks are on probation in the present window, and how many are expiring.
    pub(super) fn sizes_on_probation(&self) -> [usize; 2] {
        [self.landed.len(), self.expiring.len()]
    }

    /// Notes that the epoch changed, so that the commits of marks on probation may be lost.
    pub(super) fn lose(&mut self) {
        self.lost = self.sizes_on_probation() != [0, 0] && is_kept("H33-kept");
    }

    /// Gives the snapshot a number of this epoch, which no snapshot of another epoch has (R5).
    pub(super) fn renumber(&mut self, epoch: Epoch) {
        self.number = SnapshotId(epoch.0.saturating_mul(SNAPSHOTS_OF_EPOCH));
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The window that is expiring. If none is, the marks on probation become the next.
    pub(super) fn leave(&mut self) -> u64 {
        if self.expiring.is_empty() {
            self.expiring = self.landed.take();
            self.window += 1;
        }
        self.window
    }

    /// Whether the expiring marks are those of this window.
    pub(super) fn is_window(&self, number: u64) -> bool {
        self.window == number
    }

    /// Ends the probation of an expiring mark. Returns whether it was there.
    pub(super) fn expire(&mut self, entry: &Entry) -> bool {
        name_of(entry).is_some_and(|name| self.expiring.remove(&name).is_some())
    }

    /// Makes a mark on probation live again, if the epoch changed since it was settled.
    pub(super) fn requeue(&mut self, entry: &Entry, now: Timestamp) -> bool {
        let Some(name) = name_of(entry).filter(|_| self.lost) else {
            return false;
        };
        let removed = [self.landed.remove(&name), self.expiring.remove(&name)];
        let mut found = false;
        for changed in removed.into_iter().flatten() {
            found = true;
            self.live_since.get_or_insert(now);
            let changed = changed.joined(self.live.get(&name));
            let [live, others] = self.linked;
            self.linked = [live || others, others];
            self.live.insert(name.clone(), changed);
        }
        if self.sizes_on_probation() == [0, 0] {
            self.lost = false;
        }
        found
    }

    /// Evicts the owner once no map names it and no session holds it.
    pub(super) fn evict_later(&mut self, owner: &Owner) {
        self.evicted.insert(owner.clone());
    }

    /// Whether the owner must be evicted. The note is dropped.
    pub(super) fn is_to_leave(&mut self, owner: &Owner) -> bool {
        self.evicted.remove(owner)
    }

    pub(super) fn page(&self, map: Map, cursor: u64, count: usize) -> Page<Entry> {
        match map {
            Map::Dirty => self.live.page(cursor, count, entry),
            Map::Snapshot => self.snapshot.page(cursor, count, entry),
            Map::Landed => self.landed.page(cursor, count, entry),
            Map::Expiring => self.expiring.page(cursor, count, entry),
            Map::Error => self.errors.page(cursor, count, |owner, fields| {
                let version = fields
                    .values()
                    .map(|error| error.version)
                    .max()
                    .unwrap_or_default();
                entry(
                    &(owner.clone(), None),
                    &MarkContent {
                        fields: fields.keys().cloned().collect(),
                        partners: BTreeSet::new(),
                        version,
                    },
                )
            }),
        }
    }

    /// The error marks of some owners.
    pub(super) fn error_page(&self, cursor: u64, count: usize) -> Page<ErrorEntry> {
        let page = self.errors.page(cursor, count, |owner, fields| {
            let entry = |(field, error): (&Field, &ErrorMark)| ErrorEntry {
                raw: raw(&(owner.clone(), None)),
                target: Some((owner.clone(), field.clone())),
                version: error.version,
                attempts: error.attempts,
                first: error.first,
                last: error.last,
                next: error.next,
                code: error.code,
                message: error.message.clone(),
            };
            fields.iter().map(entry).collect::<Vec<_>>()
        });
        Page {
            entries: page.entries.into_iter().flatten().collect(),
            next: page.next,
        }
    }
}

/// A mark that was taken out of the snapshot.
#[derive(Debug)]
pub(super) struct ClearedMark {
    name: Name,
    changed: MarkContent,
}

/// A mark of a map, as an entry.
fn entry(name: &Name, changed: &MarkContent) -> Entry {
    Entry {
        raw: raw(name),
        mark: Some(Mark {
            owner: name.0.clone(),
            fields: changed.fields.iter().cloned().collect(),
        }),
        version: changed.version,
    }
}

/// The name of an entry: its owner's parts with a NUL between them, which no name holds. The
/// version of a mark that was put aside follows, as in Redis.
fn raw((owner, aside): &Name) -> Bytes {
    let parts = [owner.app(), owner.region(), owner.logic_type(), owner.id()];
    let aside = aside
        .map(|version| format!("{SEPARATOR}{version}"))
        .unwrap_or_default();
    Bytes::from(parts.join("\0") + &aside)
}

/// Parses the name that [`raw`] made.
fn name_of(entry: &Entry) -> Option<Name> {
    let owner = &entry.mark.as_ref()?.owner;
    let text = std::str::from_utf8(&entry.raw).ok()?;
    let aside = match text.split_once(SEPARATOR) {
        Some((_, version)) => Some(version.parse().ok().and_then(Version::new)?),
        None => None,
    };
    Some((owner.clone(), aside))
}
