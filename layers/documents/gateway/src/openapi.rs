//! The description of the resources, as OpenAPI 3.1.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;

use crate::content::json;

/// The description. A change of the routes, of their headers or of the problems changes this file,
/// too.
const DESCRIPTION: &str = include_str!("../openapi.json");

/// The description. It is no secret, so it needs no token.
pub(crate) async fn description() -> Response {
    json(StatusCode::OK, Bytes::from_static(DESCRIPTION.as_bytes()))
}
