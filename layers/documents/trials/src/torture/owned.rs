//! Documents and items that one client alone writes. It knows their state after each answer, so it
//! sees at once whether a change was lost, made twice, or not shown.

use anyhow::Result;
use rand::RngExt as _;
use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::{Answer, Outcome, Request};
use super::history::{History, Kind};
use super::play::Player;
use super::told::head;

/// A document or an item of one client.
#[derive(Debug)]
pub struct Owned {
    path: String,
    /// The body without the member `id`. `None` if there is no document.
    body: Option<Map<String, Value>>,
    /// The tag, if it is known.
    tag: Option<String>,
    /// The last revision that an answer had.
    revision: u64,
}

/// A change that a client wants.
struct Wanted {
    request: Request,
    kind: Kind,
    token: String,
    after: Option<Map<String, Value>>,
}

impl Owned {
    /// Nothing is there yet.
    #[must_use]
    pub fn new(path: String) -> Self {
        Self {
            path,
            body: None,
            tag: None,
            revision: 0,
        }
    }

    fn is_item(&self) -> bool {
        head(&self.path) != self.path
    }

    fn want(&self, rng: &mut StdRng, token: String) -> Wanted {
        let (kind, method, after, body) = match (&self.body, rng.random_range(0..100)) {
            (Some(_), 0..15) => (Kind::Delete, Method::DELETE, None, None),
            (Some(before), 15..50) => {
                let (mut after, patch) = (before.clone(), json!({ "by": token, "m": token.len() }));
                after.extend(patch.as_object().cloned().unwrap_or_default());
                (Kind::Patch, Method::PATCH, Some(after), Some(patch))
            }
            _ => {
                let body = json!({ "by": token, "n": rng.random_range(0..1_000) });
                let after = body.as_object().cloned();
                (Kind::Put, Method::PUT, after, Some(body))
            }
        };
        let mut headers = vec![("idempotency-key", token.clone())];
        let tag = self.tag.clone().filter(|_| rng.random_range(0..2) == 0);
        let tag = tag.filter(|_| self.body.is_some());
        headers.extend(tag.map(|tag| ("if-match", tag)));
        if self.body.is_none() && rng.random_range(0..2) == 0 {
            headers.push(("if-none-match", "*".to_owned()));
        }
        if rng.random_range(0..25) == 0 {
            headers.push(("hyper-storage-wait", "landed".to_owned()));
            headers.push(("prefer", "wait=2".to_owned()));
        }
        Wanted {
            request: Request {
                method,
                path: self.path.clone(),
                body: body.map(|body| body.to_string()),
                headers,
            },
            kind,
            token: if kind == Kind::Delete {
                String::new()
            } else {
                token
            },
            after,
        }
    }

    /// Takes the answer to a change over.
    fn made(&mut self, after: Option<Map<String, Value>>, answer: &Answer, history: &History) {
        let revision = answer.revision.unwrap_or_default();
        let is_next = match (self.is_item(), answer.is_repeat) {
            (false, _) => revision == self.revision + 1,
            (true, false) => revision > self.revision,
            (true, true) => revision >= self.revision,
        };
        if !is_next {
            let detail = format!("revision {revision} comes after {}", self.revision);
            history.flaw("revisions", &self.path, detail);
        }
        self.revision = revision;
        self.tag = answer.tag.clone();
        self.body = after;
    }

    /// Compares a read with the known state.
    fn compare(&mut self, answer: &Answer, history: &History) {
        let found = match answer.status {
            200 => answer.body.as_object().cloned(),
            404 => None,
            // The storage may be away.
            503 => return,
            status => {
                history.flaw(
                    "reads",
                    &self.path,
                    format!("GET answers {status}: {}", answer.body),
                );
                return;
            }
        };
        history.compared();
        let found = found.map(without_id);
        if found != self.body {
            let detail = format!("{found:?} was read after {:?}", self.body);
            history.flaw("reads", &self.path, detail);
            return;
        }
        if answer.status != 200 {
            return;
        }
        if self.tag.is_some() && self.tag != answer.tag {
            let detail = format!("tag {:?} was read after {:?}", answer.tag, self.tag);
            history.flaw("reads", &self.path, detail);
        }
        self.tag.clone_from(&answer.tag);
        if !self.is_item() && answer.revision != Some(self.revision) {
            let detail = format!(
                "revision {:?} was read after {}",
                answer.revision, self.revision
            );
            history.flaw("reads", &self.path, detail);
        }
    }
}

/// A body of an item without the member that the storage adds.
#[must_use]
pub fn without_id(mut body: Map<String, Value>) -> Map<String, Value> {
    body.remove("id");
    body
}

impl Player {
    /// Changes a document of this client, once, however often it must try.
    pub(super) async fn change_own(&mut self) -> Result<()> {
        let at = self.rng.random_range(0..self.owned.len());
        let token = self.token();
        let Some(owned) = self.owned.get(at) else {
            return Ok(());
        };
        let wanted = owned.want(&mut self.rng, token);
        let answer = self.carry_out(&wanted.request).await;
        let Wanted { kind, token, .. } = &wanted;
        let path = &wanted.request.path;
        self.record((path, *kind, token), answer.as_ref())?;
        let (Some(answer), Some(owned)) = (answer, self.owned.get_mut(at)) else {
            return Ok(());
        };
        if answer.outcome() == Outcome::Made {
            owned.made(wanted.after, &answer, &self.history);
        } else {
            let detail = format!(
                "{:?} {:?} is refused with {}: {}; known were {:?} and tag {:?}",
                kind, wanted.request.headers, answer.status, answer.body, owned.body, owned.tag
            );
            self.history.flaw("refusals", path, detail);
        }
        Ok(())
    }

    /// Reads a document of this client.
    pub(super) async fn read_own(&mut self) {
        let at = self.rng.random_range(0..self.owned.len());
        let Some(path) = self.owned.get(at).map(|owned| owned.path.clone()) else {
            return;
        };
        let answer = self.client.ask(&mut self.rng, &Request::get(&path)).await;
        if let (Some(answer), Some(owned)) = (answer, self.owned.get_mut(at)) {
            owned.compare(&answer, &self.history);
        }
    }

    /// Lists a collection by pages. All items of this client must be in it as they are.
    pub(super) async fn list(&mut self) {
        let collection = format!("guild{}~", self.rng.random_range(0..3));
        let size = self.rng.random_range(3..40);
        let mut next = Some(format!("{collection}?size={size}"));
        let mut found = Vec::new();
        while let Some(page) = next {
            let answer = self.client.ask(&mut self.rng, &Request::get(&page)).await;
            let Some(answer) = answer.filter(|answer| matches!(answer.status, 200 | 404)) else {
                return;
            };
            found.extend(answer.body.as_array().cloned().unwrap_or_default());
            next = answer.next;
        }
        self.history.compared();
        for owned in self
            .owned
            .iter()
            .filter(|owned| head(&owned.path) == collection)
        {
            let id = owned.path.rsplit('/').next().unwrap_or_default();
            let items = found
                .iter()
                .filter(|item| item.get("id").is_some_and(|of| of == id));
            let items = items.filter_map(|item| item.as_object().cloned().map(without_id));
            let items: Vec<_> = items.collect();
            let known: Vec<_> = owned.body.clone().into_iter().collect();
            if items != known {
                let detail = format!("a list has {items:?} in place of {known:?}");
                self.history.flaw("lists", &owned.path, detail);
            }
        }
    }
}
