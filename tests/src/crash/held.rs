//! Sessions of owners: the steps of a process that holds some, and the way in which another process
//! gets them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use storage_coalesce::locked;
use storage_model::{Change, Field, Partition, Version};
use storage_sdk::{Ack, Autosave, ByteSession, Error, Kind, OnConflict, SessionOptions};

use super::history::VISITS;
use super::play::Play;
use super::site::PARTITIONS;
use crate::reference::Begun;
use crate::stack::until;

/// The time for which a start of a session is tried.
const WITHIN: Duration = Duration::from_secs(20);
/// The time for which a save is tried. After a save of unknown outcome, the next one waits as long.
const SAVE: Duration = Duration::from_secs(2);

/// A session of an owner, and its edits.
#[derive(Debug)]
pub struct Held {
    id: String,
    session: ByteSession,
    /// The fields of the session. None for a field that was removed.
    fields: BTreeMap<String, Option<Bytes>>,
    /// The last edit that was not reported as saved, and the version of the last save before it.
    edited: Option<(Begun, Version)>,
}

impl Play<'_> {
    /// Starts a session, if the tiers let it.
    ///
    /// # Errors
    /// The session begins with another state than the owner's.
    pub async fn hold(&self, id: &str, on_conflict: OnConflict) -> Result<Option<Held>> {
        let before = self.history.taken_over(id);
        let options = SessionOptions::new()
            .on_conflict(on_conflict)
            .autosave(Autosave::Off)
            .within(WITHIN);
        let Ok(session) = self.owner(id)?.session(options).await else {
            return Ok(None);
        };
        let found = session.fields();
        self.history.read(id, before, &found, session.saved())?;
        let own = found
            .into_iter()
            .filter(|(field, _)| field.as_str() != VISITS);
        let fields = own
            .map(|(field, value)| (field.to_string(), Some(value)))
            .collect();
        Ok(Some(Held {
            id: id.to_owned(),
            session,
            fields,
            edited: None,
        }))
    }

    /// Keeps a session from the part before points are counted for the part after it.
    pub fn keep(&self, held: Held) {
        *locked(&self.kept) = Some(held);
    }

    /// The session that was kept.
    ///
    /// # Errors
    /// No session was kept.
    pub fn kept(&self) -> Result<Held> {
        locked(&self.kept).take().context("no session was kept")
    }

    /// Lets the graces of all partitions pass.
    ///
    /// # Errors
    /// It takes more than 30 s.
    pub async fn end_graces(&self) -> Result<()> {
        for partition in (0..PARTITIONS).map(Partition) {
            until("the grace has ended", async || {
                Ok(self.end_grace(partition).await)
            })
            .await?;
        }
        Ok(())
    }

    /// Ends the grace of a partition, like a process that has seen its epoch for longer than a
    /// lease. Returns whether it has ended.
    async fn end_grace(&self, partition: Partition) -> bool {
        let tiers = self.storage.tiers();
        let Some(seen) = tiers.hot().holders.beat(&[partition], None).await.pop() else {
            return false;
        };
        match seen {
            Ok(beats) if beats.graced => true,
            Ok(beats) => {
                tiers
                    .hot()
                    .holders
                    .end_grace(partition, beats.adoption)
                    .await
                    == Ok(true)
            }
            Err(error) => {
                // If that fails, the next call asks again.
                let _ = tiers.prepare_after(error).await;
                false
            }
        }
    }

    /// Takes every held owner from its holder, and gives it back.
    ///
    /// # Errors
    /// An owner can't be opened, or has a wrong state.
    pub async fn free_all(&self) -> Result<()> {
        let held = self.place.look().await?.held();
        if held.is_empty() {
            return Ok(());
        }
        self.end_graces().await?;
        for id in held {
            let taken = self
                .hold(&id, OnConflict::Steal)
                .await?
                .with_context(|| format!("{id} can't be opened"))?;
            ensure!(
                taken.session.end().await.is_ok(),
                "{id} can't be given back"
            );
        }
        Ok(())
    }
}

impl Held {
    /// Sets fields in the session. Returns whether the session still holds the owner.
    ///
    /// # Errors
    /// The edit fails for another reason than the end of the session.
    pub fn set(&mut self, play: &Play<'_>, fields: &[(&str, &str)]) -> Result<bool> {
        self.edit(
            play,
            fields
                .iter()
                .map(|(field, value)| (*field, Some(Bytes::copy_from_slice(value.as_bytes()))))
                .collect(),
        )
    }

    /// Removes a field in the session. Returns whether the session still holds the owner.
    ///
    /// # Errors
    /// Like [`Held::set`].
    pub fn remove(&mut self, play: &Play<'_>, field: &str) -> Result<bool> {
        self.edit(play, vec![(field, None)])
    }

    /// From the edit on it may be stored, because a session that is claimed again saves all its
    /// edits by itself.
    fn edit(&mut self, play: &Play<'_>, edits: Vec<(&str, Option<Bytes>)>) -> Result<bool> {
        let mut fields = self.fields.clone();
        fields.extend(
            edits
                .iter()
                .map(|(field, value)| ((*field).to_owned(), value.clone())),
        );
        let begun = (
            play.history.begin(&self.id, changes(&fields)?),
            self.session.saved(),
        );
        for (field, value) in edits {
            let edited = match value {
                Some(value) => self.session.set(field, value),
                None => self.session.remove(field),
            };
            if let Err(error) = edited {
                ensure!(error.kind() == Kind::Fenced, "an edit was refused: {error}");
                return play.history.end(&self.id, begun.0, Err(error));
            }
        }
        (self.fields, self.edited) = (fields, Some(begun));
        Ok(true)
    }

    /// Saves the edits. Returns whether the save was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn save(&mut self, play: &Play<'_>) -> Result<bool> {
        let saved = self.session.save().deadline(SAVE).await;
        self.told(play, saved)
    }

    /// Saves the edits and ends the session. Returns whether the save was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn end(mut self, play: &Play<'_>) -> Result<bool> {
        let ended = self.session.end().await;
        self.told(play, ended)
    }

    fn told(&mut self, play: &Play<'_>, answer: Result<Ack, Error>) -> Result<bool> {
        let Some((begun, before)) = self.edited.take() else {
            return Ok(answer.is_ok());
        };
        match answer {
            // The edits stay in the session, and a later save has them.
            Err(error) if error.kind() != Kind::Fenced => Ok(false),
            Err(error) => play.history.end(&self.id, begun, Err(error)),
            Ok(ack) => {
                let version = ack.version();
                ensure!(
                    version > before,
                    "a save of {} was acknowledged with {version}, after {before} was",
                    self.id
                );
                play.history.end(&self.id, begun, Ok((version, Vec::new())))
            }
        }
    }

    /// The changes by a save of all fields of the session.
    ///
    /// # Errors
    /// A field's name is impossible.
    pub fn whole(&self) -> Result<Vec<(Field, Change)>> {
        changes(&self.fields)
    }
}

fn changes(fields: &BTreeMap<String, Option<Bytes>>) -> Result<Vec<(Field, Change)>> {
    let change = |value: &Option<Bytes>| value.clone().map_or(Change::Remove, Change::Set);
    fields
        .iter()
        .map(|(field, value)| Ok((Field::new(field)?, change(value))))
        .collect()
}
