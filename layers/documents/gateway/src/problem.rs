//! Errors as problems (RFC 9457): a fixed list of types.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage_documents::{Error, Kind, Tag};
use storage_sdk::{Kind as Of, Outcome, Retry};

use crate::content::PATCH_TYPES;
use crate::words;

/// The header of the types of patches.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// A type of problem: its name, status and title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    name: &'static str,
    status: StatusCode,
    title: &'static str,
}

macro_rules! types {
    ($($constant:ident $name:literal $status:ident $title:literal;)*) => {
        $(
            #[doc = concat!("The type `", $name, "`: ", $title, ".")]
            pub const $constant: Type = Type {
                name: $name,
                status: StatusCode::$status,
                title: $title,
            };
        )*

        /// All types.
        pub const ALL: &[Type] = &[$($constant),*];
    };
}

types! {
    UNAUTHORIZED "unauthorized" UNAUTHORIZED "a token is needed";
    NO_RESOURCE "no-resource" NOT_FOUND "no such resource";
    METHOD "method" METHOD_NOT_ALLOWED "the resource has other methods";
    PATH "path" BAD_REQUEST "the path names no document";
    REQUEST "request" BAD_REQUEST "the request can't be used";
    PATH_TOO_LONG "path-too-long" URI_TOO_LONG "the path is too long";
    BODY "body" BAD_REQUEST "the body can't be used";
    TOO_LARGE "too-large" PAYLOAD_TOO_LARGE "the body is too large";
    MEDIA_TYPE "media-type" UNSUPPORTED_MEDIA_TYPE "the type of the body is not known";
    ENCODING "content-encoding" UNSUPPORTED_MEDIA_TYPE "the encoding of the body is not known";
    NOT_ACCEPTABLE "not-acceptable" NOT_ACCEPTABLE "the caller accepts no form of the answer";
    MISSING "missing" NOT_FOUND "no such document";
    DELETED "deleted" GONE "the document was deleted by then";
    CONDITION "condition" PRECONDITION_FAILED "a condition does not hold";
    CONTENDED "contended" SERVICE_UNAVAILABLE "other writers were faster";
    STORAGE "storage" SERVICE_UNAVAILABLE "the storage can't answer now";
    REFUSED "refused" INTERNAL_SERVER_ERROR "the storage refuses the call, and would refuse a repeat";
    CORRUPT "corrupt" INTERNAL_SERVER_ERROR "the stored document can't be read";
    UNFIT "unfit" CONFLICT "the change does not fit the document";
    PROTECTED "field-is-protected" CONFLICT "the id of an item can't be changed";
    COLLECTION "collection" CONFLICT "the call is not one for a collection";
    KEY "idempotency-key" BAD_REQUEST "the idempotency key can't be used";
    KEY_REUSED "idempotency-key-reused" UNPROCESSABLE_ENTITY "the idempotency key was used for another request";
    QUERY "query" BAD_REQUEST "the query can't be used";
    QUERY_LIMIT "query-limit" UNPROCESSABLE_ENTITY "the query reads too many items";
    BUSY "busy" SERVICE_UNAVAILABLE "too many sorts or calls with a key run now";
    TOO_OLD "cursor-too-old" GONE "changes behind the cursor were dropped";
    TICKET "ticket" FORBIDDEN "the ticket is for another feed";
    TICKETS "tickets" TOO_MANY_REQUESTS "too many tickets are in use";
    STEP "step" UNPROCESSABLE_ENTITY "the changes can't be made in one step";
    UNFINISHED "unfinished" SERVICE_UNAVAILABLE "the batch ended before this request";
    OVERLOADED "overloaded" TOO_MANY_REQUESTS "too many changes have not landed yet";
}

impl Type {
    /// The name of the type in an answer.
    #[must_use]
    pub fn urn(self) -> String {
        format!("urn:document-gateway:{}", self.name)
    }
}

/// An answer that says why a request failed.
#[derive(Debug, Clone)]
pub struct Problem {
    of: Type,
    detail: Box<str>,
    etag: Option<Tag>,
    /// Whether the change was made.
    outcome: Outcome,
    allow: Option<&'static str>,
    /// The seconds before a repeat, if the status is one that passes.
    pause: u64,
    /// The failure of the storage, in words for the log.
    inside: Option<Box<Error>>,
}

