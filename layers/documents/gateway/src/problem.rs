//! Errors as problems (RFC 9457): a fixed list of types.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage_documents::{Error, Kind};
use storage_sdk::Outcome;

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

/// All types.
pub const ALL: [Type; 14] = [
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

/// An answer that says why a request failed.
#[derive(Debug, Clone)]
pub struct Problem {
    of: Type,
    detail: String,
    etag: Option<String>,
    /// Whether the change was made, if that is not plainly no.
    outcome: Option<&'static str>,
}

impl Problem {
    /// A problem of this type.
    #[must_use]
    pub fn new(of: Type, detail: impl Into<String>) -> Self {
        Self {
            of,
            detail: detail.into(),
            etag: None,
            outcome: None,
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
            r#type: format!("urn:document-gateway:{}", self.of.name),
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
        match self.of.status {
            StatusCode::SERVICE_UNAVAILABLE => {
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
