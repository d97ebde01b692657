//! A client with an outbox. It sends its changes with keys, some of them as several copies at once,
//! and later all of them again: at random times and through any gateway. Each of them is made once, and
//! each repeat is answered as the first call was.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::client::{Answer, INCREMENT, Outcome, Request};
use super::history::{History, Kind};
use super::play::{Player, carry_out};

/// The documents, the items and the counters of an outbox.
const EACH: u32 = 4;
/// The most copies that are sent at once.
const COPIES_MAX: usize = 3;
/// The repeats that are under way at once.
const AT_ONCE: usize = 8;
/// The longest pause between two calls.
const PAUSE_MAX_MS: u64 = 30;

/// A change that was sent, and how it was answered.
#[derive(Debug)]
struct Sent {
    request: Request,
    first: Answer,
}

/// A client with an outbox.
#[derive(Debug)]
pub struct Outbox {
    player: Player,
    sent: Vec<Sent>,
    /// The documents and items that are there, other than counters.
    there: BTreeSet<String>,
}

impl Outbox {
    /// An outbox of this client, which has sent nothing yet.
    #[must_use]
    pub fn new(player: Player) -> Self {
        Self {
            player,
            sent: Vec::new(),
            there: BTreeSet::new(),
        }
    }

    /// Sends until the run is over. Then it sends all of it once more.
    ///
    /// # Errors
    /// The history can't be written.
    pub async fn play(mut self) -> Result<()> {
        for number in 0..EACH {
            let path = format!("box/{}/count{number}", self.player.task);
            let token = self.player.token();
            let body = json!({ "by": token, "n": 0 });
            self.send((Method::PUT, Kind::Put), path, (token, Some(body)))
                .await?;
        }
        while !self.player.is_over.load(Ordering::SeqCst) {
            match self.player.rng.random_range(0..100) {
                0..70 => self.change().await?,
                70..98 => self.repeat_one().await,
                _ => self.repeat_all().await,
            }
            let pause = self.player.rng.random_range(0..PAUSE_MAX_MS);
            sleep(Duration::from_millis(pause)).await;
        }
        self.repeat_all().await;
        Ok(())
    }

    /// A change that nothing can refuse.
    async fn change(&mut self) -> Result<()> {
        let (task, number) = (self.player.task, self.player.rng.random_range(0..EACH));
        let of = self.player.rng.random_range(0..100);
        if of < 30 {
            let amount = self.player.amount();
            let body = json!({ "n": amount });
            let path = format!("box/{task}/count{number}");
            let change = (Method::PATCH, Kind::Increment);
            return self
                .send(change, path, (amount.to_string(), Some(body)))
                .await;
        }
        let gone = self.player.rng.random_range(0..self.there.len().max(1));
        let gone = self.there.iter().nth(gone).filter(|_| of >= 90).cloned();
        if let Some(path) = gone {
            self.there.remove(&path);
            let change = (Method::DELETE, Kind::Delete);
            return self.send(change, path, (String::new(), None)).await;
        }
        let (change, path) = match of {
            30..45 => ((Method::POST, Kind::Post), format!("box{task}~")),
            45..55 => ((Method::POST, Kind::Post), format!("box/{task}/post")),
            55..75 => ((Method::PUT, Kind::Put), format!("box/{task}/{number}")),
            _ => ((Method::PUT, Kind::Put), format!("box{task}~/{number}")),
        };
        if change.1 == Kind::Put {
            self.there.insert(path.clone());
        }
        let token = self.player.token();
        let body = json!({ "by": token });
        self.send(change, path, (token, Some(body))).await
    }

