//! An honest client that follows the live feed. It hears every change, or is told to read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::{Client, Response};
use serde::Deserialize;
use storage_coalesce::locked;
use storage_tests::torture::oracle::Flaw;
use tokio::time::{sleep, timeout};

use super::promise::{Failed, Met, Standing, makes_room};
use crate::events::{Event, Source};
use crate::gateway::TOKEN;

/// The pause before it comes back.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a feed may need to begin.
const PATIENCE: Duration = Duration::from_secs(20);

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
    /// The tries to open the feed that ended as the gateway may end them: before it has read the token.
    pub cut: u32,
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

    /// Takes a try to open the feed that failed, or the end of an open feed.
    fn fails(&mut self, failed: &Failed) {
        if failed.is_as_promised() {
            self.cut += 1;
        } else {
            let detail = format!("the feed ended so: {failed:?}");
            self.flaws.push(Flaw::new("cuts", "feed", detail));
        }
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

/// Follows the feed until it is dropped. The trial drops it before it ends the gateway, so no open feed
/// may end.
///
/// # Errors
/// The feed sends something else than events.
pub async fn follow(url: String, hearing: Hearing) -> Result<()> {
    // No connection is taken again, so each of them is new to the gateway.
    let client = Client::builder().pool_max_idle_per_host(0).build()?;
    let mut source = Source::default();
    loop {
        let failed = match open(&client, &url, source.last_id()).await {
            Ok(feed) => hear(feed, &mut source, &hearing).await?,
            Err(failed) => failed,
        };
        locked(&hearing).fails(&failed);
        source.breaks();
        sleep(AGAIN).await;
    }
}

/// Opens the feed behind the last id.
async fn open(client: &Client, url: &str, id: Option<&str>) -> Result<Response, Failed> {
    let mut call = client.get(url).bearer_auth(TOKEN);
    if let Some(id) = id {
        call = call.header("last-event-id", id);
    }
    let feed = match timeout(PATIENCE, call.send()).await {
        Ok(Ok(feed)) if feed.status().is_success() => return Ok(feed),
        Ok(feed) => feed,
        Err(_) => {
            let why = format!("no answer within {PATIENCE:?}");
            return Err(failed(Standing::New, Met::Silence, why));
        }
    };
    match feed {
        Ok(refused) => Err(of_refusal(refused).await),
        Err(error) => Err(failed(Standing::New, Met::Cut, format!("{error:#}"))),
    }
}

fn failed(standing: Standing, met: Met, why: String) -> Failed {
    Failed { standing, met, why }
}

/// A refusal. Another one than that of a connection that makes room comes behind the token.
async fn of_refusal(refused: Response) -> Failed {
    let status = refused.status().as_u16();
    let body = refused.text().await.unwrap_or_default();
    let standing = if makes_room(status, &body) {
        Standing::New
    } else {
        Standing::Known
    };
    failed(standing, Met::Room, format!("{status}: {body}"))
}

/// Hears an open feed until it ends.
async fn hear(mut feed: Response, source: &mut Source, hearing: &Hearing) -> Result<Failed> {
    let why = loop {
        match feed.chunk().await {
            Ok(Some(chunk)) => source.push(&chunk)?,
            Ok(None) => break "it ended in order".to_owned(),
            Err(error) => break format!("{error:#}"),
        }
        while let Some(event) = source.line()? {
            event.map_or(Ok(()), |event| locked(hearing).take(&event))?;
        }
    };
    Ok(failed(Standing::Known, Met::Cut, why))
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

    #[test]
    fn an_open_feed_that_ends_is_a_flaw_and_one_that_did_not_open_makes_room() {
        let mut heard = Heard::default();
        heard.fails(&failed(Standing::New, Met::Cut, String::new()));
        heard.fails(&failed(Standing::New, Met::Room, String::new()));
        assert_eq!((heard.cut, heard.flaws.len()), (2, 0));
        heard.fails(&failed(Standing::Known, Met::Cut, String::new()));
        heard.fails(&failed(Standing::Known, Met::Room, String::new()));
        assert_eq!((heard.cut, heard.flaws.len()), (2, 2));
    }
}
