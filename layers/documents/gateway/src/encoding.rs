//! Bodies that are compressed on their way: those of requests are unpacked, and those of answers are
//! packed if the caller accepts that.

use async_compression::tokio::bufread::GzipDecoder;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use futures::TryStreamExt as _;
use hyper::body::Body;
use tokio_util::io::{ReaderStream, StreamReader};
use tower_http::CompressionLevel;
use tower_http::compression::Compression;
use tower_http::compression::predicate::{And, NotForContentType, Predicate};

use crate::problem::{self, Problem};

/// The bytes that are unpacked at a time.
const CHUNK: usize = 64 << 10;
/// A shorter answer is not packed.
const PACKED_MIN: u64 = 4 << 10;

/// Unpacks the body of a request.
///
/// # Errors
/// `encoding`: the gateway does not know how it is packed.
pub(crate) fn unpack(mut request: Request) -> Result<Request, Problem> {
    let encodings = request.headers().get_all(header::CONTENT_ENCODING);
    let mut given = encodings.iter().map(|text| text.as_bytes().trim_ascii());
    let (encoding, more) = (given.next().unwrap_or_default(), given.next());
    let is = |name: &str| encoding.eq_ignore_ascii_case(name.as_bytes());
    let is_gzip = is("gzip") || is("x-gzip");
    if more.is_some() || !(is_gzip || is("") || is("identity")) {
        let given = String::from_utf8_lossy(encoding);
        let message = format!("the body is encoded as {given:?}; send it as gzip, or as it is");
        return Err(Problem::new(problem::ENCODING, message));
    }
    if is_gzip {
        let headers = request.headers_mut();
        headers.remove(header::CONTENT_ENCODING);
        headers.remove(header::CONTENT_LENGTH);
        request = request.map(unpacked);
    }
    Ok(request)
}

/// The body without its encoding: all of its members, as files that were packed one by one have them.
fn unpacked(body: axum::body::Body) -> axum::body::Body {
    let chunks = body.into_data_stream().map_err(std::io::Error::other);
    let mut decoder = GzipDecoder::new(StreamReader::new(chunks));
    decoder.multiple_members(true);
    axum::body::Body::from_stream(ReaderStream::with_capacity(decoder, CHUNK))
}

/// A service whose answers are packed if the caller accepts that.
pub(crate) type Packing<S> = Compression<S, And<Long, NotForContentType>>;

/// Packs answers, fast rather than small. Events of a feed would wait for one another, so feeds stay as they are.
pub(crate) fn packing<S>(service: S) -> Packing<S> {
    Compression::new(service)
        .quality(CompressionLevel::Fastest)
        .compress_when(Long.and(NotForContentType::SSE))
}

/// Answers that are long enough. One to a HEAD has no body, and the length of that to a GET.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Long;

impl Predicate for Long {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        let named = response.headers().get(header::CONTENT_LENGTH);
        named
            .and_then(|length| length.to_str().ok()?.parse().ok())
            .or_else(|| response.body().size_hint().exact())
            .is_none_or(|length| length >= PACKED_MIN)
    }
}

/// Tells caches that an answer is another one for a caller that takes it packed.
pub(crate) fn vary<B: Body>(response: &mut Response<B>) {
    if Long.and(NotForContentType::SSE).should_compress(response) {
        let accepted = HeaderValue::from_static("accept-encoding");
        response.headers_mut().append(header::VARY, accepted);
    }
}

/// The tag of an answer that was packed is weak: other bytes have it, too. A caller can send it in
/// each condition all the same.
pub(crate) fn weaken(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return;
    }
    let Some(tag) = headers.get(header::ETAG) else {
        return;
    };
    if tag.as_bytes().starts_with(b"W/") {
        return;
    }
    let weak = [b"W/", tag.as_bytes()].concat();
    if let Ok(weak) = HeaderValue::from_bytes(&weak) {
        headers.insert(header::ETAG, weak);
    }
}
