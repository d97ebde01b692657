//! The methods of `/content/{path}`.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage_documents::edit::without_mark;
use storage_documents::event::id_of;
use storage_documents::feed::State as Known;
use storage_documents::{Call, Changed, Conditions, Edit, Path, Place, Tag};
use storage_sdk::Durability;
use tokio::time::{Instant, sleep};

use crate::body::read;
use crate::headers::{self, Head, conditions};
use crate::parameters::{Parameters, PathText};
use crate::prefer::{APPLIED, Return};
use crate::problem::{self, Problem};
use crate::shared::Shared;
use crate::{accept, list, methods};

/// The header of the revision.
pub(crate) const REVISION: HeaderName = HeaderName::from_static("revision");
/// The header of the number of items.
pub(crate) const COUNT: HeaderName = HeaderName::from_static("count");
/// The header of the transaction's id.
const TRANSACTION: HeaderName = HeaderName::from_static("hyper-storage-transaction");
/// The header of an answer that repeats an earlier one.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How often the end of a wait is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The types of patches.
pub(crate) const PATCH_TYPES: [&str; 5] = [
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/vnd.hyper-storage-content+json",
    "application/vnd.hyper-storage-increment+json",
];

/// The document or item, a page of the collection, or 304 if the caller has it already.
///
/// # Errors
/// The document is missing, a condition does not hold, or the storage can't answer.
pub async fn get(
    State(shared): State<Shared>,
    PathText(path): PathText,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = Path::new(&path)?;
    let query = Parameters::parse(query.as_deref())?;
    let response = match path.place() {
        Place::Collection => list::page(&shared, &path, query, &headers).await,
        _ => document(&shared, &path, query, &headers).await,
    };
    response.map(revalidated)
}

/// Caches ask again each time, with the tag.
fn revalidated(mut response: Response) -> Response {
    let always = HeaderValue::from_static("no-cache");
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, always);
    response
}

/// The document or item.
async fn document(
    shared: &Shared,
    path: &Path,
    mut query: Parameters,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let revision = query.number(&["revision"])?;
    query.finish("a document takes revision")?;
    accept::best(headers, &[accept::JSON])?;
    let conditions = conditions(headers)?;
    if let Some(revision) = revision {
        return kept(shared, path, revision).await;
    }
    let found = shared.documents.get(path).await?;
    // Without a document there is nothing that a condition could be about.
    let document = found.ok_or_else(|| missing(path))?;
    let tag = Some(document.tag());
    if let Some(unchanged) = unchanged(&conditions, tag)? {
        return Ok(unchanged);
    }
    let response = json(StatusCode::OK, document.body.clone());
    Ok(with_revision(with_tag(response, tag), document.revision))
}

/// A document or item as it was at a revision. It has no tag, so conditions say nothing about it.
async fn kept(shared: &Shared, path: &Path, revision: usize) -> Result<Response, Problem> {
    let revision = u64::try_from(revision).unwrap_or(u64::MAX);
    let found = shared.documents.get_revision(path, revision).await?;
    let not_kept = || {
        let message =
            format!("{path} was not there at revision {revision}, or that version is not kept");
        Problem::new(problem::MISSING, message)
    };
    let document = found.ok_or_else(not_kept)?;
    let response = json(StatusCode::OK, document.body.clone());
    Ok(with_revision(response, document.revision))
}

/// 304, if the caller has the resource already.
pub(crate) fn unchanged(
    conditions: &Conditions,
    tag: Option<Tag>,
) -> Result<Option<Response>, Problem> {
    if tag.is_none() || !conditions.is_unchanged(tag) {
        conditions.check(tag)?;
        return Ok(None);
    }
    let only_match = Conditions {
        if_none_match: None,
        ..conditions.clone()
    };
    only_match.check(tag)?;
    Ok(Some(with_tag(
        StatusCode::NOT_MODIFIED.into_response(),
        tag,
    )))
}

/// Creates or replaces the document or item. Creates an empty collection.
///
/// # Errors
/// The body is no JSON, a condition does not hold, or the storage can't answer.
pub async fn put(
    State(shared): State<Shared>,
    PathText(path): PathText,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    no_parameters(query.as_deref())?;
    let (path, head) = (Path::new(&path)?, Head::of(request.headers())?);
    let (answer, is_collection) = (head.answer, path.place() == Place::Collection);
    if is_collection && head.call.lives.is_some() {
        let message = "a collection has no time to live; give one to its items";
        return Err(Problem::new(problem::REQUEST, message));
    }
    let body = read(request).await?;
    let call = head.of_request(&[b"put", path.as_str().as_bytes(), &body])?;
    let changed = if is_collection {
        if !matches!(without_mark(&body).trim_ascii(), b"" | b"null") {
            let message = format!("{path} is a collection; put its items, or send no body");
            return Err(Problem::new(problem::COLLECTION, message));
        }
        shared.documents.create_collection(&path, &call).await?
    } else {
        shared.documents.put(&path, &body, &call).await?
    };
    let changed = settled(&shared, &call, changed).await?;
    Ok(told(&shared, put_status(&changed), changed, answer))
}

