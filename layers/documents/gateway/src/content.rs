//! The methods of `/content/{path}`.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path as Segment, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use storage_documents::condition::Tags;
use storage_documents::{Call, Changed, Conditions, Document, Path, Tag};
use storage_sdk::Durability;

use crate::problem::{self, Problem};
use crate::routes::Shared;

/// The header of the revision.
const REVISION: HeaderName = HeaderName::from_static("revision");
/// The header that says how safe a change must be before it is answered.
const WAIT: HeaderName = HeaderName::from_static("hyper-storage-wait");
/// The time to wait for that.
const PATIENCE: Duration = Duration::from_secs(10);
/// The types of merge patches.
const PATCH_TYPES: &str = "application/merge-patch+json, application/json";

type Body = Result<Bytes, BytesRejection>;

/// The document, or 304 if the caller has it already.
///
/// # Errors
/// The document is missing, a condition does not hold, or the storage can't answer.
pub async fn get(
    State(shared): State<Shared>,
    Segment(path): Segment<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = Path::new(&path)?;
    let conditions = conditions(&headers)?;
    let found = shared.documents.get(&path).await?;
    let tag = found.as_ref().map(Document::tag);
    if tag.is_some() && conditions.is_unchanged(tag) {
        let only_match = Conditions {
            if_none_match: None,
            ..conditions
        };
        only_match.check(tag)?;
        return Ok(with_tag(StatusCode::NOT_MODIFIED.into_response(), tag));
    }
    conditions.check(tag)?;
    let Some(document) = found else {
        let message = format!("there is no document {path}");
        return Err(Problem::new(problem::MISSING, message));
    };
    let json = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    let response = ([json], axum::body::Body::from(document.body.clone())).into_response();
    Ok(with_revision(with_tag(response, tag), document.revision))
}

/// Creates or replaces the document.
///
/// # Errors
/// The body is no JSON, a condition does not hold, or the storage can't answer.
pub async fn put(
    State(shared): State<Shared>,
    Segment(path): Segment<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (path, call) = (Path::new(&path)?, call(&headers)?);
    let changed = shared.documents.put(&path, &read(body)?, &call).await?;
    let status = if changed.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(answer(status, &path, &changed))
}

/// Applies a merge patch to the document.
///
/// # Errors
/// As [`put`]. The document is missing, or the type of the patch is not known.
pub async fn patch(
    State(shared): State<Shared>,
    Segment(path): Segment<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (path, call) = (Path::new(&path)?, call(&headers)?);
    check_patch_type(&headers)?;
    let changed = shared.documents.patch(&path, &read(body)?, &call).await?;
    Ok(answer(StatusCode::OK, &path, &changed))
}

/// Deletes the document.
///
/// # Errors
/// The document is missing, a condition does not hold, or the storage can't answer.
pub async fn delete(
    State(shared): State<Shared>,
    Segment(path): Segment<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (path, call) = (Path::new(&path)?, call(&headers)?);
    let changed = shared.documents.delete(&path, &call).await?;
    Ok(answer(StatusCode::OK, &path, &changed))
}

fn read(body: Body) -> Result<Bytes, Problem> {
    body.map_err(|rejected| {
        let of = match rejected.status() {
            StatusCode::PAYLOAD_TOO_LARGE => problem::TOO_LARGE,
            _ => problem::REQUEST,
        };
        Problem::new(of, rejected.body_text())
    })
}

fn check_patch_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let given = given.unwrap_or("application/json");
    let given = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if PATCH_TYPES.split(", ").any(|known| known == given) {
        return Ok(());
    }
    Err(Problem::new(
        problem::MEDIA_TYPE,
        format!("{given:?} is no type of a patch; send one of {PATCH_TYPES}"),
    ))
}

/// The conditions and the durability that a request asks for.
fn call(headers: &HeaderMap) -> Result<Call, Problem> {
    Ok(Call {
        conditions: conditions(headers)?,
        durability: durability(headers)?,
        ..Call::default()
    })
}

fn conditions(headers: &HeaderMap) -> Result<Conditions, Problem> {
    Ok(Conditions {
        if_match: tags(headers, &header::IF_MATCH)?,
        if_none_match: tags(headers, &header::IF_NONE_MATCH)?,
    })
}

/// The tags of a header, which can come in several lines.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str();
        lines.push(text.map_err(|_| Problem::new(problem::REQUEST, format!("{name} is no text")))?);
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let tags = Tags::parse(&lines.join(", "));
    let tags = tags.map_err(|error| Problem::new(problem::REQUEST, format!("{name}: {error}")))?;
    Ok(Some(tags))
}

fn durability(headers: &HeaderMap) -> Result<Durability, Problem> {
    let Some(wanted) = headers.get(WAIT) else {
        return Ok(Durability::Cached);
    };
    match wanted.as_bytes() {
        b"cached" => Ok(Durability::Cached),
        b"landed" | b"full" => Ok(Durability::Landed { timeout: PATIENCE }),
        _ => {
            let message = format!("{WAIT} is {wanted:?}; send cached or landed");
            Err(Problem::new(problem::REQUEST, message))
        }
    }
}

/// The body of the answer to a change.
#[derive(Serialize)]
struct Told<'a> {
    transaction_id: String,
    path: &'a str,
    revision: u64,
}

fn answer(status: StatusCode, path: &Path, changed: &Changed) -> Response {
    let (partition, place) = changed.event;
    let told = Told {
        transaction_id: format!("{partition}.{}.{}", place.epoch.0, place.number),
        path: path.as_str(),
        revision: changed.revision,
    };
    let json = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    let text = serde_json::to_string(&told).unwrap_or_default();
    let response = (status, [json], text).into_response();
    with_revision(
        with_tag(response, Some(Tag::of(changed.version))),
        changed.revision,
    )
}

fn with_tag(mut response: Response, tag: Option<Tag>) -> Response {
    let value = tag.and_then(|tag| HeaderValue::from_str(&tag.to_string()).ok());
    if let Some(value) = value {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

fn with_revision(mut response: Response, revision: u64) -> Response {
    response
        .headers_mut()
        .insert(REVISION, HeaderValue::from(revision));
    response
}
