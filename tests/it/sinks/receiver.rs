//! Receivers that a test can look into and break.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use storage_coalesce::locked;
use storage_landing::{Sink, SinkError};
use storage_model::{Event, Partition};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::text;

/// Keeps all events, and takes none while it is away. Refuses the bodies that it is told to.
#[derive(Debug, Default)]
pub(super) struct Memory {
    taken: Mutex<BTreeMap<Partition, Vec<Event>>>,
    away: AtomicBool,
    refused: Mutex<Vec<String>>,
}

impl Memory {
    pub(super) fn leave(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub(super) fn refuse(&self, bodies: &[&str]) {
        let bodies = bodies.iter().map(|body| (*body).to_owned()).collect();
        *locked(&self.refused) = bodies;
    }

    /// The events as they came.
    pub(super) fn taken(&self) -> BTreeMap<Partition, Vec<Event>> {
        locked(&self.taken).clone()
    }

    /// The events without repeats. A repeat may come only as a part that begins anew.
    pub(super) fn once(&self) -> BTreeMap<Partition, Vec<Event>> {
        let mut all = self.taken();
        for events in all.values_mut() {
            events.sort_by_key(|event| event.position);
            events.dedup();
        }
        all
    }
}

#[async_trait]
impl Sink for Memory {
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        assert!(!events.is_empty());
        assert!(events.iter().all(|event| event.partition == partition));
        assert!(events.is_sorted_by(|a, b| a.position < b.position));
        if self.away.load(Ordering::SeqCst) {
            return Err(SinkError::unavailable("gone for lunch"));
        }
        let refused = locked(&self.refused);
        if events.iter().any(|event| refused.contains(&text(event))) {
            return Err(SinkError::rejected("not this one"));
        }
        let mut taken = locked(&self.taken);
        taken
            .entry(partition)
            .or_default()
            .extend_from_slice(events);
        Ok(())
    }
}

/// Passes events on and never answers, like a worker that dies before it stores the position.
#[derive(Debug)]
pub(super) struct Silent {
    inner: Arc<dyn Sink>,
    /// Whether it has passed on a batch.
    passed: watch::Sender<bool>,
}

impl Silent {
    pub(super) fn new(inner: Arc<dyn Sink>) -> Arc<Self> {
        let passed = watch::Sender::new(false);
        Arc::new(Self { inner, passed })
    }

    pub(super) async fn has_passed(&self) -> Result<()> {
        self.passed.subscribe().wait_for(|passed| *passed).await?;
        Ok(())
    }
}

#[async_trait]
impl Sink for Silent {
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        self.inner.send(partition, events).await?;
        self.passed.send_replace(true);
        std::future::pending().await
    }
}

/// A call of the web service.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) key: String,
    pub(crate) authorization: String,
    pub(crate) agent: String,
    pub(crate) events: Vec<serde_json::Value>,
}

/// A web service on a port of its own.
#[derive(Debug, Default)]
pub(crate) struct Service {
    calls: Mutex<Vec<Call>>,
    /// The answer to the next calls, instead of taking them.
    answer: Mutex<Option<Answer>>,
    refused: Mutex<Option<String>>,
}

pub(crate) type Answer = (StatusCode, Vec<(&'static str, &'static str)>);

impl Service {
    pub(crate) async fn start() -> Result<(Arc<Self>, SocketAddr)> {
        let service = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/{*path}", post(take))
            .with_state(Arc::clone(&service));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((service, address))
    }

    pub(crate) fn answer(&self, answer: Option<Answer>) {
        *locked(&self.answer) = answer;
    }

    /// Refuses the batches with an event of this body.
    pub(crate) fn refuse(&self, body: Option<&str>) {
        *locked(&self.refused) = body.map(str::to_owned);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }

    /// The events of all calls.
    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        self.calls()
            .into_iter()
            .flat_map(|call| call.events)
            .collect()
    }
}

async fn take(State(service): State<Arc<Service>>, headers: HeaderMap, body: Bytes) -> Response {
    let answer = locked(&service.answer).clone();
    if let Some((status, headers)) = answer {
        return (status, axum::response::AppendHeaders(headers)).into_response();
    }
    let Ok(events) = serde_json::from_slice::<Vec<serde_json::Value>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let refused = locked(&service.refused).clone();
    if let Some(refused) = refused
        && events.iter().any(|event| event["body"] == refused.as_str())
    {
        let message = "no such\nitem";
        return (StatusCode::UNPROCESSABLE_ENTITY, message).into_response();
    }
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let call = Call {
        key: header("idempotency-key"),
        authorization: header("authorization"),
        agent: header("user-agent"),
        events,
    };
    locked(&service.calls).push(call);
    StatusCode::NO_CONTENT.into_response()
}
