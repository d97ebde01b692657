//! The description of the resources, as OpenAPI 3.1.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::content::json;
use crate::shared::Shared;

/// The description. A change of the routes, of their headers or of the problems changes this file,
/// too.
const DESCRIPTION: &str = include_str!("../openapi.json");

/// The server in the description.
const SERVER: &str = r#""url": "/""#;

/// The description. It is no secret, so it needs no token.
pub(crate) async fn description(State(shared): State<Shared>) -> Response {
    let text = match shared.public_url.as_str() {
        "" => Bytes::from_static(DESCRIPTION.as_bytes()),
        url => {
            let server = format!(r#""url": "{url}""#);
            DESCRIPTION.replacen(SERVER, &server, 1).into()
        }
    };
    json(StatusCode::OK, text)
}
