//! `serve --http`: `/metrics` for Prometheus, and `/livez` and `/readyz` for a supervisor.

use std::net::SocketAddr;

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

/// Serves the figures at this address, in a task.
pub(crate) async fn serve(address: SocketAddr, server: ServerView) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("--http {address}"))?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get("ok\n"))
        .route("/readyz", get(ready))
        .with_state(server);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}

async fn metrics(State(server): State<ServerView>) -> Response {
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
async fn ready(State(server): State<ServerView>) -> Response {
    let state = server.shard().state;
    let status = match state.answers() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{state}\n")).into_response()
}
