//! Writes of single documents.

use std::time::Duration;

use storage_sdk::{ByteOwner, Timestamp};

use crate::attempts::Attempts;
use crate::edit::{Edit, Edited, Texts, parsed};
use crate::event::Note;
use crate::once::Entry;
use crate::stored::{BODY, PathState, REVISION, Times, value_of};
use crate::{Call, Changed, Documents, Error, Kind, Path, Result};

/// A write of one document.
struct DocumentWrite<'a> {
    path: &'a Path,
    owner: &'a ByteOwner,
    call: &'a Call,
    entry: Option<&'a Entry<'a>>,
}

impl Documents {
    /// Reads the document, checks the conditions, and writes on condition of the version that was
    /// read. So check and write are one step. If another writer was faster, it begins again.
    pub(crate) async fn edit_document(
        &self,
        path: &Path,
        edit: &Edit,
        call: &Call,
    ) -> Result<Changed> {
        let (owner, attempts) = (self.owner(path)?, Attempts::begin(path, call));
        let entry = self.entry(path.as_str(), path, call)?;
        let write = DocumentWrite {
            path,
            owner: &owner,
            call,
            entry: entry.as_ref(),
        };
        loop {
            let found = self.find(&owner).await?;
            // ORDER: the document before the entry. A first call that ends in between changes its version.
            let left = attempts.left()?;
            let earlier = self.repeat(write.entry, &owner, found.revision, left);
            if let Some(done) = earlier.await? {
                return Ok(done);
            }
            let edited = edited(path, &found, edit, call)?;
            let sent = self.change(&write, &found, edited, left);
            if let Some(done) = attempts.ended(sent.await).await? {
                return Ok(done);
            }
        }
    }

    /// Writes body, revision and event in one step, if the owner still has the version that was
    /// found.
    async fn change(
        &self,
        write: &DocumentWrite<'_>,
        found: &PathState,
        edited: Edited<'_>,
        left: Duration,
    ) -> Result<Changed> {
        let (path, owner) = (write.path, write.owner);
        let (now, revision) = (self.clock.now(), found.revision.saturating_add(1));
        let created = found.document.is_none();
        let texts = edited.texts()?;
        let value = stored_value(found, &edited, &texts, write.call, now)?;
        let note = Note::of(texts.method, now, texts.told())
            .with_revision(revision)
            .to_bytes()?;
        let keeping = self.keeping(path, owner, found, &texts, revision, now)?;
        self.check_sizes(&texts, value.as_deref(), &note, keeping.value())?;
        let step = owner.transaction(|part| {
            let part = match value {
                Some(value) => part.set(BODY, value),
                None => part.remove(BODY),
            };
            let part = keeping.count(part.set(REVISION, revision.to_string()));
            part.if_version(found.version).note(note)
        });
        let step = keeping.join(step);
        let step = match write.entry {
            Some(entry) => entry.join(step, path, now, created, Some(revision))?,
            None => step,
        };
        let receipt = step
            .durability(write.call.durability)
            .deadline(left)
            .await?;
        let counters = receipt.of(owner);
        let position = counters.and_then(|counters| counters.ack().position());
        let changed = Changed {
            path: path.clone(),
            revision,
            version: receipt.version(),
            created,
            count: None,
            body: texts.into_body(),
            event: position.map(|position| (owner.partition().0, position)),
            is_repeat: false,
        };
        if let Some(entry) = write.entry {
            entry.keep(&changed, now).await;
        }
        Ok(changed)
    }
}

/// The change of the document that was found, if the conditions hold.
pub(crate) fn edited<'a>(
    path: &Path,
    found: &PathState,
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
    found: &PathState,
    edited: &Edited<'_>,
    texts: &Texts,
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
