//! `run --http`: `/metrics` for Prometheus, and `/healthz` for a supervisor.
//!
//! It is served from the start of the program, also while the worker waits for its tiers.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use storage_landing::{Backlog, LandingWorker};
use storage_metrics::page::CONTENT_TYPE;
use storage_metrics::{Measure, Page};
use storage_tiers::Tiers;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a tier may take to answer a health check or a scrape.
const PATIENCE: Duration = Duration::from_secs(2);

/// A worker at work, and its tiers.
#[derive(Debug, Clone)]
pub struct Work {
    /// The worker.
    pub worker: Arc<LandingWorker>,
    /// What it lands from and into.
    pub tiers: Tiers,
}

/// The work that is served; none until both tiers are open.
pub type Shared = Arc<OnceLock<Work>>;

/// The task that serves. Dropped, nothing is served any more.
#[derive(Debug)]
pub struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins to serve at an address.
///
/// # Errors
/// The address is taken, or not of this machine.
pub async fn serve(address: SocketAddr, work: Shared) -> anyhow::Result<Serving> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("--http {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /metrics and /healthz");
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .with_state(work);
    Ok(Serving(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "/metrics and /healthz are not served any more");
        }
    })))
}

/// The figures of the worker, and of everything that waits if the hot tier answers.
async fn metrics(State(work): State<Shared>) -> Response {
    let Some(work) = work.get() else {
        return away("the tiers are not open yet");
    };
    let counts = work.worker.counts();
    let backlog = timeout(PATIENCE, Backlog::reachable(work.tiers.hot().as_ref())).await;
    let mut parts: Vec<&dyn Measure> = vec![&counts];
    if let Ok(Ok(backlog)) = &backlog {
        parts.push(backlog);
    }
    let page = Page::of(&parts).text();
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response()
}

/// Whether both tiers answer.
async fn health(State(work): State<Shared>) -> Response {
    let Some(work) = work.get() else {
        return away("the tiers are not open yet");
    };
    let hot = timeout(PATIENCE, work.tiers.hot().time());
    let cold = timeout(PATIENCE, work.tiers.cold().pairing());
    match tokio::join!(hot, cold) {
        (Ok(Ok(_)), Ok(Ok(_))) => "ok\n".into_response(),
        (Ok(Err(error)), _) => away(format_args!("the hot tier: {error}")),
        (Err(_), _) => away(format_args!(
            "the hot tier did not answer within {PATIENCE:?}"
        )),
        (_, Ok(Err(error))) => away(format_args!("the cold tier: {error}")),
        (_, Err(_)) => away(format_args!(
            "the cold tier did not answer within {PATIENCE:?}"
        )),
    }
}

fn away(why: impl std::fmt::Display) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}
