//! The answers to callers, compared with the true events.

use storage_model::{Field, Outcome, Version};

use super::book::Book;
use super::history::{History, owner_of};
use crate::sim::database::Database;

/// The knowledge of an owner when a call began.
#[derive(Debug, Clone)]
pub struct Begun {
    owner: String,
    era: u64,
    forgets: u64,
    seen: u64,
}

impl Begun {
    /// Whether Redis has not come back older since.
    pub(super) fn is_of(&self, book: &Book) -> bool {
        self.era == book.era
    }

    /// The greatest version that any caller knew before.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The owner of the call.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

impl Book {
    /// A caller learns of this version.
    fn tell(&mut self, owner: &str, version: u64) {
        let told = self.told(owner);
        told.seen = told.seen.max(version);
    }
}

impl History {
    /// A call begins.
    pub fn begin(&self, owner: &str) -> Begun {
        let mut state = self.state();
        let (era, forgets, landed) = (
            state.era,
            state.forgets,
            state.landed.get(owner).copied().unwrap_or_default(),
        );
        let seen = state.told(owner).seen.max(landed);
        Begun {
            owner: owner.to_owned(),
            era,
            forgets,
            seen,
        }
    }

    /// A write was acknowledged, with its number of changes.
    pub fn acknowledged(&self, begun: &Begun, id: &[u8], version: Version, changed: u32) {
        let (owner, version) = (&begun.owner, version.get());
        self.note(owner, || {
            format!("acknowledged at version {version}, {changed} changed")
        });
        let mut state = self.state();
        state.counts.acknowledged += 1;
        if state.era != begun.era {
            return;
        }
        if changed == 0 {
            state.void.insert(id.to_vec());
        }
        let applied = state.ids.get(id).copied();
        if (changed > 0 && applied != Some(version)) || (changed == 0 && applied.is_some()) {
            state.fail(
                owner,
                &format!("V9: acknowledged at version {version} with {changed} changes, but applied at {applied:?}"),
            );
        }
        if version < begun.seen || (changed > 0 && version == begun.seen) {
            state.fail(
                owner,
                &format!(
                    "V1: acknowledged at version {version}, though {} was seen before",
                    begun.seen
                ),
            );
        }
        state.tell(owner, version);
    }

    /// A repeat of a write of another call was acknowledged. The applied write must be there. If
    /// Redis came back older between the two calls, its version may be below a landed one.
    pub fn repeated(
        &self,
        first: &Begun,
        again: &Begun,
        id: &[u8],
        version: Version,
        changed: u32,
    ) {
        if self.state().era == first.era {
            self.acknowledged(first, id, version, changed);
        } else {
            self.acknowledged(
                &Begun {
                    seen: 0,
                    ..again.clone()
                },
                id,
                version,
                changed,
            );
        }
    }

    /// A write failed. Its id stands for it, or the value that it sets.
    pub fn failed(&self, begun: &Begun, id: &[u8], outcome: Outcome, why: &str) {
        let owner = &begun.owner;
        self.note(owner, || format!("{outcome:?}: {why}"));
        let mut state = self.state();
        let applied = state.ids.get(id).copied();
        match outcome {
            Outcome::NotApplied => {
                state.counts.denied += 1;
                state.denied.insert(id.to_vec());
                if applied.is_some() {
                    state.fail(
                        owner,
                        &format!("V9: said not to be applied, but it was, at version {applied:?}"),
                    );
                }
            }
            Outcome::Applied if applied.is_none() && state.era == begun.era => {
                state.fail(owner, "V9: said to be applied, but it was not");
            }
            Outcome::Applied => state.counts.acknowledged += 1,
            Outcome::Unknown => state.counts.unknown += 1,
        }
    }

    /// A read was answered with these fields.
    pub fn read(&self, begun: &Begun, version: Version, fields: &[(String, Option<Vec<u8>>)]) {
        let (owner, version) = (&begun.owner, version.get());
        self.note(owner, || {
            format!("read at version {version}: {}", shown(fields))
        });
        let mut state = self.state();
        state.counts.reads += 1;
        let same_era = state.era == begun.era;
        let told = state.told(owner);
        let mut wrong = None;
        for (field, value) in fields {
            let line = told.fields.entry(field.clone()).or_default();
            let fits = if same_era {
                line.reads(version, value.as_deref())
            } else {
                line.ever(value.as_deref())
            };
            if !fits {
                wrong = Some(format!(
                    "V6: {field} is read as {} at version {version}",
                    value_shown(value.as_deref())
                ));
            }
        }
        if same_era && version < begun.seen {
            wrong = Some(format!(
                "V4: read at version {version}, though {} was acknowledged, read or landed before",
                begun.seen
            ));
        }
        if let Some(wrong) = wrong {
            state.fail(owner, &wrong);
        }
        if same_era {
            state.tell(owner, version);
        }
    }

    /// The database is said to have all data of an owner from before the call.
    pub fn landed(&self, begun: &Begun, database: &Database) {
        let mut state = self.state();
        if (state.era, state.forgets) != (begun.era, begun.forgets) {
            return;
        }
        let Some(owner) = owner_of(&begun.owner) else {
            return;
        };
        let mut late = None;
        for (field, line) in &state.told(&begun.owner).fields {
            let (Some(last), Ok(name)) = (line.at(begun.seen), Field::new(field)) else {
                continue;
            };
            let row =
                database.tables(|tables| tables.row(&owner, &name).map(|kept| kept.version.get()));
            if row.is_none_or(|row| row < last.version) {
                late = Some(format!(
                    "V2: said to have landed, but {field} of version {} has not: {row:?}",
                    last.version
                ));
            }
        }
        if let Some(late) = late {
            state.fail(&begun.owner, &late);
        }
    }

    /// The database is said to have a write of a field, whatever happened to the hot tier since.
    pub fn wrote_row(&self, begun: &Begun, field: &str, version: Version, database: &Database) {
        let mut state = self.state();
        let (Some(owner), Ok(name)) = (owner_of(&begun.owner), Field::new(field)) else {
            return;
        };
        let row = database.tables(|tables| tables.row(&owner, &name).map(|kept| kept.version));
        if state.forgets == begun.forgets && row.is_none_or(|row| row < version) {
            state.fail(
                &begun.owner,
                &format!(
                    "V2: acknowledged as landed, but {field} of version {version} has not: {row:?}"
                ),
            );
        }
    }
}

fn value_shown(value: Option<&[u8]>) -> String {
    value.map_or("nothing".to_owned(), |value| {
        String::from_utf8_lossy(value).chars().take(40).collect()
    })
}

fn shown(fields: &[(String, Option<Vec<u8>>)]) -> String {
    fields
        .iter()
        .map(|(field, value)| format!("{field} {}", value_shown(value.as_deref())))
        .collect::<Vec<_>>()
        .join(", ")
}
