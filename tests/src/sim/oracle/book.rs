//! The known state of all owners, checked when mutations are applied and rows are committed.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::{Field, Owner, Row};

use super::applied::Applied;
use super::feed::Feed;
use super::history::owner_of;
use super::line::Line;
use super::sessions::{Leases, Sessions};
use super::slot::{Change, Slot};
use crate::sim::database::tables::Tables;

/// Fields that are always set together.
pub const PAIR: [&str; 2] = ["left", "right"];

/// One owner.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The version of the last mutation that was applied and not lost.
    pub(super) version: u64,
    /// Whether Redis came back older since. Then the owner's version is unknown until it is written
    /// again.
    pub(super) rewound: bool,
    /// The greatest version that any caller knows.
    pub(super) seen: u64,
    pub(super) fields: BTreeMap<String, Line>,
    pub(super) sessions: Sessions,
    /// The events, in words.
    pub(super) events: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) owners: BTreeMap<String, Told>,
    /// Applied mutations and the versions they gave. The key is an id, or a set value that no two
    /// share ([`value_key`]).
    pub(super) ids: BTreeMap<Vec<u8>, u64>,
    /// The owner and the fields of each applied mutation, by the same keys.
    pub(super) fields: BTreeMap<Vec<u8>, (String, Vec<String>)>,
    /// Mutations that Redis has forgotten, although rows from before its return contain a part of
    /// them. None may be applied again. Mutations that landed after Redis came back are not among
    /// them.
    pub(super) survived: BTreeSet<Vec<u8>>,
    /// Mutations whose callers learned that they are not applied.
    pub(super) denied: BTreeSet<Vec<u8>>,
    /// Mutations whose callers learned that there was nothing to change, since Redis last came back
    /// older.
    pub(super) void: BTreeSet<Vec<u8>>,
    /// Transactions of several owners: the owners, the fields that each has set, and the version.
    pub(super) linked: Vec<Together>,
    /// How often Redis came back older.
    pub(super) era: u64,
    /// How often the database forgot its commits.
    pub(super) forgets: u64,
    pub(super) counts: Counts,
    pub(super) violation: Option<String>,
    /// The highest version that has landed of each owner.
    pub(super) landed: BTreeMap<String, u64>,
    pub(super) leases: Leases,
    pub(super) feed: Feed,
}

/// An applied transaction of several owners.
#[derive(Debug, Clone)]
pub(super) struct Together {
    pub(super) version: u64,
    /// A field of each owner that the transaction has changed.
    pub(super) fields: Vec<(String, Owner, Field)>,
}

impl Together {
    /// Whether the database has the transaction or a later write, for each owner.
    pub(super) fn landed<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = bool> + 'a {
        self.fields.iter().map(|(_, owner, field)| {
            let row = tables.row(owner, field);
            row.is_some_and(|row| row.version.get() >= self.version)
        })
    }
}

