//! The receiver of the worker's sink. It is away for some time, again and again.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Value;
use storage_coalesce::locked;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Partition, epoch, number.
pub type At = (u64, u64, u64);

#[derive(Debug, Default)]
struct Inner {
    is_away: bool,
    got: Vec<At>,
    /// Calls that found the receiver away.
    turned_away: u64,
}

/// A web service that takes events.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Begins to take events.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, inner) = (listener.local_addr()?, Arc::<Mutex<Inner>>::default());
        let router = Router::new()
            .route("/events", post(take))
            .with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            inner,
            serving,
        })
    }

    /// The address that is called.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    /// Goes away, or comes back.
    pub fn set_away(&self, is_away: bool) {
        self.inner().is_away = is_away;
    }

    /// The places of all events so far, in the order in which they came, repeats included.
    #[must_use]
    pub fn got(&self) -> Vec<At> {
        self.inner().got.clone()
    }

    /// The number of calls that found the receiver away.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.inner().turned_away
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(inner): State<Arc<Mutex<Inner>>>, body: String) -> StatusCode {
    let events: Vec<Value> = serde_json::from_str(&body).unwrap_or_default();
    let mut inner = locked(&inner);
    if inner.is_away {
        inner.turned_away += 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let number = |event: &Value, name: &str| event.get(name).and_then(Value::as_u64);
    let places = events.iter().filter_map(|event| {
        Some((
            number(event, "partition")?,
            number(event, "epoch")?,
            number(event, "number")?,
        ))
    });
    inner.got.extend(places);
    StatusCode::NO_CONTENT
}
