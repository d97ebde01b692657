//! The headers of requests.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, header};
use storage_documents::condition::Tags;
use storage_documents::once::Once;
use storage_documents::{Call, Conditions};
use storage_sdk::Durability;

use crate::problem::{self, Problem};

/// The header that says how safe a change must be before it is answered.
const WAIT: HeaderName = HeaderName::from_static("hyper-storage-wait");
/// The header of the time to live, in seconds.
const TTL: HeaderName = HeaderName::from_static("hyper-storage-ttl");
/// The header of the key of a call.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of preferences (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The time to wait for durability, unless a preference says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time to wait, in seconds.
const PATIENCE_MAX: u64 = 60;
/// The longest time to live, in seconds: ten years.
const TTL_MAX: u64 = 10 * 366 * 86_400;

/// How a write is made, by its headers. The request is what a key stands for: method, path and body.
pub(crate) fn call(headers: &HeaderMap, request: &[&[u8]]) -> Result<Call, Problem> {
    let key = text(headers, &KEY)?;
    let once = key.map(|key| Once::new(key.trim().trim_matches('"'), request));
    Ok(Call {
        conditions: conditions(headers)?,
        durability: durability(headers)?,
        lives: seconds(headers)?,
        once: once.transpose()?,
        ..Call::default()
    })
}

/// The conditions of a request.
pub(crate) fn conditions(headers: &HeaderMap) -> Result<Conditions, Problem> {
    Ok(Conditions {
        if_match: tags(headers, &header::IF_MATCH)?,
        if_none_match: tags(headers, &header::IF_NONE_MATCH)?,
    })
}

/// The value of a header that comes once.
pub(crate) fn text<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let no_text = |_| Problem::new(problem::REQUEST, format!("{name} is no text"));
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(no_text)
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

/// How safe a change must be before it is answered.
fn durability(headers: &HeaderMap) -> Result<Durability, Problem> {
    let timeout = patience(headers)?;
    match text(headers, &WAIT)? {
        None | Some("cached") => Ok(Durability::Cached),
        Some("replicated") => Ok(Durability::Replicated {
            replicas: 1,
            timeout,
        }),
        Some("fsynced") => Ok(Durability::Fsynced { timeout }),
        Some("landed" | "full") => Ok(Durability::Landed { timeout }),
        Some(other) => {
            let message =
                format!("{WAIT} is {other:?}; send cached, replicated, fsynced or landed");
            Err(Problem::new(problem::REQUEST, message))
        }
    }
}

/// The time to wait for that: `Prefer: wait=SECONDS`.
fn patience(headers: &HeaderMap) -> Result<Duration, Problem> {
    let Some(prefer) = text(headers, &PREFER)? else {
        return Ok(PATIENCE);
    };
    let mut parts = prefer.split([',', ';']).map(str::trim);
    let Some(wait) = parts.find_map(|part| part.strip_prefix("wait=")) else {
        return Ok(PATIENCE);
    };
    let seconds = wait.parse().ok();
    let seconds = seconds.filter(|seconds| (1..=PATIENCE_MAX).contains(seconds));
    let refused = || {
        let message = format!("the preference wait is {wait:?}; send 1 to {PATIENCE_MAX} seconds");
        Problem::new(problem::REQUEST, message)
    };
    Ok(Duration::from_secs(seconds.ok_or_else(refused)?))
}

/// The time to live.
fn seconds(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(given) = text(headers, &TTL)? else {
        return Ok(None);
    };
    let seconds = given.trim().parse().ok();
    let seconds = seconds.filter(|seconds| (1..=TTL_MAX).contains(seconds));
    let refused = || {
        let message = format!("{TTL} is {given:?}; send 1 to {TTL_MAX} seconds");
        Problem::new(problem::REQUEST, message)
    };
    Ok(Some(Duration::from_secs(seconds.ok_or_else(refused)?)))
}
