//! All owners, checked as mutations are applied and rows are committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage_model::{Field, Owner, Row};
use storage_sql::Batch;

use super::applied::Applied;
use super::line::{Line, State};
use super::marks;
use super::slot::{Change, Slot};
use crate::sim::chance::Chance;
use crate::sim::database::tables::Tables;
use crate::sim::database::{Commits, Database};
use crate::sim::redis::{Executed, Watch};

/// Fields that are always set together.
pub const PAIR: [&str; 2] = ["left", "right"];

/// What happened to all owners. Share it behind an `Arc`.
#[derive(Debug)]
pub struct History {
    state: Mutex<Book>,
    chance: Arc<Chance>,
}

/// What a copy of Redis keeps: each owner's version and fields, and the ids.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    owners: BTreeMap<String, (u64, BTreeMap<String, Vec<Slot>>)>,
    ids: BTreeMap<Vec<u8>, u64>,
}

/// One owner.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The version of the last mutation that was applied and not lost.
    pub(super) version: u64,
    /// Whether Redis came back older since: then nobody knows which version the owner has until it is written again.
    rewound: bool,
    /// The greatest version that anybody was told of.
    pub(super) seen: u64,
    pub(super) fields: BTreeMap<String, Line>,
    /// What happened, in words.
    events: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) owners: BTreeMap<String, Told>,
    /// Applied mutations and the versions they gave.
    pub(super) ids: BTreeMap<Vec<u8>, u64>,
    /// Mutations whose callers were told that they are not applied.
    pub(super) denied: BTreeSet<Vec<u8>>,
    /// How often Redis came back older.
    pub(super) era: u64,
    /// How often the database forgot what it had committed.
    pub(super) forgets: u64,
    pub(super) counts: Counts,
    violation: Option<String>,
    /// The highest version that has landed of each owner.
    pub(super) landed: BTreeMap<String, u64>,
}

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Mutations applied.
    pub applied: u64,
    /// Rows committed.
    pub rows: u64,
    /// Writes acknowledged.
    pub acknowledged: u64,
    /// Writes that were said not to be applied.
    pub denied: u64,
    /// Writes of unknown outcome.
    pub unknown: u64,
    /// Reads answered.
    pub reads: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.rows += other.rows;
        self.acknowledged += other.acknowledged;
        self.denied += other.denied;
        self.unknown += other.unknown;
        self.reads += other.reads;
    }
}

impl Book {
    /// Remembers the first violation, with what happened to the owner.
    pub(super) fn fail(&mut self, owner: &str, what: &str) {
        if self.violation.is_none() {
            let events = self.owners.get(owner).map(|told| told.events.join("\n    ")).unwrap_or_default();
            self.violation = Some(format!("{owner}: {what}\n  what happened to it:\n    {events}"));
        }
    }

    pub(super) fn told(&mut self, owner: &str) -> &mut Told {
        if !self.owners.contains_key(owner) {
            self.owners.insert(owner.to_owned(), Told::default());
        }
        self.owners.entry(owner.to_owned()).or_default()
    }

    fn apply(&mut self, applied: &Applied) {
        let Applied { id, owner, version, wanted, changes } = applied;
        self.counts.applied += 1;
        if self.ids.insert(id.clone(), *version).is_some() {
            self.fail(owner, &format!("V3: a mutation is applied twice, again at version {version}"));
        }
        if self.denied.contains(id) {
            self.fail(owner, &format!("V9: a mutation that was denied is applied at version {version}"));
        }
        let landed = self.landed.get(owner).copied().unwrap_or_default();
        let told = self.told(owner);
        if *version <= told.version.max(landed) {
            let before = told.version;
            self.fail(owner, &format!("V1: version {version} is given after {before}, while {landed} has landed"));
            return;
        }
        let before = std::mem::replace(&mut told.version, *version);
        let rewound = std::mem::take(&mut told.rewound);
        if wanted.is_some_and(|wanted| wanted != before.max(landed) && !rewound) {
            self.fail(owner, &format!("V6: applied at version {version} if it had version {wanted:?}, though it had {before}"));
            return;
        }
        for (field, change) in changes {
            let line = told.fields.entry(field.clone()).or_default();
            let before = format!("{:?}", line.now());
            if !line.apply(*version, change) {
                self.fail(owner, &format!("V3: {change:?} of {field} at version {version} does not follow from {before}"));
                return;
            }
        }
    }

    fn commit(&mut self, row: &Row, tables: &Tables) {
        let owner = part(&row.owner);
        self.counts.rows += 1;
        let version = row.version.get();
        let landed = self.landed.entry(owner.clone()).or_default();
        *landed = version.max(*landed);
        let slot = Slot::of(&row.cell);
        let line = self.told(&owner).fields.entry(row.field.as_str().to_owned()).or_default();
        if !line.lands(version, &slot) {
            self.fail(&owner, &format!("V2: the row of {} at version {version} holds {slot:?}", row.field));
        }
        let [left, right] =
            PAIR.map(|field| tables.owner(&row.owner)?.iter().find(|(name, _)| name.as_str() == field).map(|(_, kept)| kept));
        // R16 ends where a row of the owner is refused.
        if left != right && !self.told(&owner).fields.contains_key("poison") {
            self.fail(&owner, &format!("R16: rows that are always written together are {left:?} and {right:?}"));
        }
    }
}

/// An owner as keys and marks name it.
#[must_use]
pub fn part(owner: &Owner) -> String {
    format!("{}:{}:{}:{}", owner.app(), owner.region(), owner.logic_type(), owner.id())
}

