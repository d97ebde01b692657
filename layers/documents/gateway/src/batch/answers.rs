//! The answers to the requests of a batch.

use std::collections::BTreeMap;

use axum::body::to_bytes;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, Method, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::requests::explain;

/// Headers that speak to caches and connections. Those of the batch say all of that.
const LEFT_OUT: [HeaderName; 3] = [header::CACHE_CONTROL, header::CONTENT_LENGTH, header::VARY];
/// The frame of an answer, in bytes.
const FRAME: usize = 256;

/// The answers so far.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answers {
    responses: Vec<Answer>,
    #[serde(skip)]
    bytes: usize,
}

/// The answer to one request.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    status: u16,
    path: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
}

impl Answers {
    pub(super) fn add(&mut self, answer: Answer) {
        let body = answer.body.as_ref().map_or(0, |body| body.get().len());
        self.bytes = self.bytes.saturating_add(body).saturating_add(FRAME);
        self.responses.push(answer);
    }

    /// About how many bytes the answers have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_text(self) -> String {
        // All parts can be written.
        serde_json::to_string(&self).unwrap_or_default()
    }
}

impl Answer {
    /// The answer to a request of a batch with this id.
    pub(super) async fn of(
        mut response: Response,
        id: &str,
        method: &Method,
        path: &PathAndQuery,
    ) -> Self {
        explain(&mut response, id, method, path.path());
        let (head, body) = response.into_parts();
        // Each body is in memory by now. The limit of answers counts it.
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let is_told = *method != Method::HEAD && !body.is_empty();
        let body = is_told
            .then(|| serde_json::from_slice(&body).ok())
            .flatten();
        Self {
            status: head.status.as_u16(),
            path: path.to_string(),
            headers: texts_of(&head.headers),
            body,
        }
    }
}

/// The headers of an answer as texts.
fn texts_of(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for name in headers.keys().filter(|name| !LEFT_OUT.contains(name)) {
        let values: Vec<&str> = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        texts.insert(name.to_string(), values.join(", "));
    }
    texts
}