/// The seconds before a repeat, unless the storage says otherwise.
const PAUSE: u64 = 1;

impl Problem {
    /// A request whose end nobody waited for. Its change may or may not be made.
    #[must_use]
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Unknown,
            ..Self::new(STORAGE, detail)
        }
    }

    /// A request whose change is made, but not as safe as it asked for.
    #[must_use]
    pub fn applied(detail: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Applied,
            ..Self::new(STORAGE, detail)
        }
    }

    /// A request of which a part may be carried out.
    #[must_use]
    pub fn in_part(self) -> Self {
        let outcome = Outcome::Unknown;
        Self { outcome, ..self }
    }

    /// The problem of the request at this place of a batch.
    #[must_use]
    pub fn at(self, place: usize) -> Self {
        let detail = format!("requests/{place}: {}", self.detail).into();
        Self { detail, ..self }
    }

    /// Names the methods that the resource has.
    #[must_use]
    pub fn allow(self, methods: &'static str) -> Self {
        let allow = Some(methods);
        Self { allow, ..self }
    }

    /// A problem of this type.
    #[must_use]
    pub fn new(of: Type, detail: impl Into<String>) -> Self {
        Self {
            of,
            detail: detail.into().into(),
            etag: None,
            outcome: Outcome::NotApplied,
            allow: None,
            pause: PAUSE,
            inside: None,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let of = match error.kind() {
            Kind::Path => PATH,
            Kind::PathTooLong => PATH_TOO_LONG,
            Kind::Body => BODY,
            Kind::BodyTooLarge => TOO_LARGE,
            Kind::Tags => REQUEST,
            Kind::Step => STEP,
            Kind::Missing => MISSING,
            Kind::Deleted => DELETED,
            Kind::Condition(_) => CONDITION,
            Kind::Contended => CONTENDED,
            Kind::Corrupt => CORRUPT,
            Kind::Unfit => UNFIT,
            Kind::Protected => PROTECTED,
            Kind::Collection => COLLECTION,
            Kind::Key => KEY,
            Kind::KeyReused => KEY_REUSED,
            Kind::Query => QUERY,
            Kind::QueryLimit => QUERY_LIMIT,
            Kind::Busy => BUSY,
            Kind::Storage(error) => of_storage(error.kind(), error.outcome()),
            _ => STORAGE,
        };
        let words = words::of(error.kind());
        let mut problem = match words {
            Some(words) => Self::new(of, words),
            None => Self::new(of, error.to_string()),
        };
        match error.kind() {
            Kind::Condition(Some(tag)) => problem.etag = Some(*tag),
            Kind::Unsafe => problem.outcome = Outcome::Applied,
            Kind::Storage(error) => {
                problem.outcome = error.outcome();
                if let Retry::After(pause) = error.retry() {
                    problem.pause = pause.as_secs().max(PAUSE);
                }
            }
            _ => {}
        }
        let place = error.place();
        problem.inside = words.map(|_| Box::new(error));
        match place {
            Some(place) => problem.at(place),
            None => problem,
        }
    }
}

/// The type of a failure of the storage. A repeat later helps against those of status 503 and 429,
/// once a server is back or an operator has acted. It never helps against the others.
fn of_storage(kind: Of, outcome: Outcome) -> Type {
    match kind {
        // The storage can't give this durability at all.
        Of::Durability if outcome == Outcome::NotApplied => REQUEST,
        Of::HotUnavailable
        | Of::ColdUnavailable
        | Of::OutOfMemory
        | Of::UnsafeEviction
        | Of::Durability
        | Of::Timeout
        | Of::Denied
        | Of::Unpaired
        | Of::NotLanded
        | Of::Held
        | Of::Fenced
        | Of::Closing
        | Of::Closed => STORAGE,
        Of::Overloaded => OVERLOADED,
        Of::Conflict | Of::Contended => CONTENDED,
        Of::CursorTooOld | Of::CursorForeign => TOO_OLD,
        // The numbers of an owner are those that this layer wrote.
        Of::Corrupt | Of::TooNew | Of::NotInteger | Of::Overflow | Of::OutOfBounds => CORRUPT,
        Of::Invalid | Of::Rejected => REFUSED,
        _ => STORAGE,
    }
}