pub(crate) fn put_status(changed: &Changed) -> StatusCode {
    if changed.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

/// Applies a patch to the document or item.
///
/// # Errors
/// As [`put`]. The path names a collection, the document is missing, or the type of the patch is not
/// known.
pub async fn patch(
    State(shared): State<Shared>,
    PathText(path): PathText,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let path = Path::new(&path)?;
    if path.place() == Place::Collection {
        return Err(methods::refused(&path));
    }
    no_parameters(query.as_deref())?;
    let (head, of) = (Head::of(request.headers())?, patch_type(request.headers())?);
    let (answer, body) = (head.answer, read(request).await?);
    let parts: [&[u8]; 4] = [b"patch", path.as_str().as_bytes(), of.as_bytes(), &body];
    let call = head.of_request(&parts)?;
    let edit = edit_of(of, &body)?;
    let changed = shared.documents.edit(&path, &edit, &call).await?;
    let changed = settled(&shared, &call, changed).await?;
    Ok(told(&shared, StatusCode::OK, changed, answer))
}

/// Deletes the document, the item, or the whole collection.
///
/// # Errors
/// The document is missing, a condition does not hold, or the storage can't answer.
pub async fn delete(
    State(shared): State<Shared>,
    PathText(path): PathText,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    no_parameters(query.as_deref())?;
    let path = Path::new(&path)?;
    let head = Head::of(&headers)?;
    let answer = head.answer;
    let call = head.of_request(&[b"delete", path.as_str().as_bytes()])?;
    let changed = shared.documents.delete(&path, &call).await?;
    let changed = settled(&shared, &call, changed).await?;
    Ok(told(&shared, StatusCode::OK, changed, answer))
}

/// Adds an item to a collection, or a document below a path, under a new id.
///
/// # Errors
/// As [`put`]. The path names an item.
pub async fn post(
    State(shared): State<Shared>,
    PathText(path): PathText,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let path = Path::new(&path)?;
    if matches!(path.place(), Place::Item { .. }) {
        return Err(methods::refused(&path));
    }
    no_parameters(query.as_deref())?;
    let head = Head::of(request.headers())?;
    let (answer, body) = (head.answer, read(request).await?);
    let call = head.of_request(&[b"post", path.as_str().as_bytes(), &body])?;
    let changed = shared.documents.post(&path, &body, &call).await?;
    let changed = settled(&shared, &call, changed).await?;
    Ok(posted(&shared, changed, answer))
}

/// The answer to a post, which says where the new document or item is.
pub(crate) fn posted(shared: &Shared, changed: Changed, wanted: Option<Return>) -> Response {
    let place = url_of(shared, &changed.path);
    let mut response = told(shared, StatusCode::CREATED, changed, wanted);
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Lets the live feed tell a change. One that waits until it has landed is answered once its event
/// has landed, too. If the event is lost with the hot tier, the feed tells a reset in its place.
pub(crate) async fn settled(
    shared: &Shared,
    call: &Call,
    changed: Changed,
) -> Result<Changed, Problem> {
    if changed.event.is_some() {
        shared.hub.changed();
    }
    let (Durability::Landed { timeout }, Some((partition, place))) =
        (call.durability, changed.event)
    else {
        return Ok(changed);
    };
    let end = Instant::now() + timeout;
    loop {
        match shared.documents.state(partition, place).await {
            Ok(Some(Known::Landed)) => return Ok(changed),
            Ok(None) => {
                let event = None;
                return Ok(Changed { event, ..changed });
            }
            // The change is made. So a tier that does not answer now is asked again.
            _ if Instant::now() >= end => {
                let message = "the change is in the database, but its event is not yet";
                return Err(Problem::applied(message));
            }
            _ => sleep(LOOK_EVERY).await,
        }
    }
}

/// A write takes no parameters.
pub(crate) fn no_parameters(query: Option<&str>) -> Result<(), Problem> {
    Parameters::parse(query)?.finish("a write takes none")
}

/// The URL of a path. Brackets have no place in a URL.
pub(crate) fn url_of(shared: &Shared, path: &Path) -> String {
    let path = path.as_str().replace('[', "%5B").replace(']', "%5D");
    shared.public_url.of(&format!("/content/{path}"))
}

pub(crate) fn missing(path: &Path) -> Problem {
    Problem::new(problem::MISSING, format!("there is nothing at {path}"))
}

/// The type of a patch, as one of [`PATCH_TYPES`].
pub(crate) fn patch_type(headers: &HeaderMap) -> Result<&'static str, Problem> {
    let given = headers::text(headers, &header::CONTENT_TYPE)?.unwrap_or("application/json");
    let of = given.split(';').next().unwrap_or_default().trim();
    let known = PATCH_TYPES
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(of));
    let unknown = || {
        let types = PATCH_TYPES.join(", ");
        let message = format!("{of:?} is no type of a patch; send one of {types}");
        Problem::new(problem::MEDIA_TYPE, message)
    };
    known.ok_or_else(unknown)
}

