//! What all calls of a client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tower::retry::budget::{Budget as _, TpsBudget};

use super::directory::Directory;
use super::endpoint::Endpoint;
use super::figures::Figures;
use super::transport::{Connection, Fault, Security};
use crate::net::Dial;
use crate::{Error, GetReply, GetRequest, Malformed, Wire};

/// The time in which calls count for the budget.
const BUDGET_TIME: Duration = Duration::from_secs(10);
/// Further requests a second that few calls may need.
const BUDGET_MIN: u32 = 10;
/// The part of calls that may need a further request.
const BUDGET_PART: f32 = 0.1;

/// Messages of a schema as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    pub(crate) schema: Arc<str>,
    encode_request: fn(&GetRequest) -> bytes::Bytes,
    decode_reply: fn(bytes::Bytes) -> Result<GetReply, Malformed>,
}

impl Messages {
    pub(crate) fn of<W: Wire>(schema: Arc<str>) -> Self {
        Self {
            schema,
            encode_request: W::encode_request,
            decode_reply: W::decode_reply,
        }
    }
}

/// What the choice among hosts and the limits of requests depend on.
#[derive(Debug, Clone)]
pub(crate) struct ClientOptions {
    pub(crate) preferred_dc: Option<String>,
    pub(crate) refresh_every: Duration,
    pub(crate) reply_bytes_max: usize,
    pub(crate) security: Security,
    pub(crate) dial: Option<Arc<dyn Dial>>,
}

/// What all calls of a client share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) directory: Directory,
    pub(crate) options: ClientOptions,
    pub(crate) messages: Messages,
    pub(crate) figures: Figures,
    /// Asks for a refresh before its time.
    pub(crate) early: Notify,
    path: PathAndQuery,
    budget: TpsBudget,
    numbers: AtomicU64,
    turns: AtomicUsize,
}

impl Core {
    pub(crate) fn new<W: Wire>(schema: Arc<str>, options: ClientOptions) -> Result<Self, Error> {
        let path = format!("/{}/{}", W::SERVICE, W::METHOD);
        let path = PathAndQuery::try_from(path.as_str())
            .map_err(|error| Error::invalid(format!("{path:?} names no method: {error}")))?;
        Ok(Self {
            directory: Directory::new(),
            options,
            messages: Messages::of::<W>(schema),
            figures: Figures::default(),
            early: Notify::new(),
            path,
            budget: TpsBudget::new(BUDGET_TIME, BUDGET_MIN, BUDGET_PART),
            numbers: AtomicU64::new(1),
            turns: AtomicUsize::new(0),
        })
    }

    /// A host without a connection yet.
    pub(crate) fn endpoint(&self, address: &str) -> Result<Endpoint, Error> {
        let connection = Connection::new(
            address,
            self.path.clone(),
            &self.options.security,
            self.options.dial.as_ref(),
            self.options.reply_bytes_max,
        )?;
        Ok(Endpoint::new(address.into(), connection, Instant::now()))
    }

    /// The number of the next request. Later requests have greater numbers (V4).
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for each call, one after the other.
    pub(crate) fn next_turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// A call has begun, of which a tenth may need a further request.
    pub(crate) fn deposit(&self) {
        self.budget.deposit();
    }

    /// Whether a further request is allowed (V12).
    pub(crate) fn withdraw(&self) -> bool {
        let may = self.budget.withdraw();
        if !may {
            self.figures.budget_empty.add(1);
        }
        may
    }

    /// Sends a request to a host, and learns from its reply.
    ///
    /// # Cancel safety
    /// A dropped request is ended at the server.
    pub(crate) async fn ask(
        &self,
        endpoint: &Endpoint,
        request: &GetRequest,
        until: Instant,
    ) -> Result<GetReply, Fault> {
        let (number, begun) = (self.next_number(), Instant::now());
        // A server that waits for an event is not silent.
        let under_way = request
            .after
            .is_empty()
            .then(|| UnderWay::new(endpoint, begun));
        let left = until.saturating_duration_since(begun);
        let bytes = (self.messages.encode_request)(request);
        // ORDER: the client's own timer is asked first. The one of the transport tells the end as a cancellation.
        let asked = timeout_at(until, endpoint.connection.ask(bytes, left)).await;
        let asked = asked.unwrap_or(Err(Fault::Late));
        let reply = asked.and_then(|bytes| {
            (self.messages.decode_reply)(bytes)
                .map_err(|error| Fault::Broken(format!("the reply can't be read: {error}")))
        });
        let now = Instant::now();
        match &reply {
            Ok(reply) => {
                self.directory.heed(endpoint, number, &reply.shard, now);
                if request.attempt == 1 && request.after.is_empty() && !request.keys.is_empty() {
                    let latency = self.directory.latency(&reply.shard.dc);
                    latency.note(now.saturating_duration_since(begun));
                }
            }
            // Another service answers at this address.
            Err(Fault::Invalid(_)) if request.keys.is_empty() => {
                self.directory.forget(endpoint, number);
            }
            Err(_) => {}
        }
        endpoint.judge(&reply, now);
        drop(under_way);
        reply
    }
}

/// A request that is under way at an endpoint.
struct UnderWay<'a>(&'a Endpoint);

impl<'a> UnderWay<'a> {
    fn new(endpoint: &'a Endpoint, now: Instant) -> Self {
        endpoint.begin(now);
        Self(endpoint)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.end(Instant::now());
    }
}
