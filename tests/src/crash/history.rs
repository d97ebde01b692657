//! The answers to clients, and the data that the tiers must hold after them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use storage_coalesce::locked;
use storage_model::{Change, Field, Outcome, Version};
use storage_sdk::Error;

use super::look::cell_of;
use crate::reference::{Begun, Possible};
use crate::rows::StoredRow;

/// The field that a process writes that takes over while another stands still. Each of the two
/// writes fields of its own, so that the order of its writes is known.
pub(super) const VISITS: &str = "visits";
/// The logic type of all owners.
pub(super) const TYPE: &str = "player";

/// The possible states of each owner. It outlives the processes that write.
#[derive(Debug, Default)]
pub struct History {
    owners: Mutex<BTreeMap<Part, Possible>>,
    answers: Mutex<Vec<String>>,
}

/// The fields of an owner that one client writes: the owner's id, and whether the client is the one
/// that takes over.
type Part = (String, bool);

/// The answer to an acknowledged write.
pub type Answer = (Version, Vec<i64>);

impl History {
    fn owners(&self) -> MutexGuard<'_, BTreeMap<Part, Possible>> {
        locked(&self.owners)
    }

    /// Records an answer to a client of a layer, in the layer's own words.
    pub fn answered(&self, answer: String) {
        let mut answers = locked(&self.answers);
        answers.push(answer);
    }

    /// The answers to clients of a layer.
    #[must_use]
    pub fn answers(&self) -> Vec<String> {
        let answers = locked(&self.answers);
        answers.clone()
    }

    /// The ids of all owners that were written.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.owners().keys().map(|(id, _)| id.clone()).collect();
        ids.dedup();
        ids
    }

    /// A write begins.
    pub fn begin(&self, id: &str, changes: Vec<(Field, Change)>) -> Begun {
        self.owners()
            .entry(part(id, &changes))
            .or_default()
            .begin(changes)
    }

    /// A write ended. Returns whether it was acknowledged.
    ///
    /// # Errors
    /// It must not have ended like this.
    pub fn end(&self, id: &str, begun: Begun, result: Result<Answer, Error>) -> Result<bool> {
        let mut owners = self.owners();
        let possible = owners.entry(part(id, begun.changes())).or_default();
        match result {
            Ok((version, counters)) => {
                possible
                    .acknowledged(begun, version, &counters)
                    .map_err(|wrong| anyhow!("{id}: {wrong}"))?;
                return Ok(true);
            }
            Err(error) => match error.outcome() {
                Outcome::NotApplied => possible.refused(begun),
                Outcome::Unknown => {}
                Outcome::Applied => return Err(error).context("a write that waits for nothing"),
            },
        }
        Ok(false)
    }

    /// The possible effect so far of the process that takes over.
    #[must_use]
    pub fn taken_over(&self, id: &str) -> Possible {
        self.owners()
            .get(&(id.to_owned(), true))
            .cloned()
            .unwrap_or_default()
    }

    /// The known state of an owner, for [`History::forgets`].
    #[must_use]
    pub fn known(&self, id: &str) -> Possible {
        self.owners()
            .get(&(id.to_owned(), false))
            .cloned()
            .unwrap_or_default()
    }

    /// The hot tier forgot the changes to an owner since it was `landed`. Its session still holds
    /// these changes, and saves them again if it goes on.
    pub fn forgets(&self, id: &str, landed: Possible, changes: Vec<(Field, Change)>) {
        self.owners().insert((id.to_owned(), false), landed);
        // Their outcome is unknown, so they may come back.
        drop(self.begin(id, changes));
    }

    /// An owner was read whole. `before` is [`History::taken_over`] from the beginning of the read.
    ///
    /// # Errors
    /// The owner has an impossible state.
    pub fn read(
        &self,
        id: &str,
        mut before: Possible,
        found: &[(Field, Bytes)],
        version: Version,
    ) -> Result<()> {
        let live = |takes_over: bool| -> BTreeMap<String, Bytes> {
            let fields = found
                .iter()
                .filter(|(field, _)| (field.as_str() == VISITS) == takes_over);
            fields
                .map(|(field, value)| (field.to_string(), value.clone()))
                .collect()
        };
        let mut owners = self.owners();
        let own = owners.entry((id.to_owned(), false)).or_default();
        own.read(&live(false))
            .map_err(|wrong| anyhow!("{id}: {wrong}"))?;
        ensure!(
            version >= own.version(),
            "{id} was read at {version}, after {}",
            own.version()
        );
        let mut since = owners
            .get(&(id.to_owned(), true))
            .cloned()
            .unwrap_or_default();
        before
            .read(&live(true))
            .or_else(|_| since.read(&live(true)))
            .map_err(|wrong| anyhow!("{id}: {wrong}"))
    }

    /// All rows of players in the database, after everything has landed.
    ///
    /// # Errors
    /// They are not the result of the acknowledged writes and some of the writes of unknown
    /// outcome.
    pub fn rows(&self, rows: &[StoredRow]) -> Result<()> {
        let mut owners = self.owners();
        let is_player = |row: &&StoredRow| row.name.split('/').next() == Some(TYPE);
        let rows: Vec<&StoredRow> = rows.iter().filter(is_player).collect();
        for row in &rows {
            let id = id_of(row)?;
            ensure!(
                owners.keys().any(|(known, _)| known == id),
                "{} was never written",
                row.name
            );
        }
        for ((id, takes_over), possible) in owners.iter_mut() {
            let mut cells = BTreeMap::new();
            let mut newest = 0;
            for row in &rows {
                let field = row.name.rsplit('/').next().unwrap_or_default();
                if id_of(row)? == id && (field == VISITS) == *takes_over {
                    cells.insert(field.to_owned(), cell_of(row));
                    newest = newest.max(row.version);
                }
            }
            possible
                .holds(&cells)
                .map_err(|wrong| anyhow!("the rows of {id}: {wrong}"))?;
            let acknowledged = possible.version().get();
            ensure!(
                newest >= acknowledged || cells.is_empty(),
                "the rows of {id} are at {newest}, after {acknowledged}"
            );
        }
        Ok(())
    }
}

fn part(id: &str, changes: &[(Field, Change)]) -> Part {
    (
        id.to_owned(),
        changes.iter().any(|(field, _)| field.as_str() == VISITS),
    )
}

fn id_of(row: &StoredRow) -> Result<&str> {
    row.name.split('/').nth(1).context("a row's name")
}
