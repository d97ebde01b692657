//! The changes that callers ask for, applied to the present body.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use storage_sdk::Bytes;

use crate::collection::ID;
use crate::documents::BODY_BYTES_MAX;
use crate::increment::increment;
use crate::json::Json;
use crate::json_patch::JsonPatch;
use crate::{Error, Kind, Method, Result};

/// A patch of so many bytes is told as it is. A longer one is told only if the whole body is no
/// shorter. So an event has never more bytes than a body can have.
const SHORT_PATCH: usize = 1 << 10;
/// What some programs write before their text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A change of a document or an item.
#[derive(Debug, Clone)]
pub struct Edit(Form);

#[derive(Debug, Clone)]
enum Form {
    Put(Json),
    Merge(Json),
    Patch(JsonPatch),
    Increment(Json),
    Delete,
    /// Deletes a document whose time to live is over.
    End,
}

/// A change of the present body.
#[derive(Debug, Clone)]
pub(crate) struct Edited<'a> {
    pub(crate) method: Method,
    /// The whole body after the change. `None` deletes the document.
    pub(crate) body: Option<Cow<'a, Json>>,
    /// The patch that the event tells, unless it is longer than the body. Without one, it tells the
    /// whole body.
    pub(crate) patch: Option<Json>,
    /// Whether the change is a put, which sets the time to live anew.
    pub(crate) is_put: bool,
}

/// The bodies of a change as text.
pub(crate) struct Texts {
    /// The method that the event tells.
    pub(crate) method: Method,
    /// The whole body.
    pub(crate) body: Option<Box<RawValue>>,
    patch: Option<Box<RawValue>>,
}

impl Texts {
    /// The body of the event.
    pub(crate) fn told(&self) -> Option<&RawValue> {
        self.patch.as_deref().or(self.body.as_deref())
    }

    /// The whole body.
    pub(crate) fn into_body(self) -> Option<Bytes> {
        let text = self.body.map(Box::<str>::from);
        text.map(|text| Bytes::from(text.into_string()))
    }
}

impl Edited<'_> {
    /// Both bodies as text.
    ///
    /// # Errors
    /// `BodyTooLarge`.
    pub(crate) fn texts(&self) -> Result<Texts> {
        let text = |json: &Json| {
            let text = to_raw_value(json);
            text.map_err(|error| Error::new(Kind::Body, error.to_string()))
        };
        let body = self.body.as_deref().map(text).transpose()?;
        if let Some(body) = &body {
            check_size(body.get().len())?;
        }
        let patch = self.patch.as_ref().map(text).transpose()?;
        let whole = body.as_ref().map_or(0, |body| body.get().len());
        let patch = patch.filter(|patch| patch.get().len() <= whole.max(SHORT_PATCH));
        let method = match self.method {
            Method::Patch if patch.is_none() => Method::Put,
            method => method,
        };
        Ok(Texts {
            method,
            body,
            patch,
        })
    }
}

impl Edit {
    /// Creates or replaces. Members that are null are dropped, at every depth.
    ///
    /// # Errors
    /// `Body`: the body is no JSON, or is null. `BodyTooLarge`.
    pub fn put(body: &[u8]) -> Result<Self> {
        let body = parsed(body)?.without_nulls();
        if body == Json::Null {
            let message = "the body is null; delete the document instead";
            return Err(Error::new(Kind::Body, message));
        }
        Ok(Self(Form::Put(body)))
    }

    /// A merge patch (RFC 7396), which must be an object.
    ///
    /// # Errors
    /// `Body`: the body is no JSON object. `BodyTooLarge`.
    pub fn merge(patch: &[u8]) -> Result<Self> {
        let patch = object(
            patch,
            "a merge patch must be an object; put the document to replace it",
        )?;
        Ok(Self(Form::Merge(patch)))
    }

    /// A JSON patch (RFC 6902).
    ///
    /// # Errors
    /// `Body`: the body is no JSON patch. `BodyTooLarge`.
    pub fn patch(patch: &[u8]) -> Result<Self> {
        let patch = JsonPatch::parse(&parsed(patch)?)
            .map_err(|error| Error::new(Kind::Body, error.to_string()))?;
        Ok(Self(Form::Patch(patch)))
    }

