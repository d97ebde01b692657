//! The resources, and who may use them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use storage_documents::Documents;
use storage_documents::documents::BODY_BYTES_MAX;

use crate::feed::Hub;
use crate::figures::Figures;
use crate::problem::{self, Problem};
use crate::{body, changes, content, encoding, feed, figures, lines, methods, openapi};

/// The time of a request. Longer than any wait that a request can ask for: up to 60 s for its change,
/// and as long for its event.
const TIME: Duration = Duration::from_secs(150);
/// The prefix of all resources.
pub const PREFIX: &str = "/hyper-storage";

/// The parts that all requests share. Each request makes several copies, so a copy is one counter.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Parts>);

impl Shared {
    /// Shares these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The parts of a gateway.
#[derive(Debug)]
pub struct Parts {
    /// The documents.
    pub documents: Documents,
    /// The live feed.
    pub hub: Hub,
    /// The token of callers.
    pub token: Arc<str>,
    /// The counters of the gateway.
    pub figures: Figures,
    /// The items of a page, unless a request says otherwise.
    pub page_size: usize,
}

/// The router of all resources.
pub fn router(shared: Shared) -> Router {
    let content = get(content::get)
        .put(content::put)
        .patch(content::patch)
        .delete(content::delete)
        .post(content::post)
        .fallback(methods::unknown)
        .layer(middleware::from_fn(in_time));
    let import = post(lines::import).layer(DefaultBodyLimit::disable());
    // A nested router would copy the URL of each request.
    let at = |resource: &str| format!("{PREFIX}{resource}");
    let resources = Router::new()
        .route(&at("/content/{*path}"), content)
        .route(&at("/feed"), get(feed::live))
        .route(&at("/_changes"), get(changes::page))
        .route(&at("/_export"), get(lines::export))
        .route(&at("/_import"), import)
        .route(&at("/_metrics"), get(figures::page))
        .route(&at("/transactions/{id}"), get(changes::transaction))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(encoding::unpack))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            only_with_token,
        ));
    resources
        .route(&at("/openapi.json"), get(openapi::description))
        .route("/ready", get(ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_resource)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX + 1))
        .layer(encoding::packing())
        .layer(middleware::map_response(encoding::weakened))
        .layer(middleware::from_fn(body::to_its_end))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            figures::count,
        ))
        .with_state(shared)
}

async fn ready(State(shared): State<Shared>) -> StatusCode {
    if shared.hub.is_draining() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::NO_CONTENT
    }
}

async fn no_resource() -> Problem {
    Problem::new(
        problem::NO_RESOURCE,
        format!(
            "resources are {PREFIX}/content/{{path}}, /feed, /_changes, /_export, /_import, /_metrics, /openapi.json and /transactions/{{id}} below {PREFIX}, and /ready"
        ),
    )
}

async fn wrong_method() -> Problem {
    Problem::new(problem::METHOD, "see the header Allow")
}

/// A request with its whole body has a bounded time. So a client that stands still holds nothing.
async fn in_time(request: Request, next: Next) -> Response {
    let is_read = request.method().is_safe();
    match tokio::time::timeout(TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("the request took more than {} s", TIME.as_secs());
            let problem = Problem::unknown(message);
            let problem = if is_read { problem.of_read() } else { problem };
            problem.into_response()
        }
    }
}

async fn only_with_token(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| is_same(given, shared.token.as_bytes())) {
        return next.run(request).await;
    }
    Problem::new(
        problem::UNAUTHORIZED,
        "send the header Authorization: Bearer TOKEN",
    )
    .into_response()
}

/// Compares without a hint in the time that it takes.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differs = given
        .iter()
        .zip(token)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == token.len() && differs == 0
}
