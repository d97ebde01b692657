//! The figures of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use storage_metrics::{Durations, Measure, Page, names};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::routes::PREFIX;
use crate::shared::Shared;

/// The media type of the page.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The counters of a gateway. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Figures(Arc<Counts>);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    refusals: AtomicU64,
    failures: AtomicU64,
    events: AtomicU64,
    resets: AtomicU64,
    connections: AtomicU64,
    durations: Durations,
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct OpenConnection(Figures);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Figures {
    pub(crate) fn heard(&self, events: usize) {
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.0.events.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.0.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection until its end.
    pub(crate) fn connected(&self) -> OpenConnection {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }

    /// A request begins.
    pub(crate) fn begin(&self, request: &Request) -> CountedRequest<'_> {
        CountedRequest {
            counts: &self.0,
            labels: [
                ("method", name_of(request.method())),
                ("resource", kind_of(request.uri().path())),
            ],
            begin: Instant::now(),
        }
    }
}

impl Measure for Shared {
    fn measure(&self, page: &mut Page) {
        let counts = &self.figures.0;
        let feeds = u64::try_from(self.hub.clients()).unwrap_or(u64::MAX);
        page.set(&names::DOCUMENT_FEEDS, feeds);
        for (name, count) in [
            (&names::DOCUMENT_REQUESTS, &counts.requests),
            (&names::DOCUMENT_REFUSALS, &counts.refusals),
            (&names::DOCUMENT_FAILURES, &counts.failures),
            (&names::DOCUMENT_EVENTS, &counts.events),
            (&names::DOCUMENT_RESETS, &counts.resets),
            (&names::DOCUMENT_CONNECTIONS, &counts.connections),
        ] {
            page.set(name, count.load(Ordering::Relaxed));
        }
        page.set_durations(&names::DOCUMENT_SECONDS, &counts.durations);
    }
}

/// A request that is measured until its answer begins.
pub(crate) struct CountedRequest<'a> {
    counts: &'a Counts,
    labels: [(&'static str, &'static str); 2],
    begin: Instant,
}

impl CountedRequest<'_> {
    /// Counts the answer.
    pub(crate) fn answered(self, status: StatusCode) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        if status.is_client_error() {
            self.counts.refusals.fetch_add(1, Ordering::Relaxed);
        } else if status.is_server_error() {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.counts.durations.add(self.labels, self.begin.elapsed());
    }
}

/// Methods that nobody knows are as one, so that clients can't make figures.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::POST => "POST",
        _ => "other",
    }
}

/// The kind of a resource.
fn kind_of(path: &str) -> &'static str {
    let below = path.strip_prefix(PREFIX).unwrap_or_default();
    let resource = below.strip_prefix('/').unwrap_or_default();
    let (first, rest) = resource.split_once('/').unwrap_or((resource, ""));
    match first {
        "content" => {
            let mut from_end = rest.rsplit('/').map(|part| part.ends_with('~'));
            match (from_end.next(), from_end.next()) {
                (Some(true), _) => "collection",
                (_, Some(true)) => "item",
                _ => "document",
            }
        }
        "feed" => "feed",
        "tickets" => "tickets",
        "batch" => "batch",
        "_changes" => "_changes",
        "_export" => "_export",
        "_import" => "_import",
        "_metrics" => "_metrics",
        "transactions" => "transactions",
        _ => "other",
    }
}

/// The figures of the gateway and of the storage, in the OpenMetrics format.
///
/// # Errors
/// The storage was closed.
pub async fn page(State(shared): State<Shared>) -> Result<Response, Problem> {
    let page = shared.documents.storage().metrics_with(&[&shared]).await;
    let text = page.map_err(storage_documents::Error::from)?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_the_kind_of_resource() {
        for (path, kind) in [
            ("/hyper-storage/content/a", "document"),
            ("/hyper-storage/content/a~/b/c", "document"),
            ("/hyper-storage/content/a/b~", "collection"),
            ("/hyper-storage/content/a/b~/c", "item"),
            ("/hyper-storage/feed", "feed"),
            ("/hyper-storage/batch", "batch"),
            ("/hyper-storage/feed2", "other"),
            ("/content/a", "other"),
            ("/ready", "other"),
        ] {
            assert_eq!(kind_of(path), kind, "{path}");
        }
    }
}
