//! `run --http`: `/metrics` for Prometheus, and `/livez`, `/readyz` and `/healthz` for a supervisor.
//!
//! They are served from the start of the program, also while the worker waits for its tiers.
//! Landing needs files and memory, too. So few connections are served at once, and none for long.

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
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use storage_landing::{Backlog, LandingWorker};
use storage_metrics::page::CONTENT_TYPE;
use storage_metrics::{Measure as _, Page, names};
use storage_tiers::Tiers;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long a tier may take to answer a health check or a scrape.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between tries to take an address that another process has, such as the worker before this one.
/// Also the pause after a connection that could not be taken.
const TAKE_EVERY: Duration = Duration::from_secs(1);
/// Connections that are served at once. Further ones wait.
const CONNECTIONS_MAX: usize = 8;
/// How long a connection may take to send the head of a request. Then another one has its place.
const HEAD_MAX: Duration = Duration::from_secs(2);
/// How long one connection is served.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// The most time between two steps of the loop, beside the time of slow statements.
const STEP_MAX: Duration = Duration::from_mins(1);
/// How many statements one step may wait for.
const STATEMENTS: u32 = 4;

/// A worker at work, and its tiers.
#[derive(Debug, Clone)]
pub struct Work {
    /// The worker.
    pub worker: Arc<LandingWorker>,
    /// What it lands from and into.
    pub tiers: Tiers,
    /// How long one statement may take.
    pub statement_timeout: Duration,
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
        .route(
            "/livez",
            get(|State(work): State<Shared>| async move { live(&work) }),
        )
        .route("/readyz", get(ready))
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
        tracing::info!(%address, "serving /metrics, /livez, /readyz and /healthz");
        accept(&listener, &router).await;
    })))
}

/// Serves connections without end, a few at once.
async fn accept(listener: &TcpListener, router: &Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut failing = false;
    loop {
        // ORDER: before the connection is taken, so that none beyond the limit uses up a file.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                failing = false;
                let router = router.clone();
                tokio::spawn(async move {
                    serve_one(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "a connection of --http could not be taken; if the limit of open files is reached, raise it (ulimit -n)");
                }
                failing = true;
                sleep(TAKE_EVERY).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that goes away or sends no HTTP is no failure of this program.
    let _ = timeout(CONNECTION_MAX, served).await;
}

/// The figures of the worker, and of everything that waits if the hot tier answers.
async fn metrics(State(work): State<Shared>) -> Response {
    let Some(work) = work.get() else {
        return away("the tiers are not open yet");
    };
    let counts = work.worker.counts();
    let backlog = timeout(PATIENCE, Backlog::reachable(work.tiers.hot())).await;
    let mut page = Page::of(&[&counts]);
    match &backlog {
        Ok(Ok(backlog)) => backlog.measure(&mut page),
        Ok(Err(_)) | Err(_) => {
            let all = work.tiers.hot().partitions.partition_count();
            page.set(&names::UNREACHABLE_PARTITIONS, all.into());
        }
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.text()).into_response()
}

/// Whether the loop moves. Asks no server, so an outage of a tier restarts no worker.
fn live(work: &Shared) -> Response {
    let Some(work) = work.get() else {
        return "ok: waiting for the tiers\n".into_response();
    };
    let (idle, most) = (
        work.worker.idle(),
        STEP_MAX + work.statement_timeout * STATEMENTS,
    );
    if idle <= most {
        return "ok\n".into_response();
    }
    away(format_args!(
        "the loop has not moved for {} s: restart the worker, which loses nothing",
        idle.as_secs()
    ))
}

/// Whether the worker can land: both tiers answer and belong together, it has all hooks, and it
/// does not stop.
async fn ready(State(work): State<Shared>) -> Response {
    let healthy = health(State(Arc::clone(&work))).await;
    let Some(work) = work.get().filter(|_| healthy.status() == StatusCode::OK) else {
        return healthy;
    };
    if work.worker.is_stopping() {
        return away("the worker stops");
    }
    if let Some(why) = work.worker.stuck().or_else(|| work.tiers.refusal()) {
        return away(why);
    }
    match timeout(PATIENCE, work.tiers.cold().hooks.hooks()).await {
        Ok(Ok(hooks)) => match hooks.iter().find(|hook| hook.is_lacked) {
            Some(hook) => away(hook.missing()),
            None => "ok\n".into_response(),
        },
        Ok(Err(error)) => away(format_args!("the cold tier: {error}")),
        Err(_) => away(format_args!(
            "the cold tier did not answer within {PATIENCE:?}"
        )),
    }
}

/// Whether both tiers answer.
async fn health(State(work): State<Shared>) -> Response {
    let Some(work) = work.get() else {
        return away("the tiers are not open yet");
    };
    let hot = timeout(PATIENCE, Backlog::read(work.tiers.hot()));
    let cold = timeout(PATIENCE, work.tiers.cold().database.pairing());
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use axum::body::to_bytes;
    use storage_config::{
        ColdUrl, HotSettings, HotUrl, LandingSettings, RedisSettings, SessionSettings, SqlSettings,
    };
    use storage_dirty::{Hot, MemoryStore};
    use storage_model::{RandomIds, SystemClock};
    use tokio::time::{advance, pause, resume};

    use super::*;

    const STATEMENT: Duration = Duration::from_secs(2);

    /// A worker that does not run yet, on tiers of this process.
    async fn work() -> Result<Shared, Box<dyn Error>> {
        let redis = RedisSettings::new(HotUrl::Memory);
        let hot = MemoryStore::new(&redis, &HotSettings::default(), Arc::new(SystemClock));
        let cold = storage_sql::open(&SqlSettings::new(ColdUrl::SqliteMemory)).await?;
        let tiers = Tiers::new(Hot::of(&Arc::new(hot)), cold, 100);
        let (landing, sessions) = (LandingSettings::default(), SessionSettings::default());
        let worker = Arc::new(LandingWorker::new(
            tiers.clone(),
            &landing,
            &sessions,
            &RandomIds,
        ));
        let work = Work {
            worker,
            tiers,
            statement_timeout: STATEMENT,
        };
        Ok(Arc::new(OnceLock::from(work)))
    }

    async fn told(answer: Response) -> Result<(u16, String), Box<dyn Error>> {
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 10).await?;
        Ok((status, String::from_utf8(body.to_vec())?))
    }

    #[tokio::test]
    async fn a_worker_whose_loop_stands_still_is_not_alive() -> Result<(), Box<dyn Error>> {
        let work = work().await?;
        // The clock stands from here on, so that nothing but this test moves it.
        pause();
        advance(STEP_MAX + STATEMENT).await;
        let in_time = live(&work);
        advance(STATEMENT * STATEMENTS).await;
        let late = live(&work);
        resume();
        assert_eq!(told(in_time).await?, (200, "ok\n".to_owned()));
        let (status, why) = told(late).await?;
        assert_eq!(status, 503);
        assert!(why.contains("restart the worker"), "{why}");
        Ok(())
    }

    #[tokio::test]
    async fn a_worker_that_stops_is_not_ready() -> Result<(), Box<dyn Error>> {
        let shared = work().await?;
        let before = told(ready(State(Arc::clone(&shared))).await).await?;
        assert_eq!(before, (200, "ok\n".to_owned()));
        shared
            .get()
            .ok_or("no work")?
            .worker
            .run(std::future::ready(()))
            .await;
        let after = told(ready(State(shared)).await).await?;
        assert_eq!(after, (503, "the worker stops\n".to_owned()));
        Ok(())
    }
}
