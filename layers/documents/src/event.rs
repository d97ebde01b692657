//! The changes of documents, as the feed tells them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::Version;
use storage_sdk::feed::{Content, Event as Told, Position};

use crate::stored::LOGIC_TYPE;
use crate::{Path, Tag};

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

/// A change of a document.
#[derive(Debug, Clone)]
pub struct Event {
    /// How it changed.
    pub method: Method,
    /// The document.
    pub path: Path,
    /// Its revision since then. The revisions of a document have no gaps.
    pub revision: u64,
    /// Its version since then.
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

/// The body of a document's note. Owner, version and version before are parts of every note.
#[derive(Serialize, Deserialize)]
pub(crate) struct Note<'a> {
    /// The method.
    pub(crate) m: Method,
    /// The revision.
    pub(crate) r: u64,
    /// The time, in milliseconds since 1970.
    pub(crate) t: u64,
    /// The body.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) b: Option<&'a RawValue>,
}

impl Event {
    /// The change that an event of the core's feed tells. `None` if it tells no change of a
    /// document.
    #[must_use]
    pub fn of(told: &Told) -> Option<Self> {
        let Content::Note(note) = &told.content else {
            return None;
        };
        if note.owner.logic_type() != LOGIC_TYPE {
            return None;
        }
        let body: Note<'_> = serde_json::from_slice(&note.body).ok()?;
        Some(Self {
            method: body.m,
            path: Path::new(note.owner.id()).ok()?,
            revision: body.r,
            version: note.version,
            previous: note.previous,
            at: body.t,
            body: body.b.map(ToOwned::to_owned),
            partition: told.partition.0,
            position: told.position,
        })
    }

    /// The event as JSON, as clients get it.
    #[must_use]
    pub fn to_text(&self) -> String {
        // A path that was never written has version 0, and never had a document.
        let previous = self.previous.filter(|version| *version > Version::ZERO);
        let told = Text {
            method: self.method.to_string(),
            path: self.path.as_str(),
            revision: self.revision,
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
        format!(
            "{}.{}.{}",
            self.partition, self.position.epoch.0, self.position.number
        )
    }
}

#[derive(Serialize)]
struct Text<'a> {
    method: String,
    path: &'a str,
    revision: u64,
    etag: String,
    prev: Option<String>,
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
}
