//! The id of each request: in its answer, in the problem that it meets, and in the log.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::response::Response;
use storage_sdk::Ids;

use crate::problem::Problem;
use crate::routes::BATCH;

/// The header of the id.
const ID: HeaderName = HeaderName::from_static("request-id");
/// An older name, which many proxies send.
const OLDER_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The most bytes of an id that a client names.
const ID_BYTES_MAX: usize = 128;

/// The id of a batch, which its requests share.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// The id of a request under way, and what its line of the log says.
pub(crate) struct NamedRequest {
    id: String,
    method: Method,
    url: Uri,
}

impl NamedRequest {
    /// The id that the client has named, or another one.
    pub(crate) fn of(request: &mut Request, ids: &dyn Ids) -> Self {
        let id = given(request.headers()).unwrap_or_else(|| ids.next().to_string());
        let (method, url) = (request.method().clone(), request.uri().clone());
        if url.path() == BATCH {
            request.extensions_mut().insert(RequestId(id.clone()));
        }
        Self { id, method, url }
    }

    /// Names the request in its answer. One that fails is a line of the log.
    pub(crate) fn explain(self, response: &mut Response) {
        explain(response, &self.id, &self.method, self.url.path());
        if let Ok(id) = HeaderValue::try_from(self.id) {
            response.headers_mut().insert(ID, id);
        }
    }
}

/// Writes the problem of an answer. One that is the gateway's own fault is a line of the log.
pub(crate) fn explain(response: &mut Response, id: &str, method: &Method, path: &str) {
    // Beside problems there is /ready, whose 503 is no failure.
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return;
    };
    let status = response.status();
    if status.is_server_error() {
        let (status, cause) = (status.as_u16(), problem.cause());
        tracing::warn!(request = id, %method, path, status, cause, "a request failed");
    }
    let text = problem.text(id, method.is_safe());
    *response.body_mut() = Body::from(text);
    response.headers_mut().remove(header::CONTENT_LENGTH);
}

/// The id that a client or a proxy has named, if it is short and has no blanks.
fn given(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(ID).or_else(|| headers.get(OLDER_ID))?;
    let id = value.to_str().ok()?;
    let is_word = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
    (is_word && id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_client_is_taken_if_it_is_short_and_printable() {
        let longest = "x".repeat(ID_BYTES_MAX);
        for (name, value, taken) in [
            (&ID, "a-1", Some("a-1")),
            (&OLDER_ID, "{0:x}", Some("{0:x}")),
            (&ID, longest.as_str(), Some(longest.as_str())),
            (&ID, &(longest.clone() + "x"), None),
            (&ID, "", None),
            (&ID, "a b", None),
            (&ID, "a\tb", None),
            (&ID, "é", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert_eq!(given(&headers).as_deref(), taken, "{value:?}");
        }
        assert_eq!(given(&HeaderMap::new()), None);
    }
}
