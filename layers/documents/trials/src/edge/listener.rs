//! An honest client that follows the live feed. It hears every change, or is told to read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::Client;
use serde::Deserialize;
use storage_tests::torture::oracle::Flaw;
use tokio::time::sleep;

use crate::events::{Event, Source};
use crate::gateway::TOKEN;

/// The pause before it comes back.
const AGAIN: Duration = Duration::from_millis(50);

/// What it heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// Whether it was told once that changes after this are told.
    pub has_begun: bool,
    /// The last revision of each document. A document that is missing is unknown.
    revisions: BTreeMap<String, u64>,
    /// Whether all documents are known from their first change on.
    is_complete: bool,
    /// The changes.
    pub changes: u32,
    /// The times that it was told to read again.
    pub resets: u32,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

/// What a listener heard so far.
pub type Hearing = Arc<Mutex<Heard>>;

#[derive(Deserialize)]
struct Change {
    path: String,
    revision: u64,
}

impl Heard {
    fn take(&mut self, event: &Event) -> Result<()> {
        match event.name.as_str() {
            "begin" if !self.has_begun => {
                (self.has_begun, self.is_complete) = (true, true);
            }
            "begin" => {}
            "reset" => {
                self.resets += 1;
                self.is_complete = false;
                self.revisions.clear();
            }
            _ => {
                let change = serde_json::from_str(&event.data);
                self.change(change.with_context(|| format!("no change: {}", event.data))?);
            }
        }
        Ok(())
    }

    /// Takes a change. One that comes twice is no flaw, and one that is missing is.
    fn change(&mut self, change: Change) {
        self.changes += 1;
        let Change { path, revision } = change;
        let known = self.revisions.get(&path).copied();
        let known = known.or(self.is_complete.then_some(0));
        if known.is_some_and(|known| revision > known + 1) {
            let detail = format!("revision {revision} was told after {known:?}");
            self.flaws.push(Flaw::new("feed", &path, detail));
        }
        let last = self.revisions.entry(path).or_default();
        *last = (*last).max(revision);
    }

    /// Whether it has heard the last change of each document that it has to know.
    #[must_use]
    pub fn is_up_to_date(&self, written: &[(String, u64)]) -> bool {
        written.iter().all(|(path, revision)| {
            let heard = self.revisions.get(path);
            heard.map_or(!self.is_complete, |heard| heard >= revision)
        })
    }
}

/// Follows the feed until it is dropped.
///
/// # Errors
/// The feed sends something else than events.
pub async fn follow(client: Client, url: String, hearing: Hearing) -> Result<()> {
    let mut source = Source::default();
    loop {
        let mut call = client.get(&url).bearer_auth(TOKEN);
        if let Some(id) = source.last_id() {
            call = call.header("last-event-id", id);
        }
        let feed = call
            .send()
            .await
            .and_then(reqwest::Response::error_for_status);
        if let Ok(mut feed) = feed {
            while let Ok(Some(chunk)) = feed.chunk().await {
                source.push(&chunk)?;
                while let Some(event) = source.line()? {
                    let mut heard = hearing.lock().unwrap_or_else(PoisonError::into_inner);
                    event.map_or(Ok(()), |event| heard.take(&event))?;
                }
            }
        }
        source.breaks();
        sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(events: &[(&str, u64)]) -> Heard {
        let mut heard = Heard::default();
        for (name, revision) in events {
            let event = Event {
                name: (*name).to_owned(),
                data: format!(r#"{{"path":"a","revision":{revision}}}"#),
            };
            heard.take(&event).unwrap();
        }
        heard
    }

    #[test]
    fn a_listener_misses_no_change_unless_it_is_told_to_read_again() {
        let written = [("a".to_owned(), 3)];
        let good = heard(&[
            ("begin", 0),
            ("feed:put", 1),
            ("feed:put", 2),
            ("feed:put", 1),
            ("feed:put", 3),
        ]);
        assert!(good.flaws.is_empty() && good.is_up_to_date(&written));
        let again = heard(&[("begin", 0), ("reset", 0), ("feed:put", 3)]);
        assert!(again.flaws.is_empty() && again.is_up_to_date(&written));
        assert_eq!(heard(&[("begin", 0), ("feed:put", 2)]).flaws.len(), 1);
        assert_eq!(
            heard(&[("begin", 0), ("feed:put", 1), ("feed:put", 3)])
                .flaws
                .len(),
            1
        );
        assert!(!heard(&[("begin", 0), ("feed:put", 1)]).is_up_to_date(&written));
        assert!(!heard(&[("begin", 0)]).is_up_to_date(&written));
    }
}