impl History {
    /// A history without events.
    #[must_use]
    pub fn new(chance: Arc<Chance>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), chance })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Book> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what happened to an owner.
    pub fn note(&self, owner: &str, what: impl FnOnce() -> String) {
        let what = what();
        let at = self.chance.elapsed().as_secs_f64();
        self.state().told(owner).events.push(format!("{at:10.3}  {what}"));
        self.chance.note("owner", || format!("{owner}: {what}"));
    }

    /// What was found to be wrong, if anything was.
    pub fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    /// Something is wrong with an owner.
    pub fn fail(&self, owner: &str, what: &str) {
        self.state().fail(owner, what);
    }

    /// What was checked.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// What a copy of Redis made now keeps.
    pub fn kept(&self) -> Kept {
        let state = self.state();
        let field = |(field, line): (&String, &Line)| (field.clone(), line.now().into_iter().cloned().collect());
        let owner = |(owner, told): (&String, &Told)| (owner.clone(), (told.version, told.fields.iter().map(field).collect()));
        Kept { owners: state.owners.iter().map(owner).collect(), ids: state.ids.clone() }
    }

    /// Redis came back with this.
    pub fn rewind(&self, kept: &Kept, database: &Database) {
        let mut state = self.state();
        state.era += 1;
        state.ids.clone_from(&kept.ids);
        let Book { owners, landed, .. } = &mut *state;
        for (name, told) in owners {
            let (version, fields) = kept.owners.get(name).cloned().unwrap_or_default();
            let landed = landed.get(name).copied().unwrap_or_default();
            told.version = version.max(landed);
            told.seen = landed;
            told.rewound = true;
            for (field, line) in &mut told.fields {
                let named = owner_of(name).zip(Field::new(field).ok());
                let row = named.and_then(|(owner, field)| database.tables(|tables| tables.row(&owner, &field).cloned()));
                let row = row.map(|row| State { version: row.version.get(), slot: Slot::of(&row.cell) });
                let newer = row.as_ref().is_some_and(|row| row.version > version);
                let never = [Slot::Never];
                let slots = fields.get(field).map_or(&never[..], Vec::as_slice);
                line.rewind((!newer).then_some(slots), row.as_ref());
            }
            told.events
                .push(format!("{:10.3}  Redis came back older, with version {version}", self.chance.elapsed().as_secs_f64()));
        }
    }

    /// The database forgets what it committed last.
    pub fn forget(&self) {
        self.state().forgets += 1;
    }

    /// V2: an owner's rows are its last state. Answers whether something of it is wrong.
    pub fn check_rows(&self, tables: &Tables) {
        let mut state = self.state();
        let mut wrong = Vec::new();
        for (name, told) in &state.owners {
            let Some(owner) = owner_of(name) else { continue };
            for (field, line) in &told.fields {
                let row = Field::new(field).ok().and_then(|field| tables.row(&owner, &field));
                let slot = row.map(|row| Slot::of(&row.cell)).unwrap_or_default();
                if !line.now().contains(&&slot) {
                    wrong.push((name.clone(), format!("V2: the row of {field} ends as {row:?}, not as {:?}", line.now())));
                }
            }
        }
        wrong.iter().for_each(|(owner, what)| state.fail(owner, what));
    }

    /// V2: a read at the end finds the last state.
    pub fn check_last(&self, owner: &str, fields: &[(String, Option<Vec<u8>>)]) {
        let mut state = self.state();
        let told = state.told(owner);
        let is_last = |(field, value): &&(String, Option<Vec<u8>>)| {
            told.fields.get(field).is_none_or(|line| line.now().iter().any(|slot| slot.live() == value.as_deref()))
        };
        let wrong = fields.iter().find(|field| !is_last(field)).map(|(field, value)| {
            let last = told.fields.get(field).map(|line| format!("{:?}", line.now()));
            format!("V2: {field} ends as {value:?}, not as {last:?}")
        });
        if let Some(wrong) = wrong {
            state.fail(owner, &wrong);
        }
    }

    /// The fields of an owner that were written.
    pub fn fields(&self, owner: &str) -> Vec<String> {
        self.state().owners.get(owner).map(|told| told.fields.keys().cloned().collect()).unwrap_or_default()
    }

    /// The owners that were written.
    pub fn owners(&self) -> Vec<String> {
        self.state().owners.keys().cloned().collect()
    }
}

/// The owner that keys and marks name so.
#[must_use]
pub fn owner_of(part: &str) -> Option<Owner> {
    let mut parts = part.split(':');
    let mut next = || parts.next();
    Owner::new(next()?, next()?, next()?, next()?).ok()
}

impl Watch for History {
    fn executed(&self, executed: &Executed<'_>) {
        if let Some(applied) = Applied::read(executed) {
            let Applied { owner, version, changes, .. } = &applied;
            self.note(owner, || format!("applied at version {version}: {}", words(changes)));
            self.state().apply(&applied);
            let purges = changes.iter().any(|(_, change)| *change == Change::Purge);
            if purges && marks::born(executed.data, owner).is_some_and(|born| born + 1 < *version) {
                self.fail(owner, &format!("R7: a purge at version {version} leaves the owner as old as it was"));
            }
        }
        if matches!(executed.name, "settle" | "park" | "fill" | "mutate" | "update" | "relive" | "acquit" | "evict")
            && let Some((owner, wrong)) = marks::check(executed.data, None)
        {
            self.fail(&owner, &wrong);
        }
    }
}

impl Commits for History {
    fn committed(&self, batch: &Batch, tables: &Tables) {
        for row in &batch.rows {
            let words = || format!("row of {} at version {}: {:?}", row.field, row.version, Slot::of(&row.cell));
            self.note(&part(&row.owner), words);
            self.state().commit(row, tables);
        }
    }
}

fn words(changes: &[(String, Change)]) -> String {
    changes.iter().map(|(field, change)| format!("{field} {change:?}")).collect::<Vec<_>>().join(", ")
}
