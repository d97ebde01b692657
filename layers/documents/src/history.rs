//! Kept versions: the last bodies of a document, in an owner beside it.
//!
//! Each change writes the new body into the next slot of a ring, in the same step. So a version is
//! kept if and only if its change was made. It costs the bytes of each kept body in the database, and in
//! the hot tier until it has landed. The owner of the document does not grow, so it loads as fast as one
//! without kept versions.
//!
//! Versions are numbered. A change that keeps none leaves its number out, so a hole is seen: a
//! gateway can run without kept versions for a while, or keep fewer.
//!
//! Writers of items in one collection wait for each other if versions are kept, since each version
//! has the collection's revision.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::{ByteOwner, Bytes, Part, Record, Timestamp, Transaction, Version};

use crate::documents::Document;
use crate::edit::Texts;
use crate::stored::{HISTORY, PathState, counter};
use crate::{Documents, Error, Kind, Path, Place, Result};

/// The most versions of a document that can be kept.
pub const VERSIONS_MAX: u32 = 100;
/// The field of the number of versions that were written.
const WRITTEN: &str = "hs";

/// The versions that are kept of the paths below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    prefix: String,
    versions: u32,
    age: Option<Duration>,
}

/// One version.
#[derive(Serialize, Deserialize)]
struct KeptVersion {
    /// The number of the version among those of its owner.
    s: u64,
    /// The revision, and when it was made: milliseconds since 1970.
    r: u64,
    m: u64,
    /// When the document was created.
    c: u64,
    /// The body. A deletion has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b: Option<Box<RawValue>>,
}

impl History {
    /// Keeps up to so many versions of each path below a prefix, the present one included, and none
    /// that was replaced longer ago than the age.
    ///
    /// # Errors
    /// `Query`: the number is 0 or above [`VERSIONS_MAX`].
    pub fn new(prefix: &str, versions: u32, age: Option<Duration>) -> Result<Self> {
        if versions == 0 || versions > VERSIONS_MAX {
            let message = format!("{versions} versions can't be kept; keep 1 to {VERSIONS_MAX}");
            return Err(Error::new(Kind::Query, message));
        }
        let prefix = prefix.to_owned();
        Ok(Self {
            prefix,
            versions,
            age,
        })
    }

    fn slot(&self, number: u64) -> String {
        format!(
            "h{}",
            number.checked_rem(self.versions.into()).unwrap_or_default()
        )
    }

    /// The slot that keeps a version, and its value.
    fn keep(
        &self,
        written: u64,
        (revision, created, now): (u64, Timestamp, Timestamp),
        body: Option<&RawValue>,
    ) -> Result<(String, Vec<u8>)> {
        let unwritable = |error: serde_json::Error| Error::new(Kind::Body, error.to_string());
        let kept = KeptVersion {
            s: written,
            r: revision,
            m: now.0 / 1_000,
            c: created.0 / 1_000,
            b: body.map(ToOwned::to_owned),
        };
        let value = serde_json::to_vec(&kept).map_err(unwritable)?;
        Ok((self.slot(written), value))
    }

    /// The version that was the present one at a revision.
    fn find(
        &self,
        record: &Record,
        written: u64,
        wanted: u64,
        now: Timestamp,
    ) -> Result<Option<Document>> {
        let mut versions = Vec::new();
        for slot in 0..self.versions {
            if let Some(value) = record.get(&self.slot(slot.into())) {
                versions.push(read(value)?);
            }
        }
        versions.sort_by_key(|kept| kept.s);
        let place = versions.iter().rposition(|kept| kept.r <= wanted);
        let Some((kept, next)) = place
            .and_then(|place| Some((versions.get(place)?, versions.get(place.saturating_add(1)))))
        else {
            return Ok(None);
        };
        let is_old = |next: &KeptVersion| {
            let replaced = Timestamp(next.m.saturating_mul(1_000));
            self.age.is_some_and(|age| now.since(replaced) > age)
        };
        // A version between the two was not kept, and may be the one that is wanted.
        let is_hole = match next {
            Some(next) => next.s != kept.s.saturating_add(1),
            None => written != kept.s.saturating_add(1),
        };
        if next.is_some_and(is_old) || is_hole && kept.r != wanted {
            return Ok(None);
        }
        let deleted = || {
            let message = format!("it was deleted at revision {}", kept.r);
            Error::new(Kind::Deleted, message)
        };
        let body = kept.b.as_ref().ok_or_else(deleted)?;
        Ok(Some(Document {
            body: Bytes::from(body.get().to_owned()),
            revision: kept.r,
            version: Version::ZERO,
            created: Timestamp(kept.c.saturating_mul(1_000)),
            modified: Timestamp(kept.m.saturating_mul(1_000)),
            ends: None,
        }))
    }
}

