//! Pages of collections.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;
use storage_documents::list::Item;
use storage_documents::{List, Path, Query, Tag};

use crate::content::{COUNT, json, missing, unchanged, url_of, with_revision};
use crate::headers::{self, conditions};
use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::routes::Shared;

/// The header of preferences that were followed.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The headers that a list depends on.
const VARY: HeaderValue = HeaderValue::from_static("accept, prefer");
/// The type of a list with links.
const HAL: &str = "application/hal+json";

/// A page of a collection: an array of its items, or HAL if the caller accepts that.
///
/// # Errors
/// A parameter can't be used, the collection is missing, or the storage can't answer.
pub(crate) async fn page(
    shared: &Shared,
    path: &Path,
    mut parameters: Parameters,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut link = Link::of(url_of(shared, path), &mut parameters);
    let mut query = Query::new(&link.filter, &link.sort)?;
    if let Some(size) = parameters.number(&["size", "per_page"])? {
        query = query.size(size)?;
        link.rest.push(("size", size.to_string()));
    }
    if let Some(skip_max) = parameters.number(&["skipMax", "skip_max"])? {
        query = query.skip_max(skip_max)?;
        link.rest.push(("skipMax", skip_max.to_string()));
    }
    if let Some(cursor) = parameters.take(&["cursor"]) {
        query = query.after(&cursor)?;
    }
    let landed = prefers_landed(headers)?;
    if landed {
        query = query.landed();
    }
    parameters.finish("a collection takes size, sort, filter, skipMax and cursor")?;
    let conditions = conditions(headers)?;
    let list = shared.documents.list(path, &query).await?;
    let Some(list) = list else {
        conditions.check(None)?;
        return Err(missing(path));
    };
    let tag = Some(list.tag()).filter(|_| !landed);
    if let Some(mut unchanged) = unchanged(&conditions, tag)? {
        let headers_of = unchanged.headers_mut();
        if let Some(tag) = weak_tag(list.tag(), accepts_hal(headers)) {
            headers_of.insert(header::ETAG, tag);
        }
        headers_of.insert(header::VARY, VARY);
        return Ok(unchanged);
    }
    Ok(answer(&list, &link, headers, landed))
}

/// Whether the caller wants landed changes alone.
fn prefers_landed(headers: &HeaderMap) -> Result<bool, Problem> {
    let prefer = headers::text(headers, &HeaderName::from_static("prefer"))?;
    let mut parts = prefer.unwrap_or_default().split([',', ';']);
    Ok(parts.any(|part| part.trim() == "consistency=landed"))
}

/// The parts of the link to the next page.
struct Link {
    /// The URL of the collection.
    own: String,
    filter: String,
    sort: String,
    /// The size and the limit, as they were given.
    rest: Vec<(&'static str, String)>,
}

impl Link {
    fn of(own: String, parameters: &mut Parameters) -> Self {
        let mut text = |names: &[&str]| parameters.take(names).unwrap_or_default();
        Self {
            own,
            filter: text(&["filter", "filterBy"]),
            sort: text(&["sort", "sort_by", "sortBy"]),
            rest: Vec::new(),
        }
    }

    /// The URL of the page behind a cursor.
    fn next(&self, cursor: &str) -> String {
        let mut url = format!("{}?cursor={cursor}", self.own);
        for (name, value) in [("filter", &self.filter), ("sort", &self.sort)] {
            if !value.is_empty() {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                url.push_str(&format!("&{name}={value}"));
            }
        }
        for (name, value) in &self.rest {
            url.push_str(&format!("&{name}={value}"));
        }
        url
    }
}

#[derive(Serialize)]
struct Hal<'a> {
    _links: Links,
    _embedded: Embedded<'a>,
    count: u64,
    revision: u64,
}

#[derive(Serialize)]
struct Links {
    #[serde(rename = "self")]
    own: Target,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Target>,
}

#[derive(Serialize)]
struct Target {
    href: String,
}

#[derive(Serialize)]
struct Embedded<'a> {
    els: Vec<&'a RawValue>,
}

/// Whether a media range is the type of a list with links. A quality of 0 excludes it.
fn is_hal(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_it = parts.next().is_some_and(|of| of.eq_ignore_ascii_case(HAL));
    let excluded =
        |part: &str| part.strip_prefix("q=").and_then(|q| q.parse().ok()) == Some(0.0_f32);
    is_it && !parts.any(excluded)
}

/// Whether the caller accepts a list with links.
fn accepts_hal(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(is_hal)
}

/// A list changes with its collection. Its two forms have different tags.
fn weak_tag(tag: Tag, is_hal: bool) -> Option<HeaderValue> {
    let tag = tag.to_string();
    let form = if is_hal { "-hal" } else { "" };
    let text = format!("W/\"{}{form}\"", tag.trim_matches('"'));
    HeaderValue::from_str(&text).ok()
}

fn answer(list: &List, link: &Link, headers: &HeaderMap, landed: bool) -> Response {
    let next = list.next.as_deref().map(|cursor| link.next(cursor));
    let accepts_hal = accepts_hal(headers);
    let body = if accepts_hal {
        // All parts can be written.
        serde_json::to_vec(&hal(list, link, next.clone())).unwrap_or_default()
    } else {
        array(&list.items)
    };
    let mut response = json(StatusCode::OK, body.into());
    let headers = response.headers_mut();
    headers.insert(COUNT, HeaderValue::from(list.count));
    headers.insert(header::VARY, VARY);
    if accepts_hal {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HAL));
    }
    let next = next.map(|next| format!("<{next}>; rel=\"next\""));
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        headers.insert(header::LINK, next);
    }
    let tag = weak_tag(list.tag(), accepts_hal);
    if let Some(tag) = tag.filter(|_| !landed) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    if landed {
        let applied = HeaderValue::from_static("consistency=landed");
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    with_revision(response, list.revision)
}

/// The bodies as an array. They are JSON, so none is read again.
fn array(items: &[Item]) -> Vec<u8> {
    let bodies = items.iter().map(|item| item.document.body.as_ref());
    let bodies: Vec<&[u8]> = bodies.collect();
    [&b"["[..], &bodies.join(&b","[..]), b"]"].concat()
}

fn hal<'a>(list: &'a List, link: &Link, next: Option<String>) -> Hal<'a> {
    let own = link.own.clone();
    let els = list.items.iter().filter_map(body_of).collect();
    Hal {
        _links: Links {
            own: Target { href: own },
            next: next.map(|href| Target { href }),
        },
        _embedded: Embedded { els },
        count: list.count,
        revision: list.revision,
    }
}

fn body_of(item: &Item) -> Option<&RawValue> {
    serde_json::from_slice(&item.document.body).ok()
}
