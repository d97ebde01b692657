//! `run --http`: `/metrics` for Prometheus, and `/healthz` for a supervisor.
//!
//! It is served from the start of the program, also while the worker waits for its tiers.

use std::io::ErrorKind;
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
use storage_metrics::{Measure as _, Page, names};
use storage_tiers::Tiers;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long a tier may take to answer a health check or a scrape.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between tries to take an address that another process has, such as the worker before this one.
const TAKE_EVERY: Duration = Duration::from_secs(1);

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

/// Begins to serve at an address. If another process has it, landing begins all the same, and the
/// address is tried again.
///
/// # Errors
/// The address can't be one of this machine's.
pub async fn serve(address: SocketAddr, work: Shared) -> anyhow::Result<Serving> {
    let mut taken = match TcpListener::bind(address).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!(%address, "another process has the address of --http; it is tried again");
            None
        }
        bound => Some(bound.with_context(|| format!("--http {address}"))?),
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .with_state(work);
    Ok(Serving(tokio::spawn(async move {
        let listener = loop {
            match taken {
                Some(listener) => break listener,
                None => sleep(TAKE_EVERY).await,
            }
            taken = TcpListener::bind(address).await.ok();
        };
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!(%address, "serving /metrics and /healthz");
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
    let mut page = Page::of(&[&counts]);
    match &backlog {
        Ok(Ok(backlog)) => backlog.measure(&mut page),
        Ok(Err(_)) | Err(_) => {
            let all = work.tiers.hot().partition_count();
            page.set(&names::UNREACHABLE_PARTITIONS, all.into());
        }
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.text()).into_response()
}

/// Whether both tiers answer.
async fn health(State(work): State<Shared>) -> Response {
    let Some(work) = work.get() else {
        return away("the tiers are not open yet");
    };
    let hot = timeout(PATIENCE, Backlog::read(work.tiers.hot().as_ref()));
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
