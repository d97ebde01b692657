//! Pages of collections.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;
use storage_documents::condition::Form;
use storage_documents::list::Item;
use storage_documents::{List, Path, Query, Tag};

use crate::accept::{self, HAL, JSON};
use crate::content::{COUNT, json, missing, unchanged, url_of, with_revision};
use crate::headers::conditions_of_list;
use crate::parameters::Parameters;
use crate::prefer::{APPLIED, Preferences};
use crate::problem::Problem;
use crate::shared::Shared;

/// The headers that a list depends on.
const VARY: HeaderValue = HeaderValue::from_static("accept, prefer");

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
    let mut query = Query::new(&link.filter, &link.sort)?.size(shared.page_size)?;
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
    let preferences = Preferences::of(headers)?;
    let landed = preferences.get("consistency") == Some("landed");
    if landed {
        query = query.landed();
    }
    parameters.finish("a collection takes size, sort, filter, skipMax and cursor")?;
    let form = match accept::best(headers, &[JSON, HAL])? {
        HAL => Form::Links,
        _ => Form::Plain,
    };
    let mut conditions = conditions_of_list(headers, form)?;
    if landed {
        // Such a list has no tag that a caller could have.
        conditions.if_none_match = None;
    }
    let list = shared
        .documents
        .list(path, &query)
        .await?
        .ok_or_else(|| missing(path))?;
    if let Some(unchanged) = unchanged(&conditions, Some(list.tag()))? {
        return Ok(with_weak_tag(unchanged, list.tag(), form));
    }
    Ok(answer(&list, &link, form, landed))
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

/// A list changes with its collection. Each of its forms has a tag of its own.
fn with_weak_tag(mut response: Response, tag: Tag, form: Form) -> Response {
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("W/{}", tag.in_form(form))) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, VARY);
    response
}

fn answer(list: &List, link: &Link, form: Form, landed: bool) -> Response {
    let next = list.next.as_deref().map(|cursor| link.next(cursor));
    let body = match form {
        // All parts can be written.
        Form::Links => serde_json::to_vec(&hal(list, link, next.clone())).unwrap_or_default(),
        Form::Plain => array(&list.items),
    };
    let mut response = json(StatusCode::OK, body.into());
    let headers = response.headers_mut();
    headers.insert(COUNT, HeaderValue::from(list.count));
    if form == Form::Links {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HAL));
    }
    let next = next.map(|next| format!("<{next}>; rel=\"next\""));
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        headers.insert(header::LINK, next);
    }
    if landed {
        headers.insert(APPLIED, HeaderValue::from_static("consistency=landed"));
        headers.insert(header::VARY, VARY);
    } else {
        response = with_weak_tag(response, list.tag(), form);
    }
    with_revision(response, list.revision)
}

/// The bodies as an array. They are JSON, so none is read again.
fn array(items: &[Item]) -> Vec<u8> {
    let bodies: Vec<&[u8]> = items
        .iter()
        .map(|item| item.document.body.as_ref())
        .collect();
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
