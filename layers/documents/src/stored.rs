//! The fields of the owners of documents, items and collections.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::{Bytes, Record, Timestamp, Version};

use crate::documents::Document;
use crate::history::written;
use crate::{Error, Kind, Result, Tag};

/// The logic type of documents.
pub(crate) const DOCUMENT: &str = "doc";
/// The logic type of items.
pub(crate) const ITEM: &str = "item";
/// The logic type of the heads of collections.
pub(crate) const HEAD: &str = "head";
/// The logic type of entries of idempotency keys.
pub(crate) const KEY: &str = "key";
/// The logic type of kept versions.
pub(crate) const HISTORY: &str = "hist";
/// The field of the body. A deleted document has none.
pub(crate) const BODY: &str = "d";
/// The field of the revision. It goes on after the document was deleted.
pub(crate) const REVISION: &str = "rev";

/// The value of [`BODY`]: readable by SQL.
#[derive(Serialize, Deserialize)]
struct StoredBody {
    /// The form of this value.
    v: u32,
    /// When the document was created, and when it was changed last: milliseconds since 1970.
    c: u64,
    m: u64,
    /// When the document ends: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<u64>,
    b: Box<RawValue>,
}

const FORM: u32 = 1;

/// The state of a path: its document, if it has one, and what the next write builds on.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathState {
    pub(crate) document: Option<Document>,
    /// Whether a body is stored. It may have ended by its time to live.
    pub(crate) is_stored: bool,
    pub(crate) revision: u64,
    pub(crate) version: Version,
    /// The number of versions that were kept so far.
    pub(crate) written: u64,
}

impl PathState {
    /// The state that a record shows at a moment.
    pub(crate) fn of(record: &Record, now: Timestamp) -> Result<Self> {
        let mut found = Self {
            document: None,
            is_stored: false,
            revision: counter(record, REVISION)?.unwrap_or_default(),
            version: record.version(),
            written: written(record)?,
        };
        if let Some(value) = record.get(BODY) {
            let document = document_of(value, found.revision, found.version)?;
            found.is_stored = true;
            found.document = Some(document).filter(|document| !document.has_ended(now));
        }
        Ok(found)
    }

    /// The tag of the document, if there is one.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.document.as_ref().map(Document::tag)
    }
}

/// The document in the value of [`BODY`].
pub(crate) fn document_of(value: &Bytes, revision: u64, version: Version) -> Result<Document> {
    let stored: StoredBody = serde_json::from_slice(value).map_err(|error| unreadable(&error))?;
    let moment = |millis: u64| Timestamp(millis.saturating_mul(1_000));
    Ok(Document {
        body: Bytes::from(Box::<str>::from(stored.b).into_string()),
        revision,
        version,
        created: moment(stored.c),
        modified: moment(stored.m),
        ends: stored.x.map(moment),
    })
}

/// The times of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) created: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) ends: Option<Timestamp>,
}

/// The value of [`BODY`].
pub(crate) fn value_of(times: Times, body: &RawValue) -> Result<Vec<u8>> {
    let stored = StoredBody {
        v: FORM,
        c: times.created.0 / 1_000,
        m: times.modified.0 / 1_000,
        x: times.ends.map(|ends| ends.0 / 1_000),
        b: body.to_owned(),
    };
    serde_json::to_vec(&stored).map_err(|error| unreadable(&error))
}

/// A number that only this layer writes, and that never falls below 0.
pub(crate) fn counter(record: &Record, field: &str) -> Result<Option<u64>> {
    let number = record.int(field)?;
    let negative = |number: i64| {
        let message = format!("the field {field:?} is {number}, which this layer never wrote");
        Error::new(Kind::Corrupt, message)
    };
    let read = |number: i64| u64::try_from(number).map_err(|_| negative(number));
    number.map(read).transpose()
}

fn unreadable(error: &serde_json::Error) -> Error {
    let message =
        format!("field {BODY:?} of the document's owner is none that this layer wrote: {error}");
    Error::new(Kind::Corrupt, message)
}