/// What an answer says of the outcome, if the change was not plainly not made.
fn outcome(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::NotApplied => None,
        Outcome::Applied => Some("applied"),
        Outcome::Unknown => Some("unknown"),
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

impl Problem {
    /// What happened, for callers.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What happened, for the log.
    pub(crate) fn cause(&self) -> String {
        let inside = self.inside.as_ref().map(ToString::to_string);
        inside.unwrap_or_else(|| self.detail.to_string())
    }

    /// The body of the answer. A read changes nothing, so it has no outcome.
    pub(crate) fn text(&self, id: &str, is_read: bool) -> String {
        let body = Body {
            r#type: self.of.urn(),
            title: self.of.title,
            status: self.of.status.as_u16(),
            detail: &self.detail,
            request_id: id,
            outcome: outcome(self.outcome).filter(|_| !is_read),
        };
        // All parts can be written.
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// The head alone. The body has the id of the request, so `requests` writes it.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.of.status.into_response();
        let headers = response.headers_mut();
        let of_problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, of_problem);
        let etag = self.etag.map(|tag| tag.to_string());
        if let Some(tag) = etag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
            headers.insert(header::ETAG, tag);
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        match self.of.status {
            StatusCode::UNSUPPORTED_MEDIA_TYPE if self.of == ENCODING => {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let types = HeaderValue::from_str(&PATCH_TYPES.join(", "));
                headers.extend(types.map(|types| (ACCEPT_PATCH, types)));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                let pause = HeaderValue::from(self.pause);
                headers.insert(header::RETRY_AFTER, pause);
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes by itself, or once an operator has acted.
    const PASSING: [Of; 16] = [
        Of::HotUnavailable,
        Of::ColdUnavailable,
        Of::OutOfMemory,
        Of::UnsafeEviction,
        Of::Timeout,
        Of::Denied,
        Of::Unpaired,
        Of::NotLanded,
        Of::Held,
        Of::Fenced,
        Of::Closing,
        Of::Closed,
        Of::Overloaded,
        Of::Conflict,
        Of::Contended,
        Of::Durability,
    ];
    /// What no repeat cures.
    const LASTING: [Of; 9] = [
        Of::Invalid,
        Of::Rejected,
        Of::NotInteger,
        Of::Overflow,
        Of::OutOfBounds,
        Of::Corrupt,
        Of::TooNew,
        Of::CursorTooOld,
        Of::CursorForeign,
    ];

    /// The kinds that the SDK's source names.
    fn kinds() -> Vec<String> {
        let source = include_str!("../../../../storage-sdk/src/error.rs");
        let (_, kinds) = source.split_once("pub enum Kind {").unwrap();
        let (kinds, _) = kinds.split_once("\n}").unwrap();
        let names = kinds
            .lines()
            .filter_map(|line| line.trim().strip_suffix(','));
        let names = names.filter(|name| name.chars().all(char::is_alphabetic));
        names.map(str::to_owned).collect()
    }

    #[test]
    fn only_a_failure_that_passes_asks_for_a_repeat() {
        let is_passing = |kind| {
            let of = of_storage(kind, Outcome::Unknown);
            let answer = Problem::new(of, "").into_response();
            answer.headers().contains_key(header::RETRY_AFTER)
        };
        for kind in PASSING {
            assert!(is_passing(kind), "{kind:?}");
        }
        for kind in LASTING {
            assert!(!is_passing(kind), "{kind:?}");
        }
        assert_eq!(of_storage(Of::Durability, Outcome::NotApplied), REQUEST);
        let tried = PASSING.iter().chain(&LASTING);
        let mut tried: Vec<String> = tried.map(|kind| format!("{kind:?}")).collect();
        let mut all = kinds();
        tried.sort_unstable();
        all.sort_unstable();
        assert_eq!(tried, all, "each kind of the SDK has its place");
    }
}
