//! Writes of single documents.

use storage_sdk::{ByteOwner, Part, Timestamp};

use crate::attempts::Attempts;
use crate::edit::{Edit, Edited, Texts, parsed};
use crate::event::Note;
use crate::history;
use crate::once::REMEMBERED_MAX;
use crate::stored::{BODY, Found, REPEATS, REVISION, Times, value_of};
use crate::{Call, Changed, Documents, Error, Kind, Path, Result};

impl Documents {
    /// Reads the document, checks the conditions, and writes on condition of the version that was
    /// read. So check and write are one step. If another writer was faster, it begins again.
    pub(crate) async fn edit_document(
        &self,
        path: &Path,
        edit: &Edit,
        call: &Call,
    ) -> Result<Changed> {
        let (owner, mut attempts) = (self.owner(path)?, Attempts::begin(path, call));
        loop {
            let found = self.find(&owner).await?;
            if let Some(done) = repeated(path, &found, call, self.clock.now())? {
                return Ok(done);
            }
            let edited = edited(path, &found, edit, call)?;
            let left = attempts.left()?;
            let write = self.change(path, (&owner, &found), edited, call, left);
            if let Some(done) = attempts.ended(write.await).await? {
                return Ok(done);
            }
        }
    }

    /// Writes body, revision and event in one step, if the owner still has the version that was
    /// found.
    async fn change(
        &self,
        path: &Path,
        (owner, found): (&ByteOwner, &Found),
        edited: Edited<'_>,
        call: &Call,
        left: std::time::Duration,
    ) -> Result<Changed> {
        let (now, revision) = (self.clock.now(), found.revision.saturating_add(1));
        let created = found.document.is_none();
        let texts = edited.texts()?;
        let value = stored_value(found, (&edited, &texts), call, now)?;
        let note = Note::of(texts.method, now, texts.told()).with_revision(revision);
        let note = note.to_bytes()?;
        let known = (Some(revision), None);
        let once = call.once.as_ref();
        let keys = |once| {
            let most = REMEMBERED_MAX;
            found.repeats.with(once, now, created, known, most)
        };
        let once = once.map(keys).transpose()?;
        let kept = self.kept(path, found, &texts, (revision, now))?;
        self.check_sizes(&texts, value.as_deref(), &note, &kept)?;
        let write = owner.transaction(|part| {
            let part = with_fields(part, kept);
            let part = match value {
                Some(value) => part.set(BODY, value),
                None => part.remove(BODY),
            };
            let part = match once {
                Some(once) => part.set(REPEATS, once),
                None => part,
            };
            let part = part.set(REVISION, revision.to_string());
            part.if_version(found.version).note(note)
        });
        let receipt = write.durability(call.durability).deadline(left).await?;
        let position = receipt
            .of(owner)
            .and_then(|counters| counters.ack().position());
        Ok(Changed {
            path: path.clone(),
            revision,
            version: Some(receipt.version()),
            created,
            count: None,
            body: texts.into_body(),
            event: position.map(|position| (owner.partition().0, position)),
        })
    }

    /// The fields that keep the new version, if versions of the path are kept.
    pub(crate) fn kept(
        &self,
        path: &Path,
        found: &Found,
        texts: &Texts,
        (revision, now): (u64, Timestamp),
    ) -> Result<Vec<(String, Vec<u8>)>> {
        Ok(match self.history_of(path) {
            None => history::left_out(found.written),
            Some(history) => {
                let document = found.document.as_ref();
                let created = document.map_or(now, |document| document.created);
                let body = texts.body.as_deref();
                history.keep(found.written, (revision, created, now), body)?
            }
        })
    }
}

/// The part with more fields.
pub(crate) fn with_fields(part: Part, fields: Vec<(String, Vec<u8>)>) -> Part {
    let set = |part: Part, (field, value): (String, Vec<u8>)| part.set(&field, value);
    fields.into_iter().fold(part, set)
}

/// The answer of a call that was carried out before, if this one is its repeat.
fn repeated(path: &Path, found: &Found, call: &Call, now: Timestamp) -> Result<Option<Changed>> {
    let Some(once) = &call.once else {
        return Ok(None);
    };
    let done = found.repeats.find(once, now)?;
    Ok(done.map(|done| Changed {
        path: path.clone(),
        revision: done.r.unwrap_or(found.revision),
        version: None,
        created: done.c,
        count: None,
        body: None,
        event: None,
    }))
}

/// The change of the document that was found, if the conditions hold.
pub(crate) fn edited<'a>(
    path: &Path,
    found: &Found,
    edit: &'a Edit,
    call: &Call,
) -> Result<Edited<'a>> {
    let is_ended = edit.is_end() && found.is_stored && found.document.is_none();
    // Without a document there is nothing that a condition of such a change could be about.
    if found.document.is_none() && !edit.creates() && !is_ended {
        let message = format!("there is no document {path}");
        return Err(Error::new(Kind::Missing, message));
    }
    call.conditions.check(found.tag())?;
    let Some(document) = &found.document else {
        return edit.of(None);
    };
    if edit.is_end() {
        let message = format!("{path} has not ended");
        return Err(Error::new(Kind::Missing, message));
    }
    if edit.creates() {
        return edit.of(None);
    }
    edit.of(Some(parsed(&document.body)?))
}

/// The value of the body after a change. `None` if the document is deleted.
pub(crate) fn stored_value(
    found: &Found,
    (edited, texts): (&Edited<'_>, &Texts),
    call: &Call,
    now: Timestamp,
) -> Result<Option<Vec<u8>>> {
    let Some(body) = &texts.body else {
        return Ok(None);
    };
    let before = found.document.as_ref();
    let kept = before
        .filter(|_| !edited.is_put)
        .and_then(|document| document.ends);
    let times = Times {
        created: before.map_or(now, |document| document.created),
        modified: now,
        ends: call.lives.map(|lives| now.plus(lives)).or(kept),
    };
    value_of(times, body).map(Some)
}
