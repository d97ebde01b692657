//! The live feed as server-sent events.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use futures::StreamExt as _;
use storage_coalesce::locked;
use storage_documents::filter::Filter;
use storage_sdk::feed::{Cursor, Event as Told, Live, LiveEvent};
use storage_sdk::layer::ColdTier;
use storage_sdk::{Kind, Storage};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{sleep, timeout};

use crate::figures::Figures;
use crate::follower::Follower;
use crate::headers;
use crate::parameters::Parameters;
use crate::problem::{self, Problem};
use crate::shared::Shared;
use crate::window::{EVENTS_MAX, Window};

/// A comment keeps the connection alive while nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the hot tier is asked while no change is known. Other gateways can have made one.
const EVERY: Duration = Duration::from_millis(20);
/// The pause after a change, so that one question finds those that come at about the same time.
const SOON: Duration = Duration::from_millis(1);
/// The pause before the hot tier is asked again after a failure.
const AGAIN: Duration = Duration::from_millis(500);
/// The time that a client waits for others that begin the feed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The header of the last event that a client has seen.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// One reader of the storage's live feed, for all clients of the process. It reads only while there
/// are some.
#[derive(Debug, Clone)]
pub struct Hub {
    storage: Storage,
    told: broadcast::Sender<Spread>,
    draining: Arc<watch::Sender<bool>>,
    tail: Arc<Mutex<Tail>>,
    /// The first client has come.
    begun: Arc<Notify>,
    /// Held while a client looks whether it is the first.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// This gateway has made a change.
    changed: Arc<Notify>,
    figures: Figures,
}

/// The tail of the feed. It changes under the lock that a client subscribes under, so that a new
/// client knows where it begins.
#[derive(Debug)]
struct Tail {
    /// How far clients were told.
    end: Cursor,
    window: Window,
    /// Whether the reader rests, since there is no client.
    rests: bool,
    /// What the reader reads next.
    next: Option<Live>,
}

/// What clients are told.
#[derive(Debug, Clone)]
pub(crate) enum Spread {
    /// A change, as long as it waits.
    Event(Weak<Told>),
    /// Changes may be missing. Read again. The feed goes on behind this place.
    Reset(Arc<Cursor>),
}

/// A client's part of the hub.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) told: broadcast::Receiver<Spread>,
    pub(crate) draining: watch::Receiver<bool>,
    /// The client is told of events behind this place.
    pub(crate) begins: Cursor,
}

impl Hub {
    /// A hub for the feed of a storage.
    #[must_use]
    pub fn new(storage: &Storage, figures: Figures) -> Self {
        let hub = Self {
            storage: storage.clone(),
            told: broadcast::Sender::new(EVENTS_MAX),
            draining: Arc::new(watch::Sender::new(false)),
            tail: Arc::new(Mutex::new(Tail {
                end: Cursor::default(),
                window: Window::default(),
                rests: true,
                next: None,
            })),
            begun: Arc::default(),
            turn: Arc::default(),
            changed: Arc::default(),
            figures,
        };
        tokio::spawn(hub.clone().read());
        hub
    }

    /// Reads until the process is about to end.
    async fn read(self) {
        let mut draining = self.draining.subscribe();
        tokio::select! {
            () = self.read_on() => {}
            _ = draining.wait_for(|draining| *draining) => {}
        }
    }

    async fn read_on(&self) {
        loop {
            self.begun.notified().await;
            let next = self.tail().next.take();
            if let Some(live) = next {
                self.follow(live).await;
            }
        }
    }

    /// Tells all changes until there are no clients.
    async fn follow(&self, mut live: Live) {
        while !self.rests() {
            let pause = match live.try_next().await {
                Ok(events) if events.is_empty() => EVERY,
                Ok(events) => {
                    self.tell(events, &live.cursor());
                    SOON
                }
                Err(error) if error.kind() == Kind::Closed => return,
                Err(error) => {
                    tracing::warn!(%error, "the live feed can't be read now");
                    AGAIN
                }
            };
            self.pause(pause).await;
        }
    }

