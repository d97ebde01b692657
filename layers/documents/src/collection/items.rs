//! Writes of items, and of whole collections.

use std::borrow::Cow;
use std::time::Duration;

use storage_sdk::{ByteOwner, Part};

use super::head::{COUNT, GENERATION, Head};
use crate::attempts::Attempts;
use crate::edit::{Edit, Edited};
use crate::event::Note;
use crate::json::Json;
use crate::once::Entry;
use crate::single::{edited, stored_value};
use crate::stored::{BODY, PathState, REVISION};
use crate::{Call, Changed, Documents, Error, Kind, Method, Path, Result};

/// The member of an item's body that is its id.
pub(crate) const ID: &str = "id";

/// A write of one item.
pub(super) struct ItemWrite<'a> {
    pub(super) path: &'a Path,
    pub(super) collection: &'a str,
    pub(super) id: &'a str,
    pub(super) call: &'a Call,
    pub(super) entry: Option<&'a Entry<'a>>,
}

/// A write that creates or deletes a collection.
struct CollectionWrite<'a> {
    path: &'a Path,
    /// The owner of its head.
    owner: &'a ByteOwner,
    call: &'a Call,
    entry: Option<&'a Entry<'a>>,
    method: Method,
}

impl Documents {
    /// As a document, with the head in the same step. The head's version is no condition, so writers
    /// of different items do not wait for each other.
    pub(crate) async fn edit_item(
        &self,
        path: &Path,
        collection: &str,
        id: &str,
        edit: &Edit,
        call: &Call,
    ) -> Result<Changed> {
        let head_owner = self.head_owner(collection)?;
        let entry = self.entry(collection, path, call)?;
        let write = ItemWrite {
            path,
            collection,
            id,
            call,
            entry: entry.as_ref(),
        };
        let attempts = Attempts::begin(path, call);
        loop {
            let (head, found) = self.find_item(collection, id).await?;
            // ORDER: the item before the entry. A first call that ends in between changes its version.
            let (revision, left) = (head.revision, attempts.left()?);
            let earlier = self.repeat(write.entry, &head_owner, revision, left);
            if let Some(done) = earlier.await? {
                return Ok(done);
            }
            let edited = edited(path, &found, edit, call)?;
            let edited = with_id(edited, path, id)?;
            let of_head = |part: Part| head.unchanged(part);
            let change = self.send_item(&write, &head, &found, edited, left, of_head);
            if let Some(done) = attempts.ended(change.await).await? {
                return Ok(done);
            }
        }
    }

    /// Writes item, revision, count and event in one step. The caller adds conditions and changes of the
    /// head's part.
    pub(super) async fn send_item(
        &self,
        write: &ItemWrite<'_>,
        head: &Head,
        found: &PathState,
        edited: Edited<'_>,
        left: Duration,
        of_head: impl FnOnce(Part) -> Part,
    ) -> Result<Changed> {
        let now = self.clock.now();
        let head_owner = self.head_owner(write.collection)?;
        let owner = self.item_owner(write.collection, head.present(), write.id)?;
        let texts = edited.texts()?;
        let value = stored_value(found, &edited, &texts, write.call, now)?;
        let next = head.revision.saturating_add(1);
        let keeping = self.keeping(write.path, &owner, found, &texts, next, now)?;
        let keeps = self.history_of(write.path).is_some();
        // Otherwise others can change their items in between.
        let known = keeps.then_some(next);
        let note = Note::of(texts.method, now, texts.told())
            .with_item(write.id, found.version)
            .to_bytes()?;
        self.check_sizes(&texts, value.as_deref(), &note, keeping.value())?;
        let more = i64::from(value.is_some()) - i64::from(found.is_stored);
        let created = found.document.is_none();
        let step = self
            .world
            .transaction()
            .owner(&head_owner, |part| {
                let part = part.add(REVISION, 1).add(COUNT, more).note(note);
                // A kept version has the revision that the head had.
                of_head(if keeps { head.at_revision(part) } else { part })
            })
            .owner(&owner, |part| {
                let part = match value {
                    Some(value) => part.set(BODY, value),
                    None => part.remove(BODY),
                };
                keeping.count(part).if_version(found.version)
            });
        let step = keeping.join(step);
        let step = match write.entry {
            Some(entry) => entry.join(step, write.path, now, created, known)?,
            None => step,
        };
        let sent = step.durability(write.call.durability).deadline(left);
        let changed = Changed {
            created,
            body: texts.into_body(),
            ..changed(write.path, &head_owner, &sent.await?)
        };
        if let Some(entry) = write.entry {
            entry.keep(&changed, now).await;
        }
        Ok(changed)
    }

    /// Creates an empty collection. One that is there stays as it is.
    ///
    /// # Errors
    /// `Condition`, `Contended`, `Storage`. `Collection`: the path names no collection.
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn create_collection(&self, path: &Path, call: &Call) -> Result<Changed> {
        self.change_collection(path, call, Method::Put).await
    }

