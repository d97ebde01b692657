//! A client with a token that writes and reads. Each of its requests has to succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Client, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use storage_tests::torture::oracle::Flaw;
use tokio::time::{Instant, sleep};

use crate::gateway::TOKEN;

/// How long a request may need, with all of its tries.
const LIMIT: Duration = Duration::from_secs(60);
/// How long one try may need.
const PATIENCE: Duration = Duration::from_secs(20);
/// The documents of a client.
const DOCUMENTS: u32 = 4;
/// The longest pause between two requests, and before another try.
const PAUSE_MAX_MS: u64 = 30;

/// How honest clients fared.
#[derive(Debug, Default)]
pub struct Fared {
    /// The requests that were answered.
    pub requests: u32,
    /// The answers that asked for another try.
    pub busy: u32,
    /// The tries without an answer.
    pub cut: u32,
    /// The longest time of an answer.
    pub slowest: Duration,
    /// The last revision of each document.
    pub revisions: Vec<(String, u64)>,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

impl Fared {
    /// Adds what another client met.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.busy += other.busy;
        self.cut += other.cut;
        self.slowest = self.slowest.max(other.slowest);
        self.revisions.extend(other.revisions);
        self.flaws.extend(other.flaws);
    }
}

/// An honest client.
#[derive(Debug)]
pub struct Honest {
    client: Client,
    content: String,
    number: u32,
    rng: StdRng,
    fared: Fared,
}

/// A request to the content of a gateway.
struct Request<'a> {
    method: Method,
    path: &'a str,
    body: Option<String>,
    key: Option<String>,
}

impl Honest {
    /// A client by its number. Every second one opens a connection for each request.
    ///
    /// # Errors
    /// There is no client of HTTP.
    pub fn new(content: &str, number: u32, seed: u64) -> Result<Self> {
        let kept = usize::from(number.is_multiple_of(2));
        let client = Client::builder().pool_max_idle_per_host(kept);
        Ok(Self {
            client: client.timeout(PATIENCE).build()?,
            content: content.to_owned(),
            number,
            rng: StdRng::seed_from_u64(seed ^ (u64::from(number) << 32)),
            fared: Fared::default(),
        })
    }

    /// Writes and reads until the run is over.
    ///
    /// # Errors
    /// An answer has no revision.
    pub async fn play(mut self, is_over: Arc<AtomicBool>) -> Result<Fared> {
        let mut revisions = vec![0; usize::try_from(DOCUMENTS)?];
        let mut count = 0_u64;
        while !is_over.load(Ordering::SeqCst) {
            let at = self.rng.random_range(0..revisions.len());
            let path = format!("honest/{}-{at}", self.number);
            count += 1;
            let body =
                json!({ "count": count, "text": "x".repeat(self.rng.random_range(0..8_000)) });
            if let (Some(revision), Some(last)) = (
                self.write(&path, count, &body).await?,
                revisions.get_mut(at),
            ) {
                if revision != *last + 1 {
                    self.flaw("revisions", &path, format!("{revision} comes after {last}"));
                }
                *last = revision;
                self.read(&path, &body).await?;
            }
            let pause = self.rng.random_range(0..PAUSE_MAX_MS);
            sleep(Duration::from_millis(pause)).await;
        }
        let written = revisions.into_iter().enumerate();
        let written = written.filter(|(_, revision)| *revision > 0);
        let path = |at: usize| format!("honest/{}-{at}", self.number);
        self.fared.revisions = written.map(|(at, revision)| (path(at), revision)).collect();
        Ok(self.fared)
    }

    /// Puts a document. Returns its revision, unless that fails, which is a flaw.
    ///
    /// # Errors
    /// The answer has no revision.
    pub async fn write(&mut self, path: &str, count: u64, body: &Value) -> Result<Option<u64>> {
        let request = Request {
            method: Method::PUT,
            path,
            body: Some(body.to_string()),
            key: Some(format!("{}-{count}", self.number)),
        };
        let Some(answer) = self.ask(&request).await else {
            return Ok(None);
        };
        let revision = answer.headers().get("revision");
        let revision = revision.context("no revision")?.to_str()?.parse()?;
        Ok(Some(revision))
    }

    async fn read(&mut self, path: &str, written: &Value) -> Result<()> {
        let request = Request {
            method: Method::GET,
            path,
            body: None,
            key: None,
        };
        let Some(answer) = self.ask(&request).await else {
            return Ok(());
        };
        // An answer that is cut in its body is none.
        let Ok(read) = answer.text().await else {
            self.fared.cut += 1;
            return Ok(());
        };
        if serde_json::from_str::<Value>(&read)? != *written {
            let detail = format!("{read:.80} was read after {written:.80}");
            self.flaw("reads", path, detail);
        }
        Ok(())
    }

    /// What this client met so far.
    #[must_use]
    pub fn fared(self) -> Fared {
        self.fared
    }

    fn flaw(&mut self, check: &'static str, path: &str, detail: String) {
        self.fared.flaws.push(Flaw::new(check, path, detail));
    }

    /// Asks until there is an answer. `None` if there is none for a minute, or one that is no success.
    async fn ask(&mut self, request: &Request<'_>) -> Option<Response> {
        let first = Instant::now();
        while first.elapsed() < LIMIT {
            let begun = Instant::now();
            match self.send(request).await {
                Err(_) => self.fared.cut += 1,
                Ok(answer) if answer.status().is_success() => {
                    self.fared.requests += 1;
                    self.fared.slowest = self.fared.slowest.max(begun.elapsed());
                    return Some(answer);
                }
                Ok(answer) if !may_try_again(&answer) => {
                    let detail = format!("{} is answered with {answer:?}", request.method);
                    self.flaw("answers", request.path, detail);
                    return None;
                }
                Ok(_) => self.fared.busy += 1,
            }
            let pause = self.rng.random_range(0..PAUSE_MAX_MS);
            sleep(Duration::from_millis(pause)).await;
        }
        let detail = format!("no answer to {} within {LIMIT:?}", request.method);
        self.flaw("answers", request.path, detail);
        None
    }

    async fn send(&self, request: &Request<'_>) -> reqwest::Result<Response> {
        let url = format!("{}{}", self.content, request.path);
        let mut call = self.client.request(request.method.clone(), url);
        call = call.bearer_auth(TOKEN);
        if let Some(key) = &request.key {
            call = call.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            call = call.body(body.clone());
        }
        call.send().await
    }
}

/// Whether an answer says that another try can succeed, and when.
fn may_try_again(answer: &Response) -> bool {
    let passes = [
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    passes.contains(&answer.status()) && answer.headers().contains_key(header::RETRY_AFTER)
}
