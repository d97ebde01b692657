//! The resources, and who may use them.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::batch::{self, Batches};
use crate::browsers::{self, Origin};
use crate::problem::{self, Problem};
use crate::shared::{KEYED_MAX, Shared};
use crate::strangers::Name;
use crate::tickets;
use crate::{
    activity, changes, content, encoding, feed, figures, headers, lines, methods, openapi,
};

/// The time of a request. Longer than any wait that a request can ask for: up to 60 s for its change,
/// and as long for its event.
pub(crate) const TIME: Duration = Duration::from_secs(150);
/// The prefix of all resources.
pub const PREFIX: &str = "/hyper-storage";
/// The path of the live feed.
pub(crate) const FEED: &str = "/hyper-storage/feed";
/// The paths of documents, items and collections.
pub(crate) const CONTENT: &str = "/hyper-storage/content/{*path}";
/// The path of batches.
pub(crate) const BATCH: &str = "/hyper-storage/batch";

/// The router of all resources, for pages of these origins.
pub fn router(shared: Shared, origins: &[Origin]) -> Router {
    let content = get(content::get)
        .put(content::put)
        .patch(content::patch)
        .delete(content::delete)
        .post(content::post)
        .fallback(methods::unknown)
        .layer(middleware::from_fn_with_state(shared.clone(), in_time));
    let batch = post(batch::carry_out)
        .layer(middleware::from_fn_with_state(shared.clone(), in_time))
        .with_state(Batches::new(&shared, content.clone()));
    let tickets =
        post(tickets::give).layer(middleware::from_fn_with_state(shared.clone(), in_time));
    // A nested router would copy the URL of each request.
    let at = |resource: &str| format!("{PREFIX}{resource}");
    let resources = Router::new()
        .route(CONTENT, content)
        .route(BATCH, batch)
        .route(FEED, get(feed::live))
        .route(&at("/_changes"), get(changes::page))
        .route(&at("/_export"), get(lines::export))
        .route(&at("/_import"), post(lines::import))
        .route(&at("/_metrics"), get(figures::page))
        .route(&at("/tickets"), tickets)
        .route(&at("/transactions/{id}"), get(changes::transaction))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            only_with_token,
        ));
    let router = resources
        .route(&at("/openapi.json"), get(openapi::description))
        .route("/ready", get(ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_resource)
        .with_state(shared);
    match browsers::layer(origins) {
        Some(layer) => router.layer(layer),
        None => router,
    }
}

async fn ready(State(shared): State<Shared>) -> StatusCode {
    if shared.is_leaving.load(Ordering::Relaxed) || shared.hub.is_draining() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::NO_CONTENT
    }
}

pub(crate) async fn no_resource() -> Problem {
    Problem::new(
        problem::NO_RESOURCE,
        format!(
            "resources are {PREFIX}/content/{{path}}, /batch, /feed, /_changes, /_export, /_import, /_metrics, /tickets, /openapi.json and /transactions/{{id}} below {PREFIX}, and /ready"
        ),
    )
}

async fn wrong_method() -> Problem {
    Problem::new(problem::METHOD, "see the header Allow")
}

/// A request with its whole body has a bounded time. So a client that stands still holds nothing.
///
/// A call with a key is carried out to its end, although its caller may go away. So a repeat has the whole
/// answer.
async fn in_time(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if is_read || !request.headers().contains_key(headers::KEY) {
        return run_in_time(request, next).await;
    }
    let Ok(place) = Arc::clone(&shared.keyed).try_acquire_owned() else {
        let message = format!("{KEYED_MAX} calls with a key are under way; try again later");
        return Problem::new(problem::BUSY, message).into_response();
    };
    let call = tokio::spawn(async move {
        let response = run_in_time(request, next).await;
        drop(place);
        response
    });
    match call.await {
        Ok(response) => response,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => {
            Problem::unknown("the gateway ended in the middle of the request").into_response()
        }
    }
}

async fn run_in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("the request took more than {} s", TIME.as_secs());
            Problem::unknown(message).into_response()
        }
    }
}

async fn only_with_token(
    State(shared): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions_mut().remove::<Name>();
    let mut given = request.headers().get_all(header::AUTHORIZATION).iter();
    let token = given
        .next()
        .filter(|_| given.next().is_none())
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if token.is_some_and(|token| is_same(token, shared.token.as_bytes())) {
        if connection.is_some_and(|connection| !connection.is_known()) {
            return makes_room().into_response();
        }
        return match encoding::unpack(request) {
            Ok(request) => activity::keep(next.run(request).await),
            Err(refusal) => activity::keep(refusal.into_response()),
        };
    }
    match shared.tickets.admit(&mut request) {
        Some(Ok(opened)) => {
            let visit = connection.map(Name::visit);
            if visit.as_ref().is_some_and(Option::is_none) {
                return makes_room().into_response();
            }
            let response = activity::holding(next.run(request).await, opened);
            activity::keep(activity::holding(response, visit.flatten()))
        }
        Some(Err(refusal)) => refusal.into_response(),
        None => Problem::new(
            problem::UNAUTHORIZED,
            "send the header Authorization: Bearer TOKEN, once",
        )
        .into_response(),
    }
}

/// The answer on a connection that is about to end. Nothing was begun.
fn makes_room() -> Problem {
    let message = "the connection makes room for another one; send the request again";
    Problem::new(problem::STORAGE, message)
}

/// Compares without a hint in the time that it takes.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differs = given
        .iter()
        .zip(token)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    given.len() == token.len() && differs == 0
}