    pub(crate) async fn delete_collection(&self, path: &Path, call: &Call) -> Result<Changed> {
        self.change_collection(path, call, Method::Delete).await
    }

    async fn change_collection(&self, path: &Path, call: &Call, method: Method) -> Result<Changed> {
        if path.place() != crate::Place::Collection {
            return Err(Error::new(
                Kind::Collection,
                format!("{path} is no collection"),
            ));
        }
        let (owner, attempts) = (self.head_owner(path.as_str())?, Attempts::begin(path, call));
        let entry = self.entry(path.as_str(), path, call)?;
        let write = CollectionWrite {
            path,
            owner: &owner,
            call,
            entry: entry.as_ref(),
            method,
        };
        loop {
            let (head, left) = (self.head(path.as_str()).await?, attempts.left()?);
            // ORDER: the head before the entry. A first call that ends in between changes its version.
            let earlier = self.repeat(write.entry, &owner, head.revision, left);
            if let Some(done) = earlier.await? {
                return Ok(done);
            }
            if method == Method::Delete && head.count.is_none() {
                let message = format!("there is no collection {path}");
                return Err(Error::new(Kind::Missing, message));
            }
            call.conditions.check(head.tag())?;
            if method == Method::Put && head.count.is_some() {
                Box::pin(self.secure(&owner, call.durability, left)).await?;
                return Ok(unchanged(path, &head));
            }
            let sent = self.change_head(&write, &head, left);
            if let Some(done) = attempts.ended(sent.await).await? {
                return Ok(done);
            }
        }
    }

    /// Creates or deletes a collection, if its head still has the version that was read.
    async fn change_head(
        &self,
        write: &CollectionWrite<'_>,
        head: &Head,
        left: Duration,
    ) -> Result<Changed> {
        let (now, created) = (self.clock.now(), write.method == Method::Put);
        let next = head.revision.saturating_add(1);
        let note = Note::of(write.method, now, None).to_bytes()?;
        let step = write.owner.transaction(|part| {
            let part = part.add(REVISION, 1).note(note).if_version(head.version);
            match write.method {
                Method::Delete => {
                    let generation = head.present().saturating_add(1).to_string();
                    part.remove(COUNT).set(GENERATION, generation)
                }
                _ => head.unchanged(part.set(COUNT, "0")),
            }
        });
        let step = match write.entry {
            Some(entry) => entry.join(step, write.path, now, created, Some(next))?,
            None => step,
        };
        let sent = step.durability(write.call.durability).deadline(left);
        let changed = Changed {
            created,
            ..changed(write.path, write.owner, &sent.await?)
        };
        if let Some(entry) = write.entry {
            entry.keep(&changed, now).await;
        }
        Ok(changed)
    }
}

/// The answer to a change of a collection, by the counters of its head.
fn changed(path: &Path, head: &ByteOwner, receipt: &storage_sdk::Receipt) -> Changed {
    let counters = receipt.of(head);
    let counter = |field| {
        let number = counters.and_then(|counters| counters.get(field));
        number.and_then(|number| u64::try_from(number).ok())
    };
    let position = counters.and_then(|counters| counters.ack().position());
    Changed {
        path: path.clone(),
        revision: counter(REVISION).unwrap_or_default(),
        version: receipt.version(),
        created: false,
        count: counter(COUNT),
        body: None,
        event: position.map(|position| (head.partition().0, position)),
        is_repeat: false,
    }
}

fn unchanged(path: &Path, head: &Head) -> Changed {
    Changed {
        path: path.clone(),
        revision: head.revision,
        version: head.version,
        created: false,
        count: head.count,
        body: None,
        event: None,
        is_repeat: false,
    }
}

/// Puts the id into the body of an item.
///
/// # Errors
/// `Body`: the body is no object. `Protected`: a patch changes the id.
pub(super) fn with_id<'a>(mut edited: Edited<'a>, path: &Path, id: &str) -> Result<Edited<'a>> {
    let is_kept = |body: &Json| matches!(body.member(ID), Some(Json::Text(kept)) if kept == id);
    let Some(body) = edited.body.take() else {
        return Ok(edited);
    };
    edited.body = Some(match edited.method {
        _ if is_kept(&body) => body,
        Method::Put => {
            let with_id = body.into_owned().with_member(ID, Json::Text(id.to_owned()));
            Cow::Owned(with_id.ok_or_else(|| no_object(path))?)
        }
        _ => return Err(protected(path)),
    });
    Ok(edited)
}

fn no_object(path: &Path) -> Error {
    let message = format!("{path} is an item, so its body is an object");
    Error::new(Kind::Body, message)
}

fn protected(path: &Path) -> Error {
    let message = format!("the patch changes the member {ID:?} of {path}, which is the item's id");
    Error::new(Kind::Protected, message)
}