/// The patch of this type.
///
/// # Errors
/// The body is none.
pub(crate) fn edit_of(of: &str, body: &[u8]) -> storage_documents::Result<Edit> {
    match of {
        "application/json-patch+json" => Edit::patch(body),
        "application/vnd.hyper-storage-increment+json" => Edit::increment(body),
        _ => Edit::merge(body),
    }
}

/// The body of the answer to a change.
#[derive(Serialize)]
struct ChangeAnswer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    path: &'a str,
    revision: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target<'a>>,
}

#[derive(Serialize)]
struct Target<'a> {
    id: &'a str,
}

/// The answer to a change, as the caller wants it: what has changed, the document itself, or no body.
/// A call that was carried out before does not know the document of that time.
pub(crate) fn told(
    shared: &Shared,
    status: StatusCode,
    changed: Changed,
    wanted: Option<Return>,
) -> Response {
    let is_repeat = changed.is_repeat;
    let transaction = changed
        .event
        .map(|(partition, place)| id_of(partition, place));
    let (tag, revision) = (Tag::of(changed.version), changed.revision);
    let response = match (wanted, changed.body.clone()) {
        (Some(Return::Representation), Some(body)) => {
            let place = HeaderValue::from_str(&url_of(shared, &changed.path));
            let mut response = applied(json(status, body), "return=representation", &changed);
            let place = place.map(|place| (header::CONTENT_LOCATION, place));
            response.headers_mut().extend(place);
            response
        }
        (Some(Return::Minimal), _) => {
            let status = match status {
                StatusCode::OK => StatusCode::NO_CONTENT,
                other => other,
            };
            applied(status.into_response(), "return=minimal", &changed)
        }
        _ => in_words(status, &changed, transaction.clone()),
    };
    let mut response = with_tag(response, Some(tag));
    let headers = response.headers_mut();
    if let Some(id) = transaction.and_then(|id| HeaderValue::from_str(&id).ok()) {
        headers.insert(TRANSACTION, id);
    }
    if is_repeat {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    with_revision(response, revision)
}

/// An answer that follows a preference. Its headers say what else its body would.
fn applied(mut response: Response, preference: &'static str, changed: &Changed) -> Response {
    let headers = response.headers_mut();
    headers.insert(APPLIED, HeaderValue::from_static(preference));
    headers.extend(changed.count.map(|count| (COUNT, count.into())));
    response
}

/// The answer that says what has changed.
fn in_words(status: StatusCode, changed: &Changed, transaction_id: Option<String>) -> Response {
    let id = changed.path.as_str().rsplit('/').next();
    let told = ChangeAnswer {
        transaction_id,
        path: changed.path.as_str(),
        revision: changed.revision,
        count: changed.count,
        target: id.filter(|_| changed.created).map(|id| Target { id }),
    };
    // All parts can be written.
    let text = serde_json::to_string(&told).unwrap_or_default();
    json(status, text.into())
}

/// A response of JSON.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    let of = HeaderValue::from_static("application/json");
    let body = axum::body::Body::from(body);
    (status, [(header::CONTENT_TYPE, of)], body).into_response()
}

pub(crate) fn with_tag(mut response: Response, tag: Option<Tag>) -> Response {
    let value = tag.and_then(|tag| HeaderValue::from_str(&tag.to_string()).ok());
    if let Some(value) = value {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

pub(crate) fn with_revision(mut response: Response, revision: u64) -> Response {
    let headers = response.headers_mut();
    headers.insert(REVISION, HeaderValue::from(revision));
    response
}
