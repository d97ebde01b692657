//! The landed feed by pages, and the state of one change.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use storage_documents::event::id_of;
use storage_documents::feed::{CHANGES_MAX, Changes, State as Known};
use storage_documents::{Change, Documents};
use storage_sdk::feed::{Cursor, Position};
use tokio::time::{Instant, sleep_until};

use crate::content::json;
use crate::parameters::{Parameters, PathText, cursor, is_place};
use crate::problem::{self, Problem};
use crate::shared::Shared;

/// The longest wait for a change, in seconds.
const WAIT_MAX: usize = 60;

/// Landed changes behind `?since=`. With `?wait=`, an answer without changes waits for one so many
/// seconds.
///
/// # Errors
/// A parameter can't be used, changes behind the cursor were dropped for their age, or the database
/// can't answer.
pub async fn page(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut parameters = Parameters::with_prefixes(query.as_deref())?;
    let prefixes = parameters.prefixes()?;
    let since = since(&shared.documents, parameters.take(&["since"])).await?;
    let most = bounded(&mut parameters, "limit", CHANGES_MAX)?
        .unwrap_or(100)
        .max(1);
    let wait = bounded(&mut parameters, "wait", WAIT_MAX)?.unwrap_or_default();
    parameters.finish("the landed feed takes since, prefix, limit and wait")?;
    let until = Instant::now() + Duration::from_secs(u64::try_from(wait).unwrap_or_default());
    let mut cursor = since;
    loop {
        let page = shared.documents.changes(cursor, &prefixes, most).await?;
        let is_over = Instant::now() >= until || shared.hub.is_draining();
        if !page.changes.is_empty() || is_over || page.more {
            return Ok(answer(&page));
        }
        cursor = page.next;
        tokio::select! {
            () = shared.landed.behind(&cursor) => {}
            () = shared.hub.drained() => {}
            () = sleep_until(until) => {}
        }
    }
}

/// The cursor of a request: the beginning, `now`, or the one of an earlier page.
async fn since(documents: &Documents, given: Option<String>) -> Result<Cursor, Problem> {
    match given.as_deref() {
        None | Some("") => Ok(Cursor::default()),
        Some("now") => Ok(documents.changes_end().await?),
        Some(text) => {
            let refused = || {
                let message = format!(
                    "since is {text:?}, which no page gave; send last_seq of an earlier page, now, or nothing"
                );
                Problem::new(problem::REQUEST, message)
            };
            cursor(text).ok_or_else(refused)
        }
    }
}

fn bounded(parameters: &mut Parameters, name: &str, most: usize) -> Result<Option<usize>, Problem> {
    match parameters.number(&[name])? {
        Some(number) if number > most => {
            let message = format!("the parameter {name} is {number}; the most is {most}");
            Err(Problem::new(problem::REQUEST, message))
        }
        number => Ok(number),
    }
}

#[derive(Serialize)]
struct Page {
    results: Vec<Box<RawValue>>,
    last_seq: String,
    /// Whether more changes are known.
    pending: bool,
}

#[derive(Serialize)]
struct Reset<'a> {
    method: &'a str,
    partition: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

fn answer(changes: &Changes) -> Response {
    let page = Page {
        results: changes.changes.iter().filter_map(text_of).collect(),
        last_seq: changes.next.to_string(),
        pending: changes.more,
    };
    // All parts can be written.
    let text = serde_json::to_string(&page).unwrap_or_default();
    json(StatusCode::OK, text.into())
}

fn text_of(change: &Change) -> Option<Box<RawValue>> {
    let text = match change {
        Change::Event(event) => event.to_text(),
        Change::Reset { partition, path } => serde_json::to_string(&Reset {
            method: "reset",
            partition: *partition,
            path: path.as_ref().map(storage_documents::Path::as_str),
        })
        .ok()?,
        _ => return None,
    };
    RawValue::from_string(text).ok()
}

#[derive(Serialize)]
struct Transaction<'a> {
    transaction_id: &'a str,
    state: &'a str,
}

/// The state of the change with an id: `accepted` or `landed`.
///
/// # Errors
/// There is no such change, or the storage can't answer.
pub async fn transaction(
    State(shared): State<Shared>,
    PathText(id): PathText,
) -> Result<Response, Problem> {
    let unknown = || {
        let message = format!("there is no transaction {id:?}, or it was lost with the hot tier");
        Problem::new(problem::MISSING, message)
    };
    let (partition, position) = parsed(&id).ok_or_else(unknown)?;
    let state = shared.documents.state(partition, position).await?;
    let state = match state.ok_or_else(unknown)? {
        Known::Accepted => "accepted",
        _ => "landed",
    };
    let told = Transaction {
        transaction_id: &id,
        state,
    };
    // All parts can be written.
    let text = serde_json::to_string(&told).unwrap_or_default();
    Ok(json(StatusCode::OK, text.into()))
}

/// `PARTITION.EPOCH.NUMBER`, in the spelling of an answer and in no other.
fn parsed(id: &str) -> Option<(u32, Position)> {
    let mut parts = id.split('.');
    let partition = parts.next()?.parse().ok()?;
    let (epoch, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let place = Position::new(epoch, number);
    let is_given = is_place(place) && id_of(partition, place) == id;
    is_given.then_some((partition, place))
}
