//! The bodies of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures::StreamExt as _;
use storage_documents::documents::BODY_BYTES_MAX;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::problem::{self, Problem};

/// The HTTP library reads the rest of a shorter body by itself.
const SHORT: usize = 4 << 10;
/// The most bytes that are kept free for a body before it comes.
const ROOM_MAX: usize = 64 << 10;
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
    let length = length_of(request.headers());
    if let Some(length) = length.filter(|length| *length > most) {
        return Err(too_large(&length.to_string()));
    }
    // A client may name a length and send nothing.
    let mut body = Vec::with_capacity(length.unwrap_or_default().min(ROOM_MAX));
    let mut chunks = request.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::new(problem::REQUEST, format!("the body can't be read: {error}"))
        })?;
        if body.len().saturating_add(chunk.len()) > most {
            return Err(too_large(&format!("more than {most}")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

/// The bytes of a body, as its header Content-Length names them.
fn length_of(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// A body that is read by the call, and then to its end.
#[derive(Clone)]
pub(crate) struct Rest(Arc<Mutex<BodyDataStream>>);

impl Rest {
    async fn next(&self) -> Option<Result<Bytes, axum::Error>> {
        self.0.lock().await.next().await
    }

    /// Reads the rest. If it is too long, the connection ends behind the answer.
    pub(crate) async fn end(self, response: &mut Response) {
        if !self.drain().await {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
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

/// The request, and what it leaves of a long body.
///
/// A client that sends its body at once is answered when it has sent it. Otherwise a client whose request
/// fails by its head would find a broken connection in place of the answer. A client that waits for
/// `100 Continue` sends nothing before the answer.
pub(crate) fn with_rest(request: Request) -> (Request, Option<Rest>) {
    let length = length_of(request.headers());
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let waits = request.headers().contains_key(header::EXPECT);
    if waits || !is_chunked && length.is_none_or(|length| length <= SHORT) {
        return (request, None);
    }
    let (head, body) = request.into_parts();
    let rest = Rest(Arc::new(Mutex::new(body.into_data_stream())));
    let chunks = futures::stream::unfold(rest.clone(), |body| async {
        let chunk = body.next().await?;
        Some((chunk, body))
    });
    // A reader may ask once more behind the end.
    let body = Body::from_stream(chunks.fuse());
    (Request::from_parts(head, body), Some(rest))
}
