//! Documents and collections that all clients write: counters, patches, collections that are deleted
//! whole, and posts.

use anyhow::Result;
use rand::RngExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, INCREMENT, Request};
use super::history::{Asked, End, History, Kind};
use super::play::Player;

/// The number of documents, or collections, of each kind.
const EACH: u32 = 3;
/// The number of items of a collection that is deleted whole.
const ITEMS: u32 = 8;

/// Creates the documents that clients patch.
///
/// # Errors
/// A gateway does not answer.
pub async fn create(client: &Client, history: &History) -> Result<()> {
    let mut rng = rand::SeedableRng::seed_from_u64(0);
    for number in 0..EACH {
        for kind in ["count", "patch"] {
            let (path, token) = (
                format!("shared/{kind}{number}"),
                format!("{kind}-of-{number}"),
            );
            let request = Request {
                method: Method::PUT,
                path: path.clone(),
                body: Some(json!({ "by": token, "n": 0 }).to_string()),
                headers: Vec::new(),
            };
            let answer = client.ask(&mut rng, &request).await;
            let answer = answer.filter(|answer| answer.status == 201);
            anyhow::ensure!(answer.is_some(), "{path} can't be created");
            let revision = answer.as_ref().and_then(|answer| answer.revision);
            history.add(Asked {
                path,
                kind: Kind::Put,
                token,
                end: End::Acked {
                    revision: revision.unwrap_or_default(),
                    first: answer.and_then(|answer| answer.tag.zip(answer.event)),
                },
            })?;
        }
    }
    Ok(())
}

impl Player {
    /// One change of something that others change, too.
    pub(super) async fn play_shared(&mut self) -> Result<()> {
        let number = self.rng.random_range(0..EACH);
        match self.rng.random_range(0..100) {
            0..30 => self.count(&format!("shared/count{number}")).await,
            30..50 => {
                let path = format!("shared/patch{number}");
                self.try_once(Method::PATCH, &path, Kind::Patch).await
            }
            50..70 => self.post(&format!("posts{number}~")).await,
            70..72 => {
                let path = format!("gone{number}~");
                self.try_once(Method::DELETE, &path, Kind::Delete).await
            }
            of => {
                let item = self.rng.random_range(0..ITEMS);
                let path = format!("gone{number}~/x{item}");
                let (method, kind) = match of {
                    72..90 => (Method::PUT, Kind::Put),
                    90..95 => (Method::PATCH, Kind::Patch),
                    _ => (Method::DELETE, Kind::Delete),
                };
                self.try_once(method, &path, kind).await
            }
        }
    }

    /// Adds an amount that no other increment has.
    async fn count(&mut self, path: &str) -> Result<()> {
        let amount = self.amount();
        let request = Request {
            method: Method::PATCH,
            path: path.to_owned(),
            body: Some(json!({ "n": amount }).to_string()),
            headers: vec![("content-type", INCREMENT.to_owned())],
        };
        let answer = self.client.ask(&mut self.rng, &request).await;
        self.record(
            (path, Kind::Increment, &amount.to_string()),
            answer.as_ref(),
        )
    }

    /// A change without a key. So its outcome can stay unknown.
    async fn try_once(&mut self, method: Method, path: &str, kind: Kind) -> Result<()> {
        let token = if kind == Kind::Delete {
            String::new()
        } else {
            self.token()
        };
        let body = (kind != Kind::Delete).then(|| json!({ "by": token }).to_string());
        let request = Request {
            method,
            path: path.to_owned(),
            body,
            headers: Vec::new(),
        };
        let answer = self.client.ask(&mut self.rng, &request).await;
        self.record((path, kind, &token), answer.as_ref())
    }

    /// Posts an item, once, however often it must try.
    async fn post(&mut self, collection: &str) -> Result<()> {
        let token = self.token();
        let request = Request {
            method: Method::POST,
            path: collection.to_owned(),
            body: Some(json!({ "by": token }).to_string()),
            headers: vec![("idempotency-key", token.clone())],
        };
        let answer = self.carry_out(&request).await;
        let path = answer.as_ref().and_then(|answer| answer.body.get("path"));
        let path = path.and_then(Value::as_str).unwrap_or(collection);
        self.record((path, Kind::Post, &token), answer.as_ref())
    }
}