/// The counts of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Mutations applied.
    pub applied: u64,
    /// Rows committed.
    pub rows: u64,
    /// Writes acknowledged.
    pub acknowledged: u64,
    /// Writes that were reported as not applied.
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
    /// Remembers the first violation, with the events of the owner.
    pub(super) fn fail(&mut self, owner: &str, what: &str) {
        if self.violation.is_none() {
            let events = self
                .owners
                .get(owner)
                .map(|told| told.events.join("\n    "))
                .unwrap_or_default();
            self.violation = Some(format!("{owner}: {what}\n  its events:\n    {events}"));
        }
    }

    pub(super) fn told(&mut self, owner: &str) -> &mut Told {
        if !self.owners.contains_key(owner) {
            self.owners.insert(owner.to_owned(), Told::default());
        }
        self.owners.entry(owner.to_owned()).or_default()
    }

    /// A mutation was applied.
    pub(super) fn apply(&mut self, applied: &Applied) {
        let Applied {
            id,
            owner,
            version,
            wanted,
            fence,
            changes,
            place,
            ..
        } = applied;
        self.counts.applied += 1;
        if let Some(place) = place {
            self.feed.applied(id, owner, *version, *place);
        }
        let named = changes.iter().filter_map(|(_, change)| match change {
            // A session may save the same values again.
            Change::Set(value) if fence.is_none() => Some(value_key(owner, value)),
            Change::Incr(step, _) if NAMING_STEPS.contains(step) => Some(step_key(owner, *step)),
            _ => None,
        });
        let keys: BTreeSet<_> = named.chain([id.clone()]).collect();
        let fields: Vec<String> = changes.iter().map(|(field, _)| field.clone()).collect();
        for key in keys {
            if self.survived.contains(&key) {
                self.fail(
                    owner,
                    &format!(
                        "V3: a mutation that had landed is applied again at version {version}"
                    ),
                );
            }
            self.fields
                .insert(key.clone(), (owner.clone(), fields.clone()));
            if self.denied.contains(&key) {
                self.fail(
                    owner,
                    &format!("V9: a mutation that was denied is applied at version {version}"),
                );
            }
            if self.void.contains(&key) {
                self.fail(
                    owner,
                    &format!(
                        "V9: a mutation that had nothing to change is applied at version {version}"
                    ),
                );
            }
            if self.ids.insert(key, *version).is_some() {
                self.fail(
                    owner,
                    &format!("V3: a mutation is applied twice, again at version {version}"),
                );
            }
        }
        let landed = self.landed.get(owner).copied().unwrap_or_default();
        let told = self.told(owner);
        if *version <= told.version.max(landed) {
            let before = told.version;
            self.fail(
                owner,
                &format!(
                    "V1: version {version} is given after {before}, while {landed} has landed"
                ),
            );
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

    /// Mutations of several owners were applied in one step.
    pub(super) fn link(&mut self, applied: &[Applied]) {
        let named = |one: &Applied| {
            let (field, _) = one.changes.first()?;
            let field = Field::new(field).ok()?;
            Some((one.owner.clone(), owner_of(&one.owner)?, field))
        };
        let fields: Vec<_> = applied.iter().filter_map(named).collect();
        if let Some(version) = applied
            .first()
            .map(|one| one.version)
            .filter(|_| fields.len() > 1)
        {
            self.linked.push(Together { version, fields });
        }
    }

    /// R16: the rows of an owner are its state as of their greatest version. Fields whose state is
    /// uncertain, since a Redis came back older, do not count.
    pub(super) fn check_whole(&mut self, owner: &Owner, tables: &Tables) {
        let Some(rows) = tables.owner(owner) else {
            return;
        };
        let newest = rows.values().map(|kept| kept.version.get()).max();
        let newest = newest.unwrap_or_default();
        let part = part(owner);
        let row_of = |field: &str| Field::new(field).ok().and_then(|field| rows.get(&field));
        let fields = &self.told(&part).fields;
        let is_behind = |(field, line): &(&String, &Line)| {
            let row = row_of(field).map_or(0, |row| row.version.get());
            line.at(newest).is_some_and(|state| state.version > row)
        };
        if let Some((field, _)) = fields.iter().find(is_behind) {
            let what = format!(
                "R16: the rows reach version {newest}, and {field} has an earlier state in them"
            );
            self.fail(&part, &what);
        }
    }

    /// G1: the database has all of a transaction, or nothing.
    pub(super) fn check_linked(&mut self, tables: &Tables) {
        let is_torn = |together: &&Together| {
            let landed: BTreeSet<bool> = together.landed(tables).collect();
            landed.len() > 1
        };
        if let Some(torn) = self.linked.iter().find(is_torn).cloned()
            && let Some((owner, ..)) = torn.fields.first()
        {
            let owner = owner.clone();
            self.fail(
                &owner,
                &format!("G1: the database has only a part of {torn:?}"),
            );
        }
    }

    /// The mutations that are missing here although rows contain a part of them.
    pub(super) fn surviving(&self, kept: &BTreeMap<Vec<u8>, u64>, tables: &Tables) -> Vec<Vec<u8>> {
        let has_row = |owner: &Owner, field: &String, version: u64| {
            let row = Field::new(field)
                .ok()
                .and_then(|field| tables.row(owner, &field));
            row.is_some_and(|row| row.version.get() >= version)
        };
        let survives = |id: &Vec<u8>, version: u64| {
            let (owner, fields) = self.fields.get(id)?;
            let owner = owner_of(owner)?;
            fields
                .iter()
                .any(|field| has_row(&owner, field, version))
                .then(|| id.clone())
        };
        let lost = self.ids.iter().filter(|(id, _)| !kept.contains_key(*id));
        lost.filter_map(|(id, version)| survives(id, *version))
            .collect()
    }

    /// A row was committed.
    pub(super) fn commit(&mut self, row: &Row, tables: &Tables) {
        let owner = part(&row.owner);
        self.counts.rows += 1;
        let version = row.version.get();
        let landed = self.landed.entry(owner.clone()).or_default();
        *landed = version.max(*landed);
        self.feed.committed(&owner, version);
        let slot = Slot::of(&row.cell);
        let line = self
            .told(&owner)
            .fields
            .entry(row.field.as_str().to_owned())
            .or_default();
        if !line.lands(version, &slot) {
            self.fail(
                &owner,
                &format!(
                    "V2: the row of {} at version {version} holds {slot:?}",
                    row.field
                ),
            );
        }
        let [left, right] = PAIR.map(|field| {
            tables
                .owner(&row.owner)?
                .iter()
                .find(|(name, _)| name.as_str() == field)
                .map(|(_, kept)| &kept.cell)
        });
        // Versions may differ, because a flush lands the fields of a hash, and the hash may have only
        // one of both, as loaded.
        if left != right {
            self.fail(
                &owner,
                &format!("R16: rows that are always written together are {left:?} and {right:?}"),
            );
        }
    }
}

/// The name for a write that its caller did not name.
#[must_use]
pub fn value_key(owner: &str, value: &[u8]) -> Vec<u8> {
    [owner.as_bytes(), b"=", value].concat()
}

/// No two increments have the same one of these steps, so the step stands for the write.
const NAMING_STEPS: std::ops::Range<i64> = 1_000_000..1_000_000_000;

/// The name for an increment that its caller did not name.
#[must_use]
pub fn step_key(owner: &str, step: i64) -> Vec<u8> {
    [owner.as_bytes(), b"+", step.to_string().as_bytes()].concat()
}

/// An owner, as keys and marks name it.
#[must_use]
pub fn part(owner: &Owner) -> String {
    format!(
        "{}:{}:{}:{}",
        owner.app(),
        owner.region(),
        owner.logic_type(),
        owner.id()
    )
}
