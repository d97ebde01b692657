//! Bodies that are compressed on their way: those of requests are unpacked, and those of answers are
//! packed if the caller accepts that.

use async_compression::tokio::bufread::GzipDecoder;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt as _;
use tokio_util::io::{ReaderStream, StreamReader};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate as _, SizeAbove};

use crate::problem::{self, Problem};

/// The bytes that are unpacked at a time.
const CHUNK: usize = 64 << 10;
/// A shorter answer is not packed.
const PACKED_MIN: u16 = 4 << 10;

/// Unpacks the body of a request, and refuses encodings that the gateway does not know.
pub(crate) async fn unpack(mut request: Request, next: Next) -> Response {
    let encodings = request.headers().get_all(header::CONTENT_ENCODING);
    let mut given = encodings.iter().map(|text| text.as_bytes().trim_ascii());
    let (encoding, more) = (given.next().unwrap_or_default(), given.next());
    let is = |name: &str| encoding.eq_ignore_ascii_case(name.as_bytes());
    let is_gzip = is("gzip") || is("x-gzip");
    if more.is_some() || !(is_gzip || is("") || is("identity")) {
        let given = String::from_utf8_lossy(encoding);
        let message = format!("the body is encoded as {given:?}; send it as gzip, or as it is");
        return Problem::new(problem::ENCODING, message).into_response();
    }
    if is_gzip {
        let headers = request.headers_mut();
        headers.remove(header::CONTENT_ENCODING);
        headers.remove(header::CONTENT_LENGTH);
        request = request.map(unpacked);
    }
    next.run(request).await
}

/// The body without its encoding: all of its members, as files that were packed one by one have them.
fn unpacked(body: Body) -> Body {
    let chunks = body.into_data_stream().map_err(std::io::Error::other);
    let mut decoder = GzipDecoder::new(StreamReader::new(chunks));
    decoder.multiple_members(true);
    Body::from_stream(ReaderStream::with_capacity(decoder, CHUNK))
}

/// Packs answers, fast rather than small. Events of a feed would wait for one another, so feeds stay as they are.
pub(crate) fn packing() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let long = SizeAbove::new(PACKED_MIN).and(NotForContentType::SSE);
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(long)
}

/// The tag of an answer that was packed is weak: other bytes have it, too. A caller can send it in
/// each condition all the same.
pub(crate) async fn weakened(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let strong = headers.get(header::ETAG);
    let strong = strong.filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    let weak = strong.map(|tag| [b"W/", tag.as_bytes()].concat());
    if let Some(weak) = weak.and_then(|tag| HeaderValue::from_bytes(&tag).ok()) {
        headers.insert(header::ETAG, weak);
    }
    response
}
