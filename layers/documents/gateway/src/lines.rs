//! Export and import of documents as lines of JSON.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Serialize;
use storage_documents::edit::without_mark;
use storage_documents::lines::Export;
use storage_documents::{Documents, Error};

use crate::content::json;
use crate::parameters::Parameters;
use crate::problem::{self, Problem};
use crate::shared::Shared;

/// The type of lines of JSON.
const LINES: &str = "application/x-ndjson";
/// The time until earlier changes must have landed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a line.
const LINE_MAX: usize = 2 << 20;
/// The lines of an import that are put at a time.
const AT_A_TIME: usize = 64;
/// The lines that an answer names. More are only counted.
const NAMED_MAX: usize = 100;

/// All documents and items below `?prefix=`, a line each. All changes that were acknowledged before
/// are in it.
///
/// # Errors
/// A parameter can't be used, earlier changes do not land, or the storage can't answer.
pub async fn export(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut parameters = Parameters::parse(query.as_deref())?;
    let prefix = parameters.take(&["prefix"]).unwrap_or_default();
    parameters.finish("an export takes prefix")?;
    let end = shared.documents.hot_end().await?;
    let export = shared.documents.export(&prefix, &end, PATIENCE).await?;
    // A layer may ask once more behind the end.
    let lines = futures::stream::unfold(Some(export), step).fuse();
    let of = HeaderValue::from_static(LINES);
    Ok(([(header::CONTENT_TYPE, of)], Body::from_stream(lines)).into_response())
}

/// The next lines. A failure cuts the answer, which a client notices.
async fn step(export: Option<Export>) -> Option<(Result<Bytes, Error>, Option<Export>)> {
    let mut export = export?;
    match export.next().await {
        Ok(lines) => lines.map(|lines| (Ok(lines.into()), Some(export))),
        Err(error) => {
            tracing::warn!(%error, "an export ends early");
            Some((Err(error), None))
        }
    }
}

/// The answer to an import.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Documents and items that were put.
    put: u64,
    /// Those that had ended by their time to live.
    ended: u64,
    /// Lines that could not be put.
    failed: u64,
    /// Some of these lines.
    lines: Vec<Failure>,
}

#[derive(Debug, Serialize)]
struct Failure {
    line: u64,
    detail: String,
}

/// Puts the documents and items of an export. Lines of one path are put in their order. A line that
/// fails is named by its number, and the others go on.
///
/// # Errors
/// The body ends early, or a line is too long.
pub async fn import(State(shared): State<Shared>, body: Body) -> Result<Response, Problem> {
    let (mut report, mut rest, mut number) = (Report::default(), Vec::new(), 0);
    let mut chunks = body.into_data_stream();
    loop {
        let chunk = chunks.next().await.transpose();
        let put_before = report.put;
        let cut = |error| {
            let message =
                format!("the body was cut after {put_before} documents were put: {error}");
            Problem::new(problem::REQUEST, message).in_part()
        };
        let chunk = chunk.map_err(cut)?;
        let is_end = chunk.is_none();
        rest.extend_from_slice(&chunk.unwrap_or_default());
        let lines = take_lines(&mut rest, is_end);
        if rest.len() > LINE_MAX {
            let message = format!(
                "line {} is longer than {LINE_MAX} bytes; {} documents before it were put",
                number + 1,
                report.put
            );
            return Err(Problem::new(problem::TOO_LARGE, message).in_part());
        }
        put(&shared.documents, lines, &mut number, &mut report).await;
        shared.hub.changed();
        if is_end {
            break;
        }
    }
    let status = match report.failed {
        0 => StatusCode::OK,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    // All parts can be written.
    let text = serde_json::to_string(&report).unwrap_or_default();
    Ok(json(status, text.into()))
}

/// Takes the whole lines of a text. At its end, the last line needs no line feed.
fn take_lines(text: &mut Vec<u8>, is_end: bool) -> Vec<Vec<u8>> {
    let last = text.iter().rposition(|byte| *byte == b'\n');
    let end = match last {
        _ if is_end => text.len(),
        Some(last) => last + 1,
        None => 0,
    };
    let whole: Vec<u8> = text.drain(..end).collect();
    let mut lines: Vec<Vec<u8>> = whole
        .split(|byte| *byte == b'\n')
        .map(|line| without_mark(line).to_vec())
        .collect();
    // What follows the last line feed is no line.
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

/// Puts lines, many at a time. Two lines of one path are never under way together.
async fn put(documents: &Documents, lines: Vec<Vec<u8>>, number: &mut u64, report: &mut Report) {
    let mut together: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut paths = std::collections::HashSet::new();
    for line in lines {
        *number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let path = path_of(&line);
        if together.len() >= AT_A_TIME || !paths.insert(path.clone()) {
            put_together(documents, std::mem::take(&mut together), report).await;
            paths.clear();
            paths.insert(path);
        }
        together.push((*number, line));
    }
    put_together(documents, together, report).await;
}

fn path_of(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct PathMember {
        path: String,
    }
    let named: Option<PathMember> = serde_json::from_slice(line).ok();
    named.map(|named| named.path)
}

async fn put_together(documents: &Documents, lines: Vec<(u64, Vec<u8>)>, report: &mut Report) {
    let puts = lines.iter().map(|(_, line)| documents.import(line));
    let puts = futures::future::join_all(puts).await;
    for ((number, _), put) in lines.iter().zip(puts) {
        match put {
            Ok(Some(_)) => report.put += 1,
            Ok(None) => report.ended += 1,
            Err(error) => {
                report.failed += 1;
                if report.lines.len() < NAMED_MAX {
                    let (line, detail) = (*number, Problem::from(error).detail().to_owned());
                    report.lines.push(Failure { line, detail });
                }
            }
        }
    }
}
