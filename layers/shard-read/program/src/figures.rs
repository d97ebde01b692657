//! `serve --http`: `/metrics` for Prometheus, and `/livez` and `/readyz` for a supervisor.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use shard_read_server::ServerView;
use storage_metrics::page::CONTENT_TYPE;
use storage_metrics::{Page, names};
use tokio::net::TcpListener;

/// What is shown. None until the server has started.
type Shown = Arc<OnceLock<ServerView>>;

/// The page of a server. It is served while the server waits for its database, too.
#[derive(Debug)]
pub(crate) struct FiguresPage {
    pub(crate) address: SocketAddr,
    shown: Shown,
}

impl FiguresPage {
    /// Serves at this address, in a task. With port 0 the machine chooses one.
    pub(crate) async fn serve(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("--http {address}"))?;
        let (address, shown) = (listener.local_addr()?, Shown::default());
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get("ok\n"))
            .route("/readyz", get(ready))
            .with_state(Arc::clone(&shown));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shown })
    }

    /// Shows this server from now on.
    pub(crate) fn show(&self, server: ServerView) {
        let _ = self.shown.set(server);
    }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    let Some(server) = shown.get() else {
        return waits();
    };
    let (figures, shard) = (server.figures(), server.shard());
    let mut page = Page::of(&[]);
    for (name, value) in [
        (&names::SHARD_CALLS, figures.calls),
        (&names::SHARD_KEYS, figures.keys),
        (&names::SHARD_MISDIRECTED, figures.misdirected),
        (&names::SHARD_REFUSED, figures.refused),
        (&names::SHARD_STALE, figures.stale),
        (&names::SHARD_LATE, figures.late),
        (&names::SHARD_PANICS, figures.panics),
        (&names::SHARD_CLAIMS, figures.claims),
        (&names::SHARD_CLAIMS_LOST, figures.claims_lost),
        (&names::SHARD_LOADS_FAILED, figures.loads_failed),
        (&names::SHARD_SERVING, shard.state.answers().into()),
    ] {
        page.set(name, value);
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.text()).into_response()
}

/// Whether the server answers for a range.
async fn ready(State(shown): State<Shown>) -> Response {
    let Some(server) = shown.get() else {
        return waits();
    };
    let state = server.shard().state;
    let status = match state.answers() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{state}\n")).into_response()
}

fn waits() -> Response {
    let why = "the server waits for its database\n";
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}
