//! Kept versions: the last bodies of a document, beside it.
//!
//! Each change writes the new body into the next slot of a ring, in the same step. So a version is
//! kept if and only if its change was made. It costs the bytes of each kept body, in both tiers.
//!
//! Versions are numbered. A change that keeps none leaves its number out, so a hole is seen: a
//! gateway can run without kept versions for a while, or keep fewer.
//!
//! Writers of items in one collection wait for each other if versions are kept, since each version
//! has the collection's revision.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::{Bytes, Record, Timestamp, Version};

use crate::documents::Document;
use crate::stored::counter;
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
struct Kept {
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

    /// The fields that keep a version beside the body.
    pub(crate) fn keep(
        &self,
        written: u64,
        (revision, created, now): (u64, Timestamp, Timestamp),
        body: Option<&RawValue>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let unwritable = |error: serde_json::Error| Error::new(Kind::Body, error.to_string());
        let kept = Kept {
            s: written,
            r: revision,
            m: now.0 / 1_000,
            c: created.0 / 1_000,
            b: body.map(ToOwned::to_owned),
        };
        let value = serde_json::to_vec(&kept).map_err(unwritable)?;
        Ok(vec![(self.slot(written), value), next(written)])
    }

    /// The version that was the present one at a revision.
    fn find(&self, record: &Record, wanted: u64, now: Timestamp) -> Result<Option<Document>> {
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
        let is_old = |next: &Kept| {
            let replaced = Timestamp(next.m.saturating_mul(1_000));
            self.age.is_some_and(|age| now.since(replaced) > age)
        };
        // A version between the two was not kept, and may be the one that is wanted.
        let is_hole = match next {
            Some(next) => next.s != kept.s.saturating_add(1),
            None => written(record)? != kept.s.saturating_add(1),
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

/// The field that counts one more version.
fn next(written: u64) -> (String, Vec<u8>) {
    let next = written.saturating_add(1).to_string();
    (WRITTEN.to_owned(), next.into_bytes())
}

/// The fields of a change whose version is not kept.
pub(crate) fn left_out(written: u64) -> Vec<(String, Vec<u8>)> {
    match written {
        0 => Vec::new(),
        _ => vec![next(written)],
    }
}

fn read(value: &Bytes) -> Result<Kept> {
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
    /// `Deleted`: it was deleted by then. `Query`: no versions of the path are kept. `Storage`: the tiers can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn get_revision(&self, path: &Path, revision: u64) -> Result<Option<Document>> {
        let Some(history) = self.history_of(path) else {
            let message = format!("no versions of {path} are kept; see --history");
            return Err(Error::new(Kind::Query, message));
        };
        let (owner, present) = match path.place() {
            Place::Document => {
                let owner = self.owner(path)?;
                let present = self.find(&owner).await?.revision;
                (owner, present)
            }
            Place::Item { collection, id } => {
                let head = self.head(&collection).await?;
                let owner = self.item_owner(&collection, head.present(), &id)?;
                (owner, head.revision)
            }
            Place::Collection => return Ok(None),
        };
        if revision > present {
            return Ok(None);
        }
        let slots = (0..history.versions).map(|slot| history.slot(slot.into()));
        let fields: Vec<String> = slots.chain([WRITTEN.to_owned()]).collect();
        let record = owner.get(fields.iter().map(String::as_str)).await?;
        history.find(&record, revision, self.clock.now())
    }
}
