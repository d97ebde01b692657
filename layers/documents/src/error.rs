//! Errors, by the way out that a caller has.

use std::fmt;

use crate::Tag;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The cause of an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The path names no document. Correct it.
    Path,
    /// The path is longer than its limit.
    PathTooLong,
    /// The body is no JSON, or not of the form that the call takes. Correct it.
    Body,
    /// The body is larger than its limit.
    BodyTooLarge,
    /// A change does not fit the present document, such as a test of a JSON patch that fails.
    Unfit,
    /// The patch changes the id of an item. Leave the id as it is.
    Protected,
    /// The call is one for a collection, or not for one. The message names the resource to use.
    Collection,
    /// The idempotency key can't be used. Choose another one.
    Key,
    /// The idempotency key was used for another request. Choose a new key.
    KeyReused,
    /// An earlier call of the key has made the change, and it is not as safe yet as this call asks. Send
    /// it again.
    Unsafe,
    /// An earlier call of the key had made the change, and the hot tier lost it before it was as safe as
    /// this call asks. Send it again: it is made anew.
    Lost,
    /// A filter, a sort or a cursor can't be used. Correct it.
    Query,
    /// The query needs more rows than it may read. Narrow it, or raise its limit.
    QueryLimit,
    /// The sorts that run now keep as much as they may together. Try again later.
    Busy,
    /// A text is no list of entity tags. Correct it.
    Tags,
    /// The changes can't be made in one step. Send them one by one, or fewer of them.
    Step,
    /// There is no such document.
    Missing,
    /// The document was deleted at the revision that is asked for. The message names that of the
    /// deletion.
    Deleted,
    /// A condition of the call does not hold. Read the document, and decide again. The tag is that
    /// of the present document. `None` if there is none.
    Condition(Option<Tag>),
    /// Other writers changed the document at each attempt until the deadline. Try again later.
    Contended,
    /// The stored document is none that this layer wrote. An operator has to look at it.
    Corrupt,
    /// The storage failed. Its error says whether the change was applied, and what to do.
    Storage(Box<storage_sdk::Error>),
}

/// The failure of a call. Unless it is of kind [`Storage`](Kind::Storage) or [`Unsafe`](Kind::Unsafe),
/// nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    place: Option<usize>,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            place: None,
        }
    }

    /// The same error, of the change at this place of a step.
    pub(crate) fn at(self, place: usize) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// The cause.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The place of the change in its step, from 0, if the error is about one of several changes.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.place
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl From<storage_sdk::Error> for Error {
    fn from(error: storage_sdk::Error) -> Self {
        Self {
            message: error.to_string(),
            kind: Kind::Storage(Box::new(error)),
            place: None,
        }
    }
}
