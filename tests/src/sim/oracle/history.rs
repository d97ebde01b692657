//! All events, as the models report them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use storage_coalesce::locked;
use storage_model::{Field, Owner};
use storage_sql::Batch;

use super::applied::{Applied, said_to_be_applied};
use super::book::{Book, Counts, Told, part};
use super::line::{Line, State};
use super::marks;
use super::sessions::Tenancy;
use super::slot::{Change, Slot};
use crate::sim::chance::Chance;
use crate::sim::database::tables::Tables;
use crate::sim::database::{Commits, Database};
use crate::sim::redis::data::Data;
use crate::sim::redis::{Executed, Watch};

/// The events of all owners. Share it behind an `Arc`.
#[derive(Debug)]
pub struct History {
    state: Mutex<Book>,
    chance: Arc<Chance>,
    /// The database with the landed rows, if hashes are compared with them.
    database: OnceLock<Weak<Database>>,
}

/// The content of a copy of Redis: each owner's version and fields, and the ids.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    owners: BTreeMap<String, KeptOwner>,
    ids: BTreeMap<Vec<u8>, u64>,
}

/// A version, fields and sessions.
type KeptOwner = (u64, BTreeMap<String, Vec<Slot>>, Tenancy);

impl History {
    /// A history without events.
    #[must_use]
    pub fn new(chance: Arc<Chance>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            chance,
            database: OnceLock::new(),
        })
    }

    /// From now on, hashes whose changes have all landed are compared with their rows. They may
    /// differ only after Redis came back older.
    pub fn compare_with(&self, database: &Arc<Database>) {
        let _ = self.database.set(Arc::downgrade(database));
    }

    /// Checks Redis' data at this moment, between two scripts.
    pub fn look(&self, data: &Data) {
        let wrong = match self.database.get().and_then(Weak::upgrade) {
            Some(database) => database.tables(|tables| marks::check(data, Some(tables))),
            None => marks::check(data, None),
        };
        if let Some((owner, wrong)) = wrong {
            self.fail(&owner, &wrong);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Book> {
        locked(&self.state)
    }

    /// Writes down an event of an owner.
    pub fn note(&self, owner: &str, what: impl FnOnce() -> String) {
        let what = what();
        let at = self.chance.elapsed().as_secs_f64();
        self.state()
            .told(owner)
            .events
            .push(format!("{at:10.3}  {what}"));
        self.chance.note("owner", || format!("{owner}: {what}"));
    }

    /// The first violation, if there is one.
    pub fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    /// Reports a violation for an owner.
    pub fn fail(&self, owner: &str, what: &str) {
        self.state().fail(owner, what);
    }

    /// The counts of the checks.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// The content of a copy of Redis that is made now.
    pub fn kept(&self) -> Kept {
        let state = self.state();
        let field = |(field, line): (&String, &Line)| {
            (field.clone(), line.now().into_iter().cloned().collect())
        };
        let owner = |(owner, told): (&String, &Told)| {
            (
                owner.clone(),
                (
                    told.version,
                    told.fields.iter().map(field).collect(),
                    told.sessions.tenancy.clone(),
                ),
            )
        };
        Kept {
            owners: state.owners.iter().map(owner).collect(),
            ids: state.ids.clone(),
        }
    }

    /// Redis came back with this content.
    pub fn rewind(&self, kept: &Kept, database: &Database) {
        let mut state = self.state();
        state.era += 1;
        let survived = database.tables(|tables| state.surviving(&kept.ids, tables));
        state.survived.extend(survived);
        // Redis has forgotten the others. Later writes of their owners have greater versions.
        database.tables(|tables| {
            state
                .linked
                .retain(|together| together.landed(tables).all(|landed| landed));
        });
        state.ids.clone_from(&kept.ids);
        state.feed.rewind(&kept.ids);
        state.void.clear();
        let Book { owners, landed, .. } = &mut *state;
        for (name, told) in owners {
            let (version, fields, tenancy) = kept.owners.get(name).cloned().unwrap_or_default();
            let landed = landed.get(name).copied().unwrap_or_default();
            told.sessions.rewind(tenancy, landed);
            told.version = version.max(landed);
            told.seen = landed;
            told.rewound = true;
            for (field, line) in &mut told.fields {
                let named = owner_of(name).zip(Field::new(field).ok());
                let row = named.and_then(|(owner, field)| {
                    database.tables(|tables| tables.row(&owner, &field).cloned())
                });
                let row = row.map(|row| State {
                    version: row.version.get(),
                    slot: Slot::of(&row.cell),
                });
                let newer = row.as_ref().is_some_and(|row| row.version > version);
                let never = [Slot::Never];
                let slots = fields.get(field).map_or(&never[..], Vec::as_slice);
                line.rewind((!newer).then_some(slots), row.as_ref());
            }
            told.events.push(format!(
                "{:10.3}  Redis came back older, with version {version}",
                self.chance.elapsed().as_secs_f64()
            ));
        }
    }

    /// The database forgets its last commits.
    pub fn forget(&self) {
        let mut state = self.state();
        state.forgets += 1;
        state.survived.clear();
        state.feed.forget();
    }

    /// V2: an owner's rows are its last state. Returns whether any of them is wrong.
    pub fn check_rows(&self, tables: &Tables) {
        let mut state = self.state();
        let mut wrong = Vec::new();
        for (name, told) in &state.owners {
            let Some(owner) = owner_of(name) else {
                continue;
            };
            for (field, line) in &told.fields {
                let row = Field::new(field)
                    .ok()
                    .and_then(|field| tables.row(&owner, &field));
                let slot = row.map(|row| Slot::of(&row.cell)).unwrap_or_default();
                if !line.now().contains(&&slot) {
                    wrong.push((
                        name.clone(),
                        format!(
                            "V2: the row of {field} ends as {row:?}, not as {:?}",
                            line.now()
                        ),
                    ));
                }
            }
        }
        wrong.extend(state.feed.untold(tables));
        wrong
            .iter()
            .for_each(|(owner, what)| state.fail(owner, what));
    }

    /// V2: a read at the end finds the last state.
    pub fn check_last(&self, owner: &str, fields: &[(String, Option<Vec<u8>>)]) {
        let mut state = self.state();
        let told = state.told(owner);
        let is_last = |(field, value): &&(String, Option<Vec<u8>>)| {
            told.fields.get(field).is_none_or(|line| {
                line.now()
                    .iter()
                    .any(|slot| slot.live() == value.as_deref())
            })
        };
        let wrong = fields
            .iter()
            .find(|field| !is_last(field))
            .map(|(field, value)| {
                let last = told
                    .fields
                    .get(field)
                    .map(|line| format!("{:?}", line.now()));
                format!("V2: {field} ends as {value:?}, not as {last:?}")
            });
        if let Some(wrong) = wrong {
            state.fail(owner, &wrong);
        }
    }

    /// The fields of an owner that were written.
    pub fn fields(&self, owner: &str) -> Vec<String> {
        self.state()
            .owners
            .get(owner)
            .map(|told| told.fields.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The owners that were written.
    pub fn owners(&self) -> Vec<String> {
        self.state().owners.keys().cloned().collect()
    }
}

/// The owner that keys and marks name like this.
#[must_use]
pub fn owner_of(part: &str) -> Option<Owner> {
    let mut parts = part.split(':');
    let mut next = || parts.next();
    Owner::new(next()?, next()?, next()?, next()?).ok()
}

impl Watch for History {
    fn executed(&self, executed: &Executed<'_>) {
        if let Some((owner, id, version)) = said_to_be_applied(executed)
            && self.state().ids.get(&id) != Some(&version)
        {
            self.fail(
                &owner,
                &format!(
                    "V9: a mutation is said to have been applied at version {version}, but was not"
                ),
            );
        }
        let mut anew = Vec::new();
        for applied in Applied::all(executed) {
            let Applied {
                id,
                owner,
                version,
                changes,
                ..
            } = &applied;
            if self.state().ids.get(id) == Some(version) {
                continue; // a repeat
            }
            self.note(owner, || {
                format!("applied at version {version}: {}", words(changes))
            });
            let now = self.chance.elapsed();
            let mut state = self.state();
            state.judge_writer(&applied, executed, now);
            state.apply(&applied);
            anew.push(applied);
        }
        if matches!(executed.name, "mutate" | "transact") {
            // Each write of a call has a version of its own.
            for write in anew.chunk_by(|one, next| one.version == next.version) {
                self.state().link(write);
            }
        }
        let watched = self.state().watch(executed, self.chance.elapsed());
        if let Some((owner, what)) = watched {
            self.note(&owner, || what);
        }
        let changes_marks = matches!(
            executed.name,
            "settle"
                | "reject"
                | "fill"
                | "mutate"
                | "transact"
                | "update"
                | "requeue"
                | "expire"
                | "evict"
        );
        if changes_marks
            || matches!(
                executed.name,
                "open_session" | "claim_session" | "close_session" | "lapse"
            )
        {
            self.look(executed.data);
        }
    }
}

impl Commits for History {
    fn committed(&self, batch: &Batch, tables: &Tables) {
        for row in &batch.rows {
            let words = || {
                format!(
                    "row of {} at version {}: {:?}",
                    row.field,
                    row.version,
                    Slot::of(&row.cell)
                )
            };
            self.note(&part(&row.owner), words);
            self.state().commit(row, tables);
        }
        let mut state = self.state();
        let owners: BTreeSet<&Owner> = batch.rows.iter().map(|row| &row.owner).collect();
        for owner in owners {
            state.check_whole(owner, tables);
        }
        state.check_linked(tables);
        for events in &batch.events {
            if let Some(wrong) = state.feed.check(events.partition, tables) {
                state.fail("feed", &wrong);
            }
        }
    }
}

fn words(changes: &[(String, Change)]) -> String {
    changes
        .iter()
        .map(|(field, change)| format!("{field} {change:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}
