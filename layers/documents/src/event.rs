//! The changes of documents, items and collections, as the feed tells them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::Scope;
use storage_sdk::feed::{Content, Event as Told, Note as CoreNote, Position};
use storage_sdk::{Timestamp, Version};

use crate::collection::collection_of;
use crate::stored::{DOCUMENT, HEAD, ITEM};
use crate::{Error, Kind, Path, Result, Tag};

/// How a document changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// It was created or replaced.
    #[serde(rename = "put")]
    Put,
    /// It was patched.
    #[serde(rename = "patch")]
    Patch,
    /// It was deleted.
    #[serde(rename = "delete")]
    Delete,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "feed:put",
            Self::Patch => "feed:patch",
            Self::Delete => "feed:delete",
        })
    }
}

/// A change of a document, an item or a collection.
#[derive(Debug, Clone)]
pub struct Event {
    /// How it changed.
    pub method: Method,
    /// The document, the item or the collection.
    pub path: Path,
    /// The revision since then: of the document, or of the item's collection. Revisions have no gaps.
    pub revision: u64,
    /// The number of items of the collection since then.
    pub count: Option<u64>,
    /// The version since then.
    pub version: Version,
    /// The version before. `None` if it is unknown. A follower that knows another one has missed a
    /// change.
    pub previous: Option<Version>,
    /// When it changed: milliseconds since 1970.
    pub at: u64,
    /// The body of a put, the patch of a patch with its nulls, and nothing of a delete.
    pub body: Option<Box<RawValue>>,
    /// The partition of the feed.
    pub partition: u32,
    /// The place in the partition.
    pub position: Position,
}

/// The body of a note. Owner, version and version before are parts of every note.
///
/// The note of an item that changes alone is one of its collection's head, whose counters are the
/// revision and the count. Of several items that change in one step, each has a note of its own, which
/// names both.
#[derive(Serialize, Deserialize)]
pub(crate) struct Note<'a> {
    /// The method.
    m: Method,
    /// The revision of a document, or that of a collection with the change of an item.
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<u64>,
    /// The number of items of the collection since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    /// The id of an item, and its version before.
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<u64>,
    /// The time, in milliseconds since 1970.
    t: u64,
    /// The body.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    b: Option<&'a RawValue>,
}

impl<'a> Note<'a> {
    pub(crate) fn of(method: Method, now: Timestamp, body: Option<&'a RawValue>) -> Self {
        Self {
            m: method,
            r: None,
            n: None,
            i: None,
            p: None,
            t: now.0 / 1_000,
            b: body,
        }
    }

    pub(crate) fn with_revision(self, revision: u64) -> Self {
        let r = Some(revision);
        Self { r, ..self }
    }

    pub(crate) fn with_count(self, count: u64) -> Self {
        let n = Some(count);
        Self { n, ..self }
    }

    pub(crate) fn with_item(self, id: &str, previous: Version) -> Self {
        let (i, p) = (Some(id.to_owned()), Some(previous.get()));
        Self { i, p, ..self }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::new(Kind::Body, error.to_string()))
    }
}

impl Event {
    /// The change that an event of the core's feed tells. `None` if it tells no change of a
    /// document of this world.
    pub(crate) fn of(told: &Told, world: &Scope) -> Option<Self> {
        let Content::Note(note) = &told.content else {
            return None;
        };
        if note.owner.scope() != *world {
            return None;
        }
        let body: Note<'_> = match note.owner.logic_type() {
            DOCUMENT | HEAD | ITEM => serde_json::from_slice(&note.body).ok()?,
            _ => return None,
        };
        let mut event = Self {
            method: body.m,
            path: path_of(note, &body)?,
            revision: body.r.unwrap_or_default(),
            count: body.n,
            version: note.version,
            previous: note.previous,
            at: body.t,
            body: body.b.map(ToOwned::to_owned),
            partition: told.partition.0,
            position: told.position,
        };
        if note.owner.logic_type() == HEAD {
            // Counters are sorted by the names of their fields: the count, and then the revision.
            let (count, revision) = match note.counters.as_slice() {
                [revision] => (None, *revision),
                [count, revision] => (u64::try_from(*count).ok(), *revision),
                _ => return None,
            };
            event.revision = u64::try_from(revision).ok()?;
            event.count = count;
        }
        if let Some(previous) = body.p {
            event.previous = Version::new(previous);
        }
        Some(event)
    }

    /// The event alone, for followers that the body does not concern any more.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self {
            body: None,
            ..self.clone()
        }
    }

    /// The event as JSON, as clients get it.
    #[must_use]
    pub fn to_text(&self) -> String {
        // A path that was never written has version 0, and never had a document.
        let previous = self.previous.filter(|version| *version > Version::ZERO);
        let told = Text {
            id: self.id(),
            method: self.method.to_string(),
            path: self.path.as_str(),
            revision: self.revision,
            count: self.count,
            etag: Tag::of(self.version).to_string(),
            prev: previous.map(|version| Tag::of(version).to_string()),
            at: self.at,
            body: self.body.as_deref(),
        };
        // All parts can be written.
        serde_json::to_string(&told).unwrap_or_default()
    }

    /// The event's id in the feed: partition, epoch and number.
    #[must_use]
    pub fn id(&self) -> String {
        id_of(self.partition, self.position)
    }
}

/// The id of the event at a position of a partition.
#[must_use]
pub fn id_of(partition: u32, position: Position) -> String {
    format!("{partition}.{}.{}", position.epoch.0, position.number)
}

/// The path of a document, of a collection, or of an item, whose id the note names.
fn path_of(note: &CoreNote, body: &Note<'_>) -> Option<Path> {
    let collection = collection_of(note.owner.id())?;
    match &body.i {
        Some(id) => Path::item(collection, id).ok(),
        None => Path::new(collection).ok(),
    }
}

#[derive(Serialize)]
struct Text<'a> {
    id: String,
    method: String,
    path: &'a str,
    revision: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    etag: String,
    prev: Option<String>,
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
}
