//! The fields of a document's owner.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::{Bytes, Record, Timestamp, Version};

use crate::documents::Document;
use crate::{Error, Kind, Result, Tag};

/// The owner's logic type.
pub(crate) const LOGIC_TYPE: &str = "doc";
/// The field of the body. A deleted document has none.
pub(crate) const BODY: &str = "d";
/// The field of the revision. It goes on after the document was deleted.
pub(crate) const REVISION: &str = "rev";

/// The value of [`BODY`]: readable by SQL.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The form of this value.
    v: u32,
    /// When the document was created, and when it was changed last: milliseconds since 1970.
    c: u64,
    m: u64,
    b: Box<RawValue>,
}

const FORM: u32 = 1;

/// The state of a path: its document, if it has one, and what the next write builds on.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) document: Option<Document>,
    pub(crate) revision: u64,
    pub(crate) version: Version,
}

impl Found {
    pub(crate) fn of(record: &Record) -> Result<Self> {
        let revision = record.int(REVISION)?.unwrap_or_default();
        let revision = u64::try_from(revision).map_err(|_| negative(revision))?;
        let mut found = Self {
            document: None,
            revision,
            version: record.version(),
        };
        if let Some(value) = record.get(BODY) {
            found.document = Some(found.document_of(value)?);
        }
        Ok(found)
    }

    fn document_of(&self, value: &Bytes) -> Result<Document> {
        let stored: Stored = serde_json::from_slice(value).map_err(|error| unreadable(&error))?;
        Ok(Document {
            body: Bytes::from(Box::<str>::from(stored.b).into_string()),
            revision: self.revision,
            version: self.version,
            created: Timestamp(stored.c.saturating_mul(1_000)),
            modified: Timestamp(stored.m.saturating_mul(1_000)),
        })
    }

    /// The tag of the document, if there is one.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.document.as_ref().map(Document::tag)
    }
}

/// The value of [`BODY`] for a body that is JSON.
pub(crate) fn value_of(created: Timestamp, modified: Timestamp, body: &str) -> Result<Vec<u8>> {
    let stored = Stored {
        v: FORM,
        c: created.0 / 1_000,
        m: modified.0 / 1_000,
        b: RawValue::from_string(body.to_owned()).map_err(|error| unreadable(&error))?,
    };
    serde_json::to_vec(&stored).map_err(|error| unreadable(&error))
}

fn negative(revision: i64) -> Error {
    let message = format!("the document's revision is {revision}, which this layer never wrote");
    Error::new(Kind::Corrupt, message)
}

fn unreadable(error: &serde_json::Error) -> Error {
    let message =
        format!("field {BODY:?} of the document's owner is none that this layer wrote: {error}");
    Error::new(Kind::Corrupt, message)
}