    /// Adds to numbers: `{"gold":5}` adds 5 to the member `gold`. A member that is not there counts
    /// as 0.
    ///
    /// # Errors
    /// `Body`: the body is no JSON object. `BodyTooLarge`.
    pub fn increment(patch: &[u8]) -> Result<Self> {
        let patch = object(patch, "an increment must be an object with numbers")?;
        Ok(Self(Form::Increment(patch)))
    }

    /// Deletes.
    #[must_use]
    pub fn delete() -> Self {
        Self(Form::Delete)
    }

    /// Deletes a document that has ended by itself.
    pub(crate) fn end() -> Self {
        Self(Form::End)
    }

    /// Whether the change is the end of a document by itself.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.0, Form::End)
    }

    /// The put of an object with an id.
    pub(crate) fn with_id(self, id: &str) -> Result<Self> {
        let Form::Put(body) = self.0 else {
            return Ok(self);
        };
        let body = body.with_member(ID, Json::Text(id.to_owned()));
        let no_object = || Error::new(Kind::Body, "a body that is posted is an object");
        Ok(Self(Form::Put(body.ok_or_else(no_object)?)))
    }

    /// Whether the change can make a document that is not there.
    pub(crate) fn creates(&self) -> bool {
        matches!(self.0, Form::Put(_))
    }

    /// The change of a present body. `None` stands for no document.
    ///
    /// # Errors
    /// `Unfit`: the change does not fit the body. `Body`: as [`Edit::put`].
    pub(crate) fn of(&self, present: Option<Json>) -> Result<Edited<'_>> {
        let present = present.unwrap_or(Json::Null);
        let patched = |body: Json, patch: Json| Edited {
            method: Method::Patch,
            body: Some(Cow::Owned(body.without_nulls())),
            patch: Some(patch),
            is_put: false,
        };
        Ok(match &self.0 {
            Form::Put(body) => Edited {
                method: Method::Put,
                body: Some(Cow::Borrowed(body)),
                patch: None,
                is_put: true,
            },
            Form::Merge(patch) => patched(present.merged(patch.clone()), patch.clone()),
            Form::Patch(patch) => {
                let before = present.clone();
                let after = patch.apply(present, BODY_BYTES_MAX).map_err(unfit)?;
                told_as_patch(&before, after.without_nulls())?
            }
            Form::Increment(patch) => {
                let (after, told) = increment(present, patch).map_err(unfit)?;
                patched(after, told)
            }
            Form::Delete | Form::End => Edited {
                method: Method::Delete,
                body: None,
                patch: None,
                is_put: false,
            },
        })
    }
}

/// A change that the feed tells as the merge patch between two bodies. If there is none, it tells
/// the new body.
fn told_as_patch(before: &Json, after: Json) -> Result<Edited<'static>> {
    if after == Json::Null {
        let message = "the patch leaves null; delete the document instead";
        return Err(Error::new(Kind::Unfit, message));
    }
    let patch = before.difference(&after);
    Ok(Edited {
        method: if patch.is_some() {
            Method::Patch
        } else {
            Method::Put
        },
        patch,
        body: Some(Cow::Owned(after)),
        is_put: false,
    })
}

fn unfit(error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Unfit, error.to_string())
}

fn object(body: &[u8], otherwise: &str) -> Result<Json> {
    match parsed(body)? {
        object @ Json::Object(_) => Ok(object),
        _ => Err(Error::new(Kind::Body, otherwise)),
    }
}

/// A text without the byte order mark that some programs write before it.
#[must_use]
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Parses a body within its limit.
pub(crate) fn parsed(body: &[u8]) -> Result<Json> {
    check_size(body.len())?;
    Json::parse(without_mark(body))
        .map_err(|error| Error::new(Kind::Body, format!("the body is no JSON: {error}")))
}

pub(crate) fn check_size(bytes: usize) -> Result<()> {
    if bytes <= BODY_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "the body has {bytes} bytes; the limit is {BODY_BYTES_MAX}, so split it into several documents"
    );
    Err(Error::new(Kind::BodyTooLarge, message))
}