/// What a change keeps beside the document.
pub(crate) struct Keeping {
    /// The number of versions that were written, with this one. `None` if none was ever kept.
    count: Option<u64>,
    /// The owner of the versions, the slot, and its value.
    version: Option<(ByteOwner, String, Vec<u8>)>,
}

impl Keeping {
    /// The part of the document, which counts the versions.
    pub(crate) fn count(&self, part: Part) -> Part {
        match self.count {
            Some(count) => part.set(WRITTEN, count.to_string()),
            None => part,
        }
    }

    /// The value of the version that is kept.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let (_, _, value) = self.version.as_ref()?;
        Some(value)
    }

    /// Adds the owner of the versions to the step of the change.
    pub(crate) fn join(self, step: Transaction) -> Transaction {
        match self.version {
            Some((owner, slot, value)) => step.owner(&owner, |part| part.set(&slot, value)),
            None => step,
        }
    }
}

fn read(value: &Bytes) -> Result<KeptVersion> {
    serde_json::from_slice(value).map_err(|error| Error::new(Kind::Corrupt, error.to_string()))
}

/// The number of versions that were written of an owner.
pub(crate) fn written(record: &Record) -> Result<u64> {
    Ok(counter(record, WRITTEN)?.unwrap_or_default())
}

/// The field that [`written`] reads.
pub(crate) const FIELD: &str = WRITTEN;

impl Documents {
    /// Keeps versions of some paths from now on. Of several prefixes of a path, the longest counts.
    #[must_use]
    pub fn with_history(mut self, history: Vec<History>) -> Self {
        self.history = history.into();
        self
    }

    pub(crate) fn history_of(&self, path: &Path) -> Option<&History> {
        let below = self
            .history
            .iter()
            .filter(|history| path.is_below(&history.prefix));
        below.max_by_key(|history| history.prefix.len())
    }

    /// The document or item as it was at a revision: that of the document, or of the item's
    /// collection. `None` if it was not there, or if that version is not kept.
    ///
    /// # Errors
    /// `Deleted`: it was deleted by then. `Query`: no versions of the path are kept. `Storage`: the
    /// tiers can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn get_revision(&self, path: &Path, revision: u64) -> Result<Option<Document>> {
        let Some(history) = self.history_of(path) else {
            let message = format!("no versions of {path} are kept; see --history");
            return Err(Error::new(Kind::Query, message));
        };
        let (owner, found, present) = match path.place() {
            Place::Document => {
                let owner = self.owner(path)?;
                let found = self.find(&owner).await?;
                let present = found.revision;
                (owner, found, present)
            }
            Place::Item { collection, id } => {
                let (head, found) = self.find_item(&collection, &id).await?;
                let owner = self.item_owner(&collection, head.present(), &id)?;
                (owner, found, head.revision)
            }
            Place::Collection => return Ok(None),
        };
        if revision > present {
            return Ok(None);
        }
        let slots: Vec<String> = (0..history.versions)
            .map(|slot| history.slot(slot.into()))
            .collect();
        let versions = self.versions_of(&owner)?;
        let record = versions.get(slots.iter().map(String::as_str)).await?;
        history.find(&record, found.written, revision, self.clock.now())
    }

    /// The owner of the kept versions of a document or an item.
    pub(crate) fn versions_of(&self, owner: &ByteOwner) -> Result<ByteOwner> {
        Ok(self.bytes.owner(HISTORY, owner.owner().id())?)
    }

    /// What a change of an owner keeps, if versions of the path are kept.
    pub(crate) fn keeping(
        &self,
        path: &Path,
        owner: &ByteOwner,
        found: &PathState,
        texts: &Texts,
        revision: u64,
        now: Timestamp,
    ) -> Result<Keeping> {
        let Some(history) = self.history_of(path) else {
            // A version that is left out leaves a hole.
            let count = Some(found.written.saturating_add(1)).filter(|_| found.written > 0);
            return Ok(Keeping {
                count,
                version: None,
            });
        };
        let created = found
            .document
            .as_ref()
            .map_or(now, |document| document.created);
        let kept = (revision, created, now);
        let (slot, value) = history.keep(found.written, kept, texts.body.as_deref())?;
        Ok(Keeping {
            count: Some(found.written.saturating_add(1)),
            version: Some((self.versions_of(owner)?, slot, value)),
        })
    }
}
