//! The stored data after a run, as a client reads it, and the events that the sink got.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::client::{Answer, Client, Request};
use super::judge::{Finals, Read};
use super::owned::without_id;
use super::place::Place;
use super::receiver::At;
use super::told::head;

/// How long the sink may need to get the last event.
const CATCH_UP: Duration = Duration::from_secs(60);

/// The places that the sink got, once it has got so many, or after a while.
pub async fn caught_up(place: &Place, events: usize) -> Vec<At> {
    let begun = Instant::now();
    loop {
        let got = place.receiver.got();
        let different: BTreeSet<At> = got.iter().copied().collect();
        if different.len() >= events || begun.elapsed() > CATCH_UP {
            return got;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The documents and collections that are stored.
///
/// # Errors
/// A gateway does not answer.
pub async fn stored(client: &Client, paths: impl Iterator<Item = &str>) -> Result<Finals> {
    let mut finals = Finals::default();
    let heads: BTreeSet<&str> = paths.map(head).collect();
    for head in heads {
        let mut next = Some(head.to_owned());
        while let Some(path) = next {
            let answer = client
                .ask(&mut StdRng::seed_from_u64(0), &Request::get(&path))
                .await;
            let answer = answer.with_context(|| format!("no answer for {head}"))?;
            ensure!(
                matches!(answer.status, 200 | 404),
                "{head}: {}",
                answer.body
            );
            next = answer.next.clone();
            if answer.status == 200 {
                finals.add(head, answer);
            }
        }
    }
    Ok(finals)
}

impl Finals {
    /// Adds a document, or a page of a collection.
    fn add(&mut self, head: &str, answer: Answer) {
        if let Some(items) = answer.body.as_array() {
            let told = (answer.count, answer.revision);
            self.collections.insert(head.to_owned(), told);
            let items = items.iter().filter_map(|item| item_of(head, item));
            self.documents.extend(items);
            return;
        }
        let read = Read {
            tag: answer.tag,
            revision: answer.revision,
            // A document that was posted has its id.
            body: without_id(answer.body.as_object().cloned().unwrap_or_default()),
        };
        self.documents.insert(head.to_owned(), read);
    }
}

/// An item of a list, with its path.
fn item_of(collection: &str, item: &Value) -> Option<(String, Read)> {
    let body = item.as_object()?.clone();
    let id = body.get("id")?.as_str()?;
    let path = format!("{collection}/{id}");
    let read = Read {
        tag: None,
        revision: None,
        body: without_id(body),
    };
    Some((path, read))
}
