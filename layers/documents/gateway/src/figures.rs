//! The figures of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use storage_metrics::{Measure, Page, names};

use crate::problem::Problem;
use crate::routes::Shared;

/// The media type of the page.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The counters of a gateway. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Figures(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    refusals: AtomicU64,
    failures: AtomicU64,
    events: AtomicU64,
    resets: AtomicU64,
}

impl Figures {
    pub(crate) fn heard(&self, events: usize) {
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.0.events.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.0.resets.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self, status: StatusCode) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        if status.is_client_error() {
            self.0.refusals.fetch_add(1, Ordering::Relaxed);
        } else if status.is_server_error() {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
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
        ] {
            page.set(name, count.load(Ordering::Relaxed));
        }
    }
}

/// Counts an answer.
pub(crate) async fn count(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    shared.figures.answered(response.status());
    response
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
