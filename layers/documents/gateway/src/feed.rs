//! The live feed as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use futures::Stream;
use percent_encoding::percent_decode_str;
use storage_documents::Event;
use storage_sdk::feed::{Live, LiveEvent};
use storage_sdk::{Kind, Storage};
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::problem::{self, Problem};
use crate::routes::Shared;

/// The most events that wait for a slow client. A client that falls further behind gets `reset`.
const WAITING_MAX: usize = 4_096;
/// A comment keeps the connection alive while nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The pause before the hot tier is asked again after a failure.
const AGAIN: Duration = Duration::from_millis(500);

/// One reader of the storage's live feed, for all clients of the process.
#[derive(Debug, Clone)]
pub struct Hub {
    told: broadcast::Sender<Told>,
    draining: Arc<watch::Sender<bool>>,
}

/// What clients are told.
#[derive(Debug, Clone)]
enum Told {
    Change(Arc<Event>),
    /// Changes may be missing. Read again.
    Reset,
}

impl Hub {
    /// Begins to read the feed of a storage. Changes from now on are told.
    ///
    /// # Errors
    /// The hot tier can't be read.
    pub async fn open(storage: &Storage) -> storage_sdk::Result<Self> {
        let partitions = storage.tiers().hot().partition_count();
        let partitions = (0..partitions).map(storage_sdk::feed::Partition);
        let live = storage.live(partitions).await?;
        let hub = Self {
            told: broadcast::Sender::new(WAITING_MAX),
            draining: Arc::new(watch::Sender::new(false)),
        };
        tokio::spawn(hub.clone().read(live));
        Ok(hub)
    }

    async fn read(self, mut live: Live) {
        let mut draining = self.draining.subscribe();
        loop {
            let read = tokio::select! {
                read = live.next() => read,
                _ = draining.wait_for(|draining| *draining) => return,
            };
            match read {
                Ok(events) => self.tell(&events),
                Err(error) if error.kind() == Kind::Closed => return,
                Err(error) => {
                    tracing::warn!(%error, "the live feed can't be read now");
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// Tells all clients. Without clients nobody listens, which is fine.
    fn tell(&self, events: &[LiveEvent]) {
        for event in events {
            let told = match event {
                LiveEvent::Event(event) => {
                    Event::of(event).map(|event| Told::Change(Arc::new(event)))
                }
                _ => Some(Told::Reset),
            };
            if let Some(told) = told {
                let _ = self.told.send(told);
            }
        }
    }

    /// Ends all feeds. New ones end at once.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the process is about to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// The lines for one client: changes below a prefix.
    fn lines(&self, prefix: String) -> impl Stream<Item = Result<Line, Infallible>> + use<> {
        let client = Client {
            told: self.told.subscribe(),
            draining: self.draining.subscribe(),
            prefix,
        };
        futures::stream::unfold(client, |mut client| async move {
            let line = client.next().await?;
            Some((Ok(line), client))
        })
    }
}

/// One client of the feed.
struct Client {
    told: broadcast::Receiver<Told>,
    draining: watch::Receiver<bool>,
    prefix: String,
}

impl Client {
    /// The next line. `None` once the process is about to end.
    async fn next(&mut self) -> Option<Line> {
        loop {
            let told = tokio::select! {
                told = self.told.recv() => told,
                _ = self.draining.wait_for(|draining| *draining) => return None,
            };
            match told {
                Ok(Told::Change(event)) if !event.path.is_below(&self.prefix) => {}
                Ok(Told::Change(event)) => return Some(line_of(&event)),
                Ok(Told::Reset) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    return Some(reset());
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

fn line_of(event: &Event) -> Line {
    let line = Line::default().id(event.id());
    line.event(event.method.to_string()).data(event.to_text())
}

fn reset() -> Line {
    Line::default().event("reset").data("{}")
}

/// The feed of all documents below `?prefix=`, from now on. The first event is `open`: changes after
/// it are told. A client first waits for it, and then reads the documents.
///
/// # Errors
/// A parameter is not known.
pub async fn live(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Problem> {
    let lines = shared
        .hub
        .lines(prefix(query.as_deref().unwrap_or_default())?);
    let open = futures::stream::iter([Ok(Line::default().event("open").data("{}"))]);
    let lines = futures::StreamExt::chain(open, lines);
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// The only parameter.
fn prefix(query: &str) -> Result<String, Problem> {
    let mut prefix = String::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "prefix" {
            let message = format!("the parameter {name:?} is not known; the feed takes prefix");
            return Err(Problem::new(problem::REQUEST, message));
        }
        let value = percent_decode_str(value).decode_utf8();
        prefix = value
            .map_err(|_| Problem::new(problem::REQUEST, "prefix is no UTF-8"))?
            .into_owned();
    }
    Ok(prefix)
}
