//! One client of the live feed.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use axum::response::sse::Event as Line;
use storage_documents::filter::Filter;
use storage_documents::json::Json;
use storage_documents::missed::{Missed, Step};
use storage_documents::{Change, Documents, Event, Method, Prefixes};
use storage_sdk::feed::{Cursor, Event as Told, Position};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

use crate::feed::{Hub, Seat, Spread};
use crate::parameters::cursor;
use crate::problem::{self, Problem};
use crate::shared::Shared;

/// An id of at most so many bytes comes with each event.
const SHORT_ID: usize = 256;
/// A longer one comes once in this time. After it a client that comes back gets some events anew.
const ID_EVERY: Duration = Duration::from_secs(1);
/// A client that is told nothing gets the id of its place once in this time. So it does not come back to
/// an old one.
const PLACE_EVERY: Duration = Duration::from_secs(10);
/// The most paths of which a client with a filter is remembered to know that they are left out.
const KNOWN_MAX: usize = 65_536;

/// A client of the feed.
pub(crate) struct Follower {
    documents: Documents,
    hub: Hub,
    seat: Seat,
    prefixes: Prefixes,
    filter: Option<Filter>,
    /// Behind the events that the client was told, or that do not concern it.
    place: Cursor,
    /// Lines that are still to be sent.
    waiting: VecDeque<Line>,
    /// What it still has to be told from before it came.
    missed: Option<Missed>,
    /// Paths that the filter leaves out, and of which the client was told so.
    left: HashMap<String, ()>,
    id_sent: Option<Instant>,
    /// Whether the place has moved since then.
    has_moved: bool,
}

/// What a client with a filter is told of an event.
enum EventView {
    Whole,
    /// The document has left the filter.
    Leave,
    /// Nothing: it is left out, and the client knows that.
    Not,
    /// The document can't be read now.
    Unknown,
}

impl Follower {
    /// A client that takes part from now on.
    ///
    /// # Errors
    /// The hot tier can't be read.
    pub(crate) async fn new(
        shared: &Shared,
        prefixes: Prefixes,
        filter: Option<Filter>,
    ) -> Result<Self, Problem> {
        let seat = shared.hub.seat().await?;
        Ok(Self {
            documents: shared.documents.clone(),
            hub: shared.hub.clone(),
            place: seat.begins.clone(),
            seat,
            prefixes,
            filter,
            waiting: VecDeque::new(),
            missed: None,
            left: HashMap::new(),
            id_sent: None,
            has_moved: false,
        })
    }

    /// Begins behind the event with an id. Without one, it begins now.
    ///
    /// # Errors
    /// `request`: the id is none that this feed gave.
    pub(crate) async fn begin(mut self, since: Option<&str>) -> Result<Self, Problem> {
        let Some(since) = since else {
            self.tell_begin();
            return Ok(self);
        };
        let cursor = cursor(since).ok_or_else(|| {
            let message =
                format!("{since:?} is no id of this feed; send an id as the feed gave it, or none");
            Problem::new(problem::REQUEST, message)
        })?;
        let (documents, end) = (&self.documents, &self.seat.begins);
        let missed = documents.missed(&cursor, end, &self.prefixes).await?;
        // ORDER: the place of the client. Whoever comes back before the first event misses nothing.
        self.place = cursor;
        self.tell_begin();
        if missed.is_none() {
            self.reset(self.seat.begins.clone());
        }
        self.missed = missed;
        Ok(self)
    }

    /// Adds the first line.
    fn tell_begin(&mut self) {
        let begin = self.named("begin", "{}".to_owned());
        self.waiting.push_back(begin);
    }

