//! Errors as problems (RFC 9457): a fixed list of types.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage_documents::{Error, Kind};
use storage_sdk::Outcome;

use crate::content::PATCH_TYPES;

/// The header of the types of patches.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// A type of problem: its name, status and title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    name: &'static str,
    status: StatusCode,
    title: &'static str,
}

const fn of(name: &'static str, status: StatusCode, title: &'static str) -> Type {
    Type {
        name,
        status,
        title,
    }
}

/// The token is missing or wrong.
pub const UNAUTHORIZED: Type = of(
    "unauthorized",
    StatusCode::UNAUTHORIZED,
    "a token is needed",
);
/// No resource has this path.
pub const NO_RESOURCE: Type = of("no-resource", StatusCode::NOT_FOUND, "no such resource");
/// The resource has other methods.
pub const METHOD: Type = of(
    "method",
    StatusCode::METHOD_NOT_ALLOWED,
    "the resource has other methods",
);
/// The path names no document.
pub const PATH: Type = of(
    "path",
    StatusCode::BAD_REQUEST,
    "the path names no document",
);
/// A header or a parameter can't be used.
pub const REQUEST: Type = of(
    "request",
    StatusCode::BAD_REQUEST,
    "the request can't be used",
);
const PATH_TOO_LONG: Type = of(
    "path-too-long",
    StatusCode::URI_TOO_LONG,
    "the path is too long",
);
const BODY: Type = of("body", StatusCode::BAD_REQUEST, "the body can't be used");
/// The body is too large.
pub const TOO_LARGE: Type = of(
    "too-large",
    StatusCode::PAYLOAD_TOO_LARGE,
    "the body is too large",
);
/// The type of the body is not known.
pub const MEDIA_TYPE: Type = of(
    "media-type",
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "the type of the body is not known",
);
/// There is no such document.
pub const MISSING: Type = of("missing", StatusCode::NOT_FOUND, "no such document");
const CONDITION: Type = of(
    "condition",
    StatusCode::PRECONDITION_FAILED,
    "a condition does not hold",
);
const CONTENDED: Type = of(
    "contended",
    StatusCode::SERVICE_UNAVAILABLE,
    "other writers were faster",
);
const STORAGE: Type = of(
    "storage",
    StatusCode::SERVICE_UNAVAILABLE,
    "the storage can't answer now",
);
const CORRUPT: Type = of(
    "corrupt",
    StatusCode::INTERNAL_SERVER_ERROR,
    "the stored document can't be read",
);

/// The change does not fit the document.
const UNFIT: Type = of(
    "unfit",
    StatusCode::CONFLICT,
    "the change does not fit the document",
);
const PROTECTED: Type = of(
    "field-is-protected",
    StatusCode::CONFLICT,
    "the id of an item can't be changed",
);
/// The call is not one for a collection.
pub const COLLECTION: Type = of(
    "collection",
    StatusCode::CONFLICT,
    "the call is not one for a collection",
);
const KEY: Type = of(
    "idempotency-key",
    StatusCode::BAD_REQUEST,
    "the idempotency key can't be used",
);
const KEY_REUSED: Type = of(
    "idempotency-key-reused",
    StatusCode::UNPROCESSABLE_ENTITY,
    "the idempotency key was used for another request",
);
/// A filter, a sort or a cursor can't be used.
pub const QUERY: Type = of("query", StatusCode::BAD_REQUEST, "the query can't be used");
const QUERY_LIMIT: Type = of(
    "query-limit",
    StatusCode::UNPROCESSABLE_ENTITY,
    "the query reads too many items",
);
const TOO_OLD: Type = of(
    "cursor-too-old",
    StatusCode::GONE,
    "changes behind the cursor were dropped",
);
const OVERLOADED: Type = of(
    "overloaded",
    StatusCode::TOO_MANY_REQUESTS,
    "too many changes have not landed yet",
);

/// All types.
pub const ALL: [Type; 23] = [
    UNFIT,
    PROTECTED,
    COLLECTION,
    KEY,
    KEY_REUSED,
    QUERY,
    QUERY_LIMIT,
    TOO_OLD,
    OVERLOADED,
    UNAUTHORIZED,
    NO_RESOURCE,
    METHOD,
    PATH,
    REQUEST,
    PATH_TOO_LONG,
    BODY,
    TOO_LARGE,
    MEDIA_TYPE,
    MISSING,
    CONDITION,
    CONTENDED,
    STORAGE,
    CORRUPT,
];

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
    detail: String,
    etag: Option<String>,
    /// Whether the change was made, if that is not plainly no.
    outcome: Option<&'static str>,
    allow: Option<&'static str>,
}

impl Problem {
    /// A request whose end nobody waited for. Its change may or may not be made.
    #[must_use]
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self {
            outcome: outcome(Outcome::Unknown),
            ..Self::new(STORAGE, detail)
        }
    }

    /// A request whose change is made, but not as safe as it asked for.
    #[must_use]
    pub fn applied(detail: impl Into<String>) -> Self {
        Self {
            outcome: outcome(Outcome::Applied),
            ..Self::new(STORAGE, detail)
        }
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
            detail: detail.into(),
            etag: None,
            outcome: None,
            allow: None,
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
            Kind::Missing => MISSING,
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
            Kind::Storage(error) if error.kind() == storage_sdk::Kind::CursorTooOld => TOO_OLD,
            Kind::Storage(error) if error.kind() == storage_sdk::Kind::Overloaded => OVERLOADED,
            // The storage can't give this durability at all.
            Kind::Storage(error)
                if error.kind() == storage_sdk::Kind::Durability
                    && error.outcome() == Outcome::NotApplied =>
            {
                REQUEST
            }
            _ => STORAGE,
        };
        let mut problem = Self::new(of, error.to_string());
        match error.kind() {
            Kind::Condition(Some(tag)) => problem.etag = Some(tag.to_string()),
            Kind::Storage(error) => problem.outcome = outcome(error.outcome()),
            _ => {}
        }
        problem
    }
}

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
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            r#type: self.of.urn(),
            title: self.of.title,
            status: self.of.status.as_u16(),
            detail: &self.detail,
            outcome: self.outcome,
        };
        // All parts can be written.
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (self.of.status, text).into_response();
        let headers = response.headers_mut();
        let of_problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, of_problem);
        if let Some(tag) = self.etag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
            headers.insert(header::ETAG, tag);
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        match self.of.status {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let types = HeaderValue::from_str(&PATCH_TYPES.join(", "));
                headers.extend(types.map(|types| (ACCEPT_PATCH, types)));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}