    /// Sends a new change, and maybe copies of it at the same time.
    async fn send(
        &mut self,
        (method, kind): (Method, Kind),
        path: String,
        (token, body): (String, Option<Value>),
    ) -> Result<()> {
        let mut headers = vec![("idempotency-key", self.player.token())];
        if kind == Kind::Increment {
            headers.push(("content-type", INCREMENT.to_owned()));
        }
        let request = Request {
            method,
            path,
            body: body.map(|body| body.to_string()),
            headers,
        };
        let copies = self.player.rng.random_range(1..=COPIES_MAX);
        let mut answers = self.carry_out(vec![&request; copies]).await;
        let history = &self.player.history;
        if answers.iter().filter(|answer| !answer.is_repeat).count() > 1 {
            let detail = format!("several copies of one call were carried out: {answers:?}");
            history.flaw("repeats", &request.path, detail);
        }
        let Some(at) = answers
            .iter()
            .position(|answer| !answer.is_repeat)
            .or((!answers.is_empty()).then_some(0))
        else {
            return self.player.record((&request.path, kind, &token), None);
        };
        let mut first = answers.swap_remove(at);
        let made = first.body.get("path").and_then(Value::as_str);
        let made = made.unwrap_or(&request.path).to_owned();
        self.player.record((&made, kind, &token), Some(&first))?;
        if first.outcome() != Outcome::Made {
            let detail = format!("{request:?} is refused: {first:?}");
            history.flaw("refusals", &request.path, detail);
            return Ok(());
        }
        for again in answers {
            compare(&mut first, again, history);
        }
        self.sent.push(Sent { request, first });
        Ok(())
    }

    async fn repeat_one(&mut self) {
        let at = self.player.rng.random_range(0..self.sent.len().max(1));
        self.repeat(vec![at]).await;
    }

    /// Sends all of it again, in any order.
    async fn repeat_all(&mut self) {
        let mut order: Vec<usize> = (0..self.sent.len()).collect();
        order.shuffle(&mut self.player.rng);
        self.repeat(order).await;
    }

    /// Sends these changes again, and compares the answers.
    async fn repeat(&mut self, order: Vec<usize>) {
        for part in order.chunks(AT_ONCE) {
            let requests = part.iter().filter_map(|at| self.sent.get(*at));
            let requests: Vec<Request> = requests.map(|sent| sent.request.clone()).collect();
            let answers = self.carry_out(requests.iter().collect()).await;
            // A call without an answer is a flaw already, and leaves the others without a place.
            if answers.len() < part.len() {
                continue;
            }
            for (at, again) in part.iter().zip(answers) {
                if let Some(sent) = self.sent.get_mut(*at) {
                    compare(&mut sent.first, again, &self.player.history);
                }
            }
        }
    }

    /// Carries requests out at once, each through any gateways. Returns the answers in their order.
    async fn carry_out(&mut self, requests: Vec<&Request>) -> Vec<Answer> {
        let (client, history) = (&self.player.client, &*self.player.history);
        let seeds: Vec<u64> = requests
            .iter()
            .map(|_| self.player.rng.next_u64())
            .collect();
        let calls = requests.into_iter().zip(seeds);
        let calls = calls.map(|(request, seed)| async move {
            let mut rng = StdRng::seed_from_u64(seed);
            carry_out((client, history), &mut rng, request).await
        });
        join_all(calls).await.into_iter().flatten().collect()
    }
}

/// Compares the answer to a repeat with that of the first call. A first call can have been cut off
/// before it wrote its answer down. Then a repeat has no transaction, and for an item no revision of
/// that time.
fn compare(first: &mut Answer, again: Answer, history: &History) {
    history.repeated();
    let member = |answer: &Answer, name: &str| answer.body.get(name).cloned();
    let path = member(first, "path").and_then(|path| path.as_str().map(str::to_owned));
    let path = path.unwrap_or_default();
    let is_there = |answer: &Answer| (answer.status, answer.tag.clone(), member(answer, "target"));
    let is_whole = first.event.is_some() && again.event.is_some();
    let is_item = path.contains('~');
    let complaint = if !again.is_repeat || again.outcome() != Outcome::Made {
        "a repeat is no repeat"
    } else if is_there(first) != is_there(&again)
        || member(&again, "path").is_none_or(|of| of != path)
    {
        "a repeat is answered otherwise"
    } else if is_whole && (&first.event, &first.body) != (&again.event, &again.body) {
        "a repeat tells another change"
    } else if (is_whole || !is_item) && first.revision != again.revision {
        "a repeat has another revision"
    } else {
        // The first call can be about to write its answer down.
        if first.event.is_none() {
            *first = again;
        }
        return;
    };
    let detail = format!("{complaint}: {again:?} comes after {first:?}");
    history.flaw("repeats", &path, detail);
}
