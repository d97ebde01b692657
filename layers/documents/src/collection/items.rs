//! Writes of items, and of whole collections.

use std::borrow::Cow;
use std::time::Duration;

use storage_sdk::{ByteOwner, Part, Timestamp};

use super::head::{COUNT, GENERATION, Head};
use crate::attempts::Attempts;
use crate::edit::{Edit, Edited};
use crate::event::Note;
use crate::json::Json;
use crate::once::{Done, REMEMBERED_BY_COLLECTIONS_MAX, REMEMBERED_MAX};
use crate::single::{edited, stored_value, with_fields};
use crate::stored::{BODY, Found, REPEATS, REVISION};
use crate::{Call, Changed, Documents, Error, Kind, Method, Path, Result};

/// The member of an item's body that is its id.
pub(crate) const ID: &str = "id";

/// A write of one item.
pub(super) struct ItemWrite<'a> {
    pub(super) path: &'a Path,
    pub(super) collection: &'a str,
    pub(super) id: &'a str,
    pub(super) call: &'a Call,
}

impl Documents {
    /// As a document, with the head in the same step. The head's version is no condition, so writers
    /// of different items do not wait for each other.
    pub(crate) async fn edit_item(
        &self,
        path: &Path,
        (collection, id): (&str, &str),
        edit: &Edit,
        call: &Call,
    ) -> Result<Changed> {
        let write = ItemWrite {
            path,
            collection,
            id,
            call,
        };
        let mut attempts = Attempts::begin(path, call);
        loop {
            let (head, found) = self.find_item(collection, id).await?;
            let done = match &call.once {
                Some(once) => found.repeats.find(once, self.clock.now())?,
                None => None,
            };
            if let Some(done) = done {
                return Ok(repeated(path, &head, done));
            }
            let edited = edited(path, &found, edit, call)?;
            let edited = with_id(edited, path, id)?;
            let left = attempts.left()?;
            let change = self.change_item(&write, (&head, &found), edited, left);
            if let Some(done) = attempts.ended(change.await).await? {
                return Ok(done);
            }
        }
    }

    async fn change_item(
        &self,
        write: &ItemWrite<'_>,
        (head, found): (&Head, &Found),
        edited: Edited<'_>,
        left: Duration,
    ) -> Result<Changed> {
        let now = self.clock.now();
        let part = |part: Part| head.unchanged(part);
        let once = write.call.once.as_ref();
        let created = found.document.is_none();
        let keys = |once| {
            let (known, most) = ((None, None), REMEMBERED_MAX);
            found.repeats.with(once, now, created, known, most)
        };
        let once = once.map(keys).transpose()?;
        let item = |part: Part| match once {
            Some(once) => part.set(REPEATS, once),
            None => part,
        };
        self.send_item(write, (head, found), edited, (now, left), (part, item))
            .await
    }

    /// Writes item, revision, count and event in one step. The callers add conditions and changes of
    /// the head's part and of the item's part.
    pub(super) async fn send_item(
        &self,
        write: &ItemWrite<'_>,
        (head, found): (&Head, &Found),
        edited: Edited<'_>,
        (now, left): (Timestamp, Duration),
        (of_head, of_item): (impl FnOnce(Part) -> Part, impl FnOnce(Part) -> Part),
    ) -> Result<Changed> {
        let head_owner = self.head_owner(write.collection)?;
        let owner = self.item_owner(write.collection, head.present(), write.id)?;
        let texts = edited.texts()?;
        let value = stored_value(found, (&edited, &texts), write.call, now)?;
        let next = head.revision.saturating_add(1);
        let kept = self.kept(write.path, found, &texts, (next, now))?;
        let keeps = self.history_of(write.path).is_some();
        let note = Note::of(texts.method, now, texts.told());
        let note = note.with_item(write.id, found.version).to_bytes()?;
        self.check_sizes(&texts, value.as_deref(), &note, &kept)?;
        let more = i64::from(value.is_some()) - i64::from(found.is_stored);
        let transaction = self
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
                of_item(with_fields(part, kept)).if_version(found.version)
            });
        let sent = transaction.durability(write.call.durability).deadline(left);
        let receipt = sent.await?;
        Ok(Changed {
            created: found.document.is_none(),
            body: texts.into_body(),
            ..changed(write.path, &head_owner, &receipt)
        })
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
        let (owner, mut attempts) = (self.head_owner(path.as_str())?, Attempts::begin(path, call));
        loop {
            let (head, now) = (self.head(path.as_str()).await?, self.clock.now());
            if let Some(done) = done_before(&head, call, now)? {
                return Ok(repeated(path, &head, done));
            }
            if method == Method::Delete && head.count.is_none() {
                let message = format!("there is no collection {path}");
                return Err(Error::new(Kind::Missing, message));
            }
            call.conditions.check(head.tag())?;
            if method == Method::Put && head.count.is_some() {
                return Ok(unchanged(path, &head));
            }
            let note = Note::of(method, now, None).to_bytes()?;
            let keys = head.keys_with(call, (now, method == Method::Put), None)?;
            let write = owner.transaction(|part| {
                let part = part.add(REVISION, 1).note(note).if_version(head.version);
                let part = with_keys(part, keys);
                match method {
                    Method::Delete => {
                        let next = head.present().saturating_add(1).to_string();
                        part.remove(COUNT).set(GENERATION, next)
                    }
                    _ => head.unchanged(part.set(COUNT, "0")),
                }
            });
            let write = write.durability(call.durability).deadline(attempts.left()?);
            let sent = async { Ok(write.await?) };
            if let Some(receipt) = attempts.ended(sent.await).await? {
                return Ok(Changed {
                    created: method == Method::Put,
                    ..changed(path, &owner, &receipt)
                });
            }
        }
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
        version: Some(receipt.version()),
        created: false,
        count: counter(COUNT),
        body: None,
        event: position.map(|position| (head.partition().0, position)),
    }
}

fn unchanged(path: &Path, head: &Head) -> Changed {
    Changed {
        path: path.clone(),
        revision: head.revision,
        version: Some(head.version),
        created: false,
        count: head.count,
        body: None,
        event: None,
    }
}

/// The earlier call of a collection that this one repeats.
pub(super) fn done_before<'a>(
    head: &'a Head,
    call: &Call,
    now: Timestamp,
) -> Result<Option<&'a Done>> {
    match &call.once {
        Some(once) => head.repeats.find(once, now),
        None => Ok(None),
    }
}

impl Head {
    /// The keys that the collection remembers after a call. `None` if the call has no key.
    pub(super) fn keys_with(
        &self,
        call: &Call,
        (now, created): (Timestamp, bool),
        id: Option<&str>,
    ) -> Result<Option<Vec<u8>>> {
        let keys = |once| {
            let most = REMEMBERED_BY_COLLECTIONS_MAX;
            self.repeats.with(once, now, created, (None, id), most)
        };
        call.once.as_ref().map(keys).transpose()
    }
}

/// The part of a head that remembers keys. Its other conditions see to it that they are the last.
pub(super) fn with_keys(part: Part, keys: Option<Vec<u8>>) -> Part {
    match keys {
        Some(keys) => part.set(REPEATS, keys),
        None => part,
    }
}

/// The answer of a call that was carried out before.
pub(super) fn repeated(path: &Path, head: &Head, done: &Done) -> Changed {
    Changed {
        revision: done.r.unwrap_or(head.revision),
        version: None,
        created: done.c,
        ..unchanged(path, head)
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
