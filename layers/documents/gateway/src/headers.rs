//! The headers of requests.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, header};
use storage_documents::condition::{Form, Tags};
use storage_documents::once::Once;
use storage_documents::{Call, Conditions};
use storage_sdk::Durability;

use crate::prefer::{Preferences, Return};
use crate::problem::{self, Problem};

/// The header that says how safe a change must be before it is answered.
pub(crate) const WAIT: HeaderName = HeaderName::from_static("hyper-storage-wait");
/// The header of the time to live, in seconds.
pub(crate) const TTL: HeaderName = HeaderName::from_static("hyper-storage-ttl");
/// The header of the key of a call.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The time to wait for durability, unless a preference says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time to wait, in seconds.
const PATIENCE_MAX: u64 = 60;
/// The longest time to live, in seconds: ten years.
const TTL_MAX: u64 = 10 * 366 * 86_400;

/// What the head of a write asks for.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) call: Call,
    /// What the caller wants in the answer.
    pub(crate) answer: Option<Return>,
    key: Option<String>,
}

impl Head {
    /// Reads the headers.
    ///
    /// # Errors
    /// One of them can't be used.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let preferences = Preferences::of(headers)?;
        let key = text(headers, &KEY)?.map(|key| key.trim().trim_matches('"').to_owned());
        // A key that can't be used is refused before the body is read.
        key.as_deref().map(|key| Once::new(key, &[])).transpose()?;
        Ok(Self {
            call: Call {
                conditions: conditions(headers)?,
                durability: durability(headers, &preferences)?,
                lives: seconds(headers)?,
                ..Call::default()
            },
            answer: preferences.answer(),
            key,
        })
    }

    /// The call with its key. The key stands for the whole request: method, path and body.
    ///
    /// # Errors
    /// The key can't be used.
    pub(crate) fn of_request(self, request: &[&[u8]]) -> Result<Call, Problem> {
        let once = self.key.map(|key| Once::new(&key, request));
        Ok(Call {
            once: once.transpose()?,
            ..self.call
        })
    }
}

/// The conditions of a request.
pub(crate) fn conditions(headers: &HeaderMap) -> Result<Conditions, Problem> {
    Ok(Conditions {
        if_match: tags(headers, &header::IF_MATCH)?,
        if_none_match: tags(headers, &header::IF_NONE_MATCH)?,
    })
}

/// The conditions of a read of a list. A tag of its other form says nothing of this one.
pub(crate) fn conditions_of_list(headers: &HeaderMap, form: Form) -> Result<Conditions, Problem> {
    let conditions = conditions(headers)?;
    let none = conditions.if_none_match.map(|tags| tags.of_form(form));
    Ok(Conditions {
        if_none_match: none,
        ..conditions
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
    Tags::parse(&lines.join(", "))
        .map(Some)
        .map_err(|error| Problem::new(problem::REQUEST, format!("{name}: {error}")))
}

/// How safe a change must be before it is answered.
fn durability(headers: &HeaderMap, preferences: &Preferences) -> Result<Durability, Problem> {
    let timeout = patience(preferences)?;
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
fn patience(preferences: &Preferences) -> Result<Duration, Problem> {
    let Some(wait) = preferences.get("wait") else {
        return Ok(PATIENCE);
    };
    whole_seconds(wait, PATIENCE_MAX).ok_or_else(|| {
        let message = format!("the preference wait is {wait:?}; send 1 to {PATIENCE_MAX} seconds");
        Problem::new(problem::REQUEST, message)
    })
}

/// The time to live.
fn seconds(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(given) = text(headers, &TTL)? else {
        return Ok(None);
    };
    let lives = whole_seconds(given.trim(), TTL_MAX).ok_or_else(|| {
        let message = format!("{TTL} is {given:?}; send 1 to {TTL_MAX} seconds");
        Problem::new(problem::REQUEST, message)
    })?;
    Ok(Some(lives))
}

/// The time that a text names in whole seconds. `None` unless it is 1 to `most`.
fn whole_seconds(text: &str, most: u64) -> Option<Duration> {
    let seconds: u64 = text.parse().ok()?;
    (1..=most)
        .contains(&seconds)
        .then(|| Duration::from_secs(seconds))
}
