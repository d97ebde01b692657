//! A client with the token that writes and reads. Each of its requests has to succeed, and the gateway
//! has to keep its promise to callers with the token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use storage_tests::torture::oracle::Flaw;
use tokio::time::{Instant, sleep};

use super::caller::{Answer, Caller, Request};
use super::promise::Failed;

/// How long a request may need, with all of its tries.
const LIMIT: Duration = Duration::from_secs(60);
/// The documents of a client.
const DOCUMENTS: u32 = 4;
/// The longest pause between two requests, and before another try.
const PAUSE_MAX_MS: u64 = 30;

/// How honest clients fared.
#[derive(Debug, Default)]
pub struct Fared {
    /// The requests that were answered.
    pub requests: u32,
    /// The answers that asked for another try, since changes come faster than they land.
    pub busy: u32,
    /// The tries that ended as the gateway may end them: on connections that were not known yet, or that
    /// had rested.
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

    fn flaw(&mut self, check: &'static str, path: &str, detail: String) {
        self.flaws.push(Flaw::new(check, path, detail));
    }

    /// Takes a whole answer. Returns whether it is the end of the request.
    fn answered(&mut self, request: &Request<'_>, answer: &Answer) -> bool {
        let is_overload = answer.status == 429 && answer.header("retry-after").is_some();
        match answer.status {
            200..300 => self.requests += 1,
            _ if is_overload => self.busy += 1,
            _ => {
                let detail = format!("{} is answered with {answer:?}", request.method);
                self.flaw("answers", request.resource, detail);
            }
        }
        !is_overload
    }

    /// Takes a try without an answer.
    fn failed(&mut self, request: &Request<'_>, failed: &Failed) {
        if failed.is_as_promised() {
            self.cut += 1;
        } else {
            let detail = format!("{} ended so: {failed:?}", request.method);
            self.flaw("cuts", request.resource, detail);
        }
    }
}

/// An honest client.
#[derive(Debug)]
pub struct Honest {
    caller: Caller,
    number: u32,
    rng: StdRng,
    fared: Fared,
    written: Arc<AtomicU64>,
}

impl Honest {
    /// A client by its number. Every second one opens a connection for each request.
    #[must_use]
    pub fn new(address: SocketAddr, number: u32, seed: u64) -> Self {
        Self {
            caller: Caller::new(address, number.is_multiple_of(2)),
            number,
            rng: StdRng::seed_from_u64(seed ^ (u64::from(number) << 32)),
            fared: Fared::default(),
            written: Arc::default(),
        }
    }

    /// The number of writes so far. It rises while the client plays.
    #[must_use]
    pub fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
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
                    let detail = format!("{revision} comes after {last}");
                    self.fared.flaw("revisions", &path, detail);
                }
                *last = revision;
                self.read(&path, &body).await?;
            }
            self.pause().await;
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
            method: "PUT",
            resource: &format!("content/{path}"),
            key: Some(format!("{}-{count}", self.number)),
            body: body.to_string(),
        };
        let Some(answer) = self.ask(&request).await? else {
            return Ok(None);
        };
        self.written.fetch_add(1, Ordering::SeqCst);
        let revision = answer.header("revision").context("no revision")?;
        Ok(Some(revision.parse()?))
    }

    async fn read(&mut self, path: &str, written: &Value) -> Result<()> {
        let resource = format!("content/{path}");
        let Some(answer) = self.ask(&Request::get(&resource)).await? else {
            return Ok(());
        };
        if serde_json::from_str::<Value>(&answer.body)? != *written {
            let detail = format!("{:.80} was read after {written:.80}", answer.body);
            self.fared.flaw("reads", path, detail);
        }
        Ok(())
    }

    /// A number of the gateway's page of metrics.
    ///
    /// # Errors
    /// There is no page, or it has no such number.
    pub async fn figure(&mut self, name: &str) -> Result<f64> {
        let answer = self.ask(&Request::get("_metrics")).await?;
        let answer = answer.with_context(|| format!("no metrics: {:?}", self.fared.flaws))?;
        let mut lines = answer.body.lines().filter_map(|line| line.split_once(' '));
        let line = lines.find(|(of, _)| *of == name);
        let (_, figure) = line.with_context(|| format!("no {name} in {}", answer.body))?;
        Ok(figure.parse()?)
    }

    /// What this client met so far.
    #[must_use]
    pub fn fared(self) -> Fared {
        self.fared
    }

    async fn pause(&mut self) {
        let pause = self.rng.random_range(0..PAUSE_MAX_MS);
        sleep(Duration::from_millis(pause)).await;
    }

    /// Asks until there is an answer. `None` if there is none for a minute, or one that is no success.
    async fn ask(&mut self, request: &Request<'_>) -> Result<Option<Answer>> {
        let first = Instant::now();
        while first.elapsed() < LIMIT {
            let begun = Instant::now();
            match self.caller.call(request).await? {
                Err(failed) => self.fared.failed(request, &failed),
                Ok(answer) => {
                    if self.fared.answered(request, &answer) {
                        self.fared.slowest = self.fared.slowest.max(begun.elapsed());
                        return Ok((answer.status < 300).then_some(answer));
                    }
                }
            }
            self.pause().await;
        }
        let detail = format!("no answer to {} within {LIMIT:?}", request.method);
        self.fared.flaw("answers", request.resource, detail);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::promise::{Met, Standing};

    fn failed(standing: Standing, met: Met) -> Fared {
        let mut fared = Fared::default();
        let why = String::new();
        fared.failed(&Request::get("a"), &Failed { standing, met, why });
        fared
    }

    #[test]
    fn a_known_caller_that_is_cut_has_found_a_flaw() {
        for met in [Met::Silence, Met::Cut, Met::Torn, Met::Room] {
            let known = failed(Standing::Known, met);
            assert_eq!((known.flaws.len(), known.cut), (1, 0), "{met:?}");
        }
        for met in [Met::Cut, Met::Room] {
            let new = failed(Standing::New, met);
            assert_eq!((new.flaws.len(), new.cut), (0, 1), "{met:?}");
        }
    }
}
