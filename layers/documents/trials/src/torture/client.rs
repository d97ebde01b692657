//! One request over HTTP, and its answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rand::RngExt as _;
use rand::rngs::StdRng;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use super::place::Gate;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The type of an increment.
pub const INCREMENT: &str = "application/vnd.hyper-storage-increment+json";

/// A client of several gateways.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    gates: Arc<[Arc<Gate>]>,
    token: Arc<str>,
}

/// A request for content.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, with a query.
    pub path: String,
    /// The body.
    pub body: Option<String>,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Request {
    /// A read.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            body: None,
            headers: Vec::new(),
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `Revision`.
    pub revision: Option<u64>,
    /// The header `ETag`.
    pub tag: Option<String>,
    /// The header `Count`.
    pub count: Option<u64>,
    /// The id of the change's event.
    pub event: Option<String>,
    /// The path of the next page.
    pub next: Option<String>,
    /// Whether the request had been carried out before.
    pub is_repeat: bool,
    /// The body, or null if it is no JSON.
    pub body: Value,
}

/// Whether a change was made, by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was.
    Made,
    /// It was not. Another try may succeed.
    NotMade,
    /// It was not, since the request does not fit the state of the document.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Result<Self> {
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let number = |name: &str| text(name)?.parse().ok();
        let next = |link: String| {
            let link = link.strip_prefix('<')?;
            let (url, _) = link.split_once(">; rel=\"next\"")?;
            url.split_once("/content/").map(|(_, path)| path.to_owned())
        };
        let (status, revision, count) = (
            response.status().as_u16(),
            number("revision"),
            number("count"),
        );
        let (tag, event, next) = (
            text("etag"),
            text("hyper-storage-transaction"),
            text("link").and_then(next),
        );
        let is_repeat = text("idempotent-replayed").is_some();
        let body = response.bytes().await?;
        Ok(Self {
            status,
            revision,
            tag,
            count,
            event,
            next,
            is_repeat,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Whether the change was made.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let outcome = self.body.get("outcome").and_then(Value::as_str);
        match (self.status, outcome) {
            (200..300, _) => Outcome::Made,
            (429 | 503, None) => Outcome::NotMade,
            (400..500, _) => Outcome::Refused,
            _ => Outcome::Unknown,
        }
    }
}

impl Client {
    /// A client of these gateways.
    #[must_use]
    pub fn new(http: reqwest::Client, gates: Arc<[Arc<Gate>]>, token: Arc<str>) -> Self {
        Self { http, gates, token }
    }

    /// Asks some gateway. `None` if there is no answer.
    pub async fn ask(&self, rng: &mut StdRng, request: &Request) -> Option<Answer> {
        let at = rng.random_range(0..self.gates.len());
        let gate = self.gates.get(at)?;
        let mut call = self.call(
            gate,
            request.method.clone(),
            &format!("content/{}", request.path),
        )?;
        for (name, value) in &request.headers {
            call = call.header(*name, value);
        }
        if let Some(body) = &request.body {
            call = call.body(body.clone());
        }
        let response = call.timeout(PATIENCE).send().await.ok()?;
        Answer::of(response).await.ok()
    }

    /// Gets a resource of one gateway. `None` if there is no answer.
    pub async fn get(&self, gate: usize, resource: &str) -> Option<Answer> {
        let gate = self.gates.get(gate % self.gates.len())?;
        let call = self.call(gate, Method::GET, resource)?;
        let response = call.timeout(4 * PATIENCE).send().await.ok()?;
        Answer::of(response).await.ok()
    }

    /// Opens the live feed of one gateway. `None` if there is no answer.
    pub async fn follow(&self, gate: usize, since: Option<&str>) -> Option<Response> {
        let gate = self.gates.get(gate % self.gates.len())?;
        let mut call = self.call(gate, Method::GET, "feed")?;
        if let Some(since) = since {
            call = call.header("last-event-id", since);
        }
        let response = tokio::time::timeout(PATIENCE, call.send()).await.ok()?;
        response.ok()?.error_for_status().ok()
    }

    fn call(&self, gate: &Gate, method: Method, resource: &str) -> Option<RequestBuilder> {
        let url = format!("{}/hyper-storage/{resource}", gate.address()?);
        Some(self.http.request(method, url).bearer_auth(&self.token))
    }
}
