//! The bodies of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt as _;
use storage_documents::documents::BODY_BYTES_MAX;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::problem::{self, Problem};

/// The HTTP library reads the rest of a shorter body by itself.
const SHORT: usize = 4 << 10;
/// The most bytes that are read of a body that nobody wants, and the time for it. More than a batch has.
const REST_MAX: usize = 12 << 20;
const REST_TIME: Duration = Duration::from_secs(10);

/// The body of a request whose head has passed. A client that waits for `100 Continue` sends it only
/// from here on, so nobody sends a body whose request fails already by its head.
///
/// # Errors
/// `too-large`: the body is, or its length says so. `request`: it ends early, or can't be unpacked.
pub(crate) async fn read(request: Request) -> Result<Bytes, Problem> {
    read_whole(request, BODY_BYTES_MAX, "split it into several documents").await
}

/// The body of a request, of up to so many bytes. The way out is that of a larger one.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_whole(
    request: Request,
    most: usize,
    way_out: &str,
) -> Result<Bytes, Problem> {
    let too_large = |bytes: &str| {
        let message = format!("the body has {bytes} bytes; the limit is {most}, so {way_out}");
        Problem::new(problem::TOO_LARGE, message)
    };
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if let Some(length) = length.filter(|length| *length > most) {
        return Err(too_large(&length.to_string()));
    }
    let body = Bytes::from_request(request, &()).await;
    body.map_err(|rejected| match rejected.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(&format!("more than {most}")),
        _ => Problem::new(problem::REQUEST, rejected.body_text()),
    })
}

/// A body that is read by the call, and then to its end.
#[derive(Clone)]
struct Shared(Arc<Mutex<BodyDataStream>>);

impl Shared {
    async fn next(&self) -> Option<Result<Bytes, axum::Error>> {
        self.0.lock().await.next().await
    }

    /// Reads the rest. Returns whether that was all.
    async fn drain(&self) -> bool {
        let mut read = 0_usize;
        let rest = async {
            while let Some(Ok(chunk)) = self.next().await {
                read = read.saturating_add(chunk.len());
                if read > REST_MAX {
                    return false;
                }
            }
            true
        };
        timeout(REST_TIME, rest).await.unwrap_or(false)
    }
}

/// Answers a client that sends its body at once when it has sent it. Otherwise a client whose request
/// fails by its head would find a broken connection in place of the answer. A client that waits for
/// `100 Continue` sends nothing before the answer.
pub(crate) async fn to_its_end(request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let waits = request.headers().contains_key(header::EXPECT);
    if waits || !is_chunked && length.is_none_or(|length| length <= SHORT) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let body = Shared(Arc::new(Mutex::new(body.into_data_stream())));
    let chunks = futures::stream::unfold(body.clone(), |body| async {
        let chunk = body.next().await?;
        Some((chunk, body))
    });
    // A layer may ask once more behind the end.
    let chunks = chunks.fuse();
    let request = Request::from_parts(head, Body::from_stream(chunks));
    let mut response = next.run(request).await;
    if !body.drain().await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}