    /// Whether there are no clients. The next one begins another feed.
    fn rests(&self) -> bool {
        let mut tail = self.tail();
        tail.rests = self.clients() == 0;
        if tail.rests {
            tail.window = Window::default();
        }
        tail.rests
    }

    /// Waits before the hot tier is asked again. A change of this gateway ends it.
    async fn pause(&self, longest: Duration) {
        if timeout(longest, self.changed.notified()).await.is_ok() {
            sleep(SOON).await;
        }
    }

    /// Says that this gateway has made a change, so that its clients are told soon.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Tells all clients.
    fn tell(&self, events: Vec<LiveEvent>, end: &Cursor) {
        self.figures.heard(events.len());
        let mut tail = self.tail();
        for event in events {
            let spread = match event {
                LiveEvent::Event(event) => Spread::Event(tail.window.add(event)),
                _ => {
                    self.figures.reset();
                    Spread::Reset(Arc::new(end.clone()))
                }
            };
            let _ = self.told.send(spread);
        }
        tail.end = end.clone();
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        locked(&self.tail)
    }

    /// Takes part: events from now on are told.
    ///
    /// # Errors
    /// This is the first client, and the hot tier can't be read.
    pub(crate) async fn seat(&self) -> Result<Seat, Problem> {
        // With a client the reader does not begin to rest.
        let _client = self.told.subscribe();
        // Of clients that come at the same time, one wakes the reader.
        let turn = timeout(PATIENCE, self.turn.lock()).await;
        let _turn = turn.map_err(|_| {
            let message = "clients that came before this one still wait for the storage";
            Problem::new(problem::STORAGE, message)
        })?;
        if self.tail().rests && !self.is_draining() {
            let count = ColdTier::of(&self.storage).partitions();
            let live = self
                .storage
                .live((0..count).map(storage_sdk::feed::Partition))
                .await
                .map_err(storage_documents::Error::from)?;
            self.begin(live);
        }
        Ok(self.next_seat())
    }

    /// Wakes the reader, which goes on with this feed.
    fn begin(&self, live: Live) {
        let mut tail = self.tail();
        (tail.rests, tail.end) = (false, live.cursor());
        tail.next = Some(live);
        self.begun.notify_one();
    }

    /// As [`Hub::seat`], for a client that has one.
    pub(crate) fn next_seat(&self) -> Seat {
        let tail = self.tail();
        Seat {
            told: self.told.subscribe(),
            draining: self.draining.subscribe(),
            begins: tail.end.clone(),
        }
    }

    /// The number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.told.receiver_count()
    }

    /// Ends all feeds. New ones end at once.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Waits until the process is about to end.
    pub(crate) async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        // The sender lives as long as the hub.
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// Whether the process is about to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}

/// The feed of all changes below each `?prefix=`, from now on, or behind the event that `Last-Event-ID`
/// names. The first event is `begin`: changes after it are told. A client first waits for it, and then
/// reads the documents.
///
/// # Errors
/// A parameter or the id can't be used, or the storage can't answer.
pub async fn live(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let mut parameters = Parameters::with_prefixes(query.as_deref())?;
    let prefixes = parameters.prefixes()?;
    let filter = parameters
        .take(&["filter"])
        .map(|text| Filter::parse(&text))
        .transpose()
        .map_err(|error| Problem::new(problem::QUERY, format!("filter: {error}")))?;
    let given = parameters.take(&["since"]);
    parameters.finish("the feed takes prefix, filter and since")?;
    // The header is of a client that comes back, so it is newer than the parameter.
    let since = match headers::text(&headers, &LAST_EVENT_ID)? {
        Some(id) if !id.is_empty() => Some(id.to_owned()),
        _ => given.filter(|since| !since.is_empty()),
    };
    let follower = Follower::new(&shared, prefixes, filter)
        .await?
        .begin(since.as_deref())
        .await?;
    let lines = futures::stream::unfold(follower, |mut follower| async move {
        let line: Line = follower.next().await?;
        Some((Ok::<Line, Infallible>(line), follower))
    });
    // A layer may ask once more behind the end.
    let lines = lines.fuse();
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}