    /// The next line. `None` once the process is about to end.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line);
            }
            if let Some(missed) = &mut self.missed {
                let step = tokio::select! {
                    step = missed.next() => step,
                    _ = self.seat.draining.wait_for(|draining| *draining) => return None,
                };
                self.catch_up(step).await?;
                continue;
            }
            let due = self.id_sent.filter(|_| self.has_moved);
            let spread = tokio::select! {
                spread = self.seat.told.recv() => Some(spread),
                () = place_is_due(due) => None,
                _ = self.seat.draining.wait_for(|draining| *draining) => return None,
            };
            let Some(spread) = spread else {
                return Some(self.place_line());
            };
            match spread {
                Ok(Spread::Event(told)) => match told.upgrade() {
                    Some(told) if self.is_new(&told) => self.hear(&told).await,
                    Some(_) => {}
                    None => self.begin_anew(),
                },
                Ok(Spread::Reset(end)) => self.reset(Cursor::clone(&end)),
                Err(RecvError::Lagged(_)) => self.begin_anew(),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// A line without an event: an `EventSource` keeps its id and tells nobody.
    fn place_line(&mut self) -> Line {
        (self.id_sent, self.has_moved) = (Some(Instant::now()), false);
        Line::default().comment("").id(self.place.to_string())
    }

    /// Takes a step through what the client has missed. `None` if the storage can't be read: then the
    /// client comes back.
    async fn catch_up(&mut self, step: storage_documents::Result<Step>) -> Option<()> {
        match step {
            Ok(Step::Event(told)) => self.hear(&told).await,
            Ok(Step::End(end)) => {
                // Events that landed meanwhile can be beyond the place of the hub.
                self.seat.begins = end.clone();
                (self.place, self.missed, self.has_moved) = (end, None, true);
            }
            Ok(_) => {
                self.missed = None;
                self.begin_anew();
            }
            Err(error) => {
                tracing::warn!(%error, "what a client has missed can't be read now");
                return None;
            }
        }
        Some(())
    }

    /// Whether an event is behind all that the client was told before it came.
    fn is_new(&self, told: &Told) -> bool {
        let begins = self.seat.begins.of(told.partition);
        told.position > begins.unwrap_or(Position::ZERO)
    }

    /// A client that is too far behind goes on with the events from now on.
    fn begin_anew(&mut self) {
        self.seat = self.hub.next_seat();
        self.reset(self.seat.begins.clone());
    }

    fn reset(&mut self, end: Cursor) {
        (self.place, self.id_sent) = (end, None);
        self.left.clear();
        let line = self.named("reset", "{}".to_owned());
        self.waiting.push_back(line);
    }

    /// Adds the line of an event, if it concerns the client.
    async fn hear(&mut self, told: &Told) {
        self.place.move_to(told.partition, told.position);
        self.has_moved = true;
        let change = self
            .documents
            .change_of(told)
            .filter(|change| self.prefixes.concern(change));
        let (name, text) = match change {
            None => return,
            Some(Change::Event(event)) => match self.shown(&event).await {
                EventView::Not => return,
                EventView::Whole => (event.method.to_string(), event.to_text()),
                EventView::Leave => ("leave".to_owned(), event.without_body().to_text()),
                EventView::Unknown => ("reset".to_owned(), "{}".to_owned()),
            },
            Some(_) => ("reset".to_owned(), "{}".to_owned()),
        };
        let line = self.named(&name, text);
        self.waiting.push_back(line);
    }

    /// What the client is told of an event.
    async fn shown(&mut self, event: &Event) -> EventView {
        let Some(filter) = &self.filter else {
            return EventView::Whole;
        };
        let path = event.path.as_str();
        let matches = match (event.method, &event.body) {
            // A client that was told that the document has left needs no word of its end.
            (Method::Delete, _) => {
                return if self.left.remove(path).is_none() {
                    EventView::Whole
                } else {
                    EventView::Not
                };
            }
            (Method::Put, Some(body)) => {
                let body = Json::parse(body.get().as_bytes());
                body.is_ok_and(|body| filter.matches(&body))
            }
            // Boxed, so that a client without a filter keeps no room for it.
            _ => match Box::pin(self.documents.get(&event.path)).await {
                Ok(Some(present)) => {
                    let body = Json::parse(&present.body);
                    body.is_ok_and(|body| filter.matches(&body))
                }
                Ok(None) => false,
                // Nobody knows whether it matches.
                Err(_) => return EventView::Unknown,
            },
        };
        if matches {
            self.left.remove(path);
            return EventView::Whole;
        }
        if self.left.len() >= KNOWN_MAX {
            self.left.clear();
        }
        let is_new = self.left.insert(path.to_owned(), ()).is_none();
        if is_new {
            EventView::Leave
        } else {
            EventView::Not
        }
    }

    /// A line with this name, and the id that a client sends to go on behind it.
    fn named(&mut self, name: &str, text: String) -> Line {
        let line = Line::default().event(name).data(text);
        let id = self.place.to_string();
        let is_due = self.id_sent.is_none_or(|sent| sent.elapsed() >= ID_EVERY);
        if id.len() > SHORT_ID && !is_due {
            return line;
        }
        (self.id_sent, self.has_moved) = (Some(Instant::now()), false);
        line.id(id)
    }
}

/// Waits until an id that was sent at this time is old. Without one, for ever.
async fn place_is_due(sent: Option<Instant>) {
    match sent {
        Some(sent) => sleep_until(sent + PLACE_EVERY).await,
        None => pending().await,
    }
}
