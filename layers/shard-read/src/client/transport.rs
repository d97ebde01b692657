//! gRPC by tonic. No other module of the client knows it.
//!
//! Each endpoint has a channel of its own. The balanced channel of tonic calls an endpoint ready whose
//! connection is down (grpc-rust, issue 2839).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status, TimeoutExpired};
use tower::Service;

use crate::error::Error;
use crate::net::{Dial, Stream};

/// A connection that takes longer counts as none.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// A connection without traffic is asked after this time, and ends without an answer after the second time.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// The bytes that may be under way in one direction. The default of HTTP/2 is 64 KiB, which stops replies of many values.
const WINDOW: u32 = 1 << 20;
/// The trailer in which a busy server asks for a pause, in milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
/// A server that asks for a longer pause gets this one.
const PUSHBACK_MAX: Duration = Duration::from_secs(30);

/// How connections are made.
#[derive(Clone, Default)]
pub(crate) struct Security {
    /// The certificates of the authorities that servers' certificates are checked by, as PEM.
    pub(crate) authorities: Option<String>,
    /// The client's own certificate and its key, as PEM.
    pub(crate) identity: Option<(String, String)>,
    /// The token of each request.
    pub(crate) token: Option<String>,
}

/// Shows no secrets.
impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("tls", &self.authorities.is_some())
            .field("identity", &self.identity.is_some())
            .field("token", &self.token.is_some())
            .finish()
    }
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection, so nothing was sent.
    NotSent(String),
    /// The connection broke, or the server failed. The server may have seen the request.
    Broken(String),
    /// The server's values are too old for the request.
    Stale(String),
    /// The server is full, and asks for this pause.
    Busy(String, Option<Duration>),
    /// The time was up.
    Late,
    /// No server would answer this request.
    Invalid(String),
    /// The server does not know the caller.
    Denied(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Late => "it has not answered in time",
            Self::NotSent(reason)
            | Self::Broken(reason)
            | Self::Stale(reason)
            | Self::Busy(reason, _)
            | Self::Invalid(reason)
            | Self::Denied(reason) => reason,
        })
    }
}

/// The way to one host.
#[derive(Clone)]
pub(crate) struct Connection {
    grpc: Grpc<Channel>,
    path: PathAndQuery,
    token: Option<MetadataValue<Ascii>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.path)
    }
}

impl Connection {
    /// A connection that is made by the first request.
    pub(crate) fn new(
        address: &str,
        path: PathAndQuery,
        security: &Security,
        dial: Option<&Arc<dyn Dial>>,
        reply_bytes_max: usize,
    ) -> Result<Self, Error> {
        let scheme = if security.authorities.is_some() {
            "https"
        } else {
            "http"
        };
        let unreadable = |why: &dyn fmt::Display| {
            Error::invalid(format!(
                "the host {address:?} can't be used: {why}; name it as host:port"
            ))
        };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|error| unreadable(&error))?
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        if let Some(tls) = tls_of(security) {
            endpoint = endpoint.tls_config(tls).map_err(|error| {
                Error::invalid(format!("TLS can't be set up: {}", chain(&error)))
            })?;
        }
        let channel = match dial {
            None => endpoint.connect_lazy(),
            Some(dial) => endpoint.connect_with_connector_lazy(Dialler {
                dial: Arc::clone(dial),
                address: address.into(),
            }),
        };
        let token = match &security.token {
            None => None,
            Some(token) => Some(
                format!("Bearer {token}")
                    .parse()
                    .map_err(|_| Error::invalid("the token has bytes that no header can have"))?,
            ),
        };
        Ok(Self {
            grpc: Grpc::new(channel).max_decoding_message_size(reply_bytes_max),
            path,
            token,
        })
    }

    /// Sends a request, and returns its reply.
    pub(crate) async fn ask(&self, request: Bytes, left: Duration) -> Result<Bytes, Fault> {
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| fault_of(&Status::from_error(Box::new(error))))?;
        let mut request = Request::new(request);
        // The server begins nothing that is over.
        request.set_timeout(left);
        if let Some(token) = &self.token {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        match grpc.unary(request, self.path.clone(), BytesCodec).await {
            Ok(reply) => Ok(reply.into_inner()),
            Err(status) => Err(fault_of(&status)),
        }
    }
}

fn tls_of(security: &Security) -> Option<ClientTlsConfig> {
    let authorities = security.authorities.as_ref()?;
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
    Some(match &security.identity {
        None => tls,
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
    })
}

fn fault_of(status: &Status) -> Fault {
    let message = match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    };
    if has_source::<ConnectError>(status) {
        return Fault::NotSent(chain(status));
    }
    match status.code() {
        Code::FailedPrecondition => Fault::Stale(message),
        Code::ResourceExhausted => Fault::Busy(message, pushback(status)),
        Code::DeadlineExceeded => Fault::Late,
        Code::Cancelled if has_source::<TimeoutExpired>(status) => Fault::Late,
        Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => Fault::Invalid(message),
        Code::Unauthenticated | Code::PermissionDenied => Fault::Denied(message),
        _ => Fault::Broken(format!("{:?}: {message}", status.code())),
    }
}

fn pushback(status: &Status) -> Option<Duration> {
    let text = status.metadata().get(PUSHBACK)?.to_str().ok()?;
    let pause = text.parse().ok().map(Duration::from_millis);
    pause.map(|pause| pause.min(PUSHBACK_MAX))
}

fn sources(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    std::iter::successors(first, |error| error.source())
}

fn has_source<E: std::error::Error + 'static>(status: &Status) -> bool {
    sources(status).any(|error| error.is::<E>())
}

/// An error with its causes, for people.
fn chain(error: &dyn std::error::Error) -> String {
    let first: Option<&dyn std::error::Error> = Some(error);
    let all = std::iter::successors(first, |error| error.source());
    let mut words: Vec<String> = all.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}

/// Makes connections by a [`Dial`].
#[derive(Debug, Clone)]
struct Dialler {
    dial: Arc<dyn Dial>,
    address: Arc<str>,
}

impl Service<Uri> for Dialler {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { dial, address } = self.clone();
        Box::pin(async move { dial.dial(&address).await.map(TokioIo::new) })
    }
}

/// Messages as bytes. A [`Wire`](crate::Wire) reads and writes them.
#[derive(Debug, Clone, Copy)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_that_a_server_asks_for_has_a_limit_and_may_be_no_number() {
        let pause = |text: &'static str| {
            let mut metadata = tonic::metadata::MetadataMap::new();
            metadata.insert(PUSHBACK, MetadataValue::from_static(text));
            let status = Status::with_metadata(Code::ResourceExhausted, "full", metadata);
            match fault_of(&status) {
                Fault::Busy(_, pause) => pause,
                other => panic!("{other}"),
            }
        };
        assert_eq!(pause("20"), Some(Duration::from_millis(20)));
        assert_eq!(pause("18446744073709551615"), Some(PUSHBACK_MAX));
        assert_eq!(pause("-1"), None);
    }
}
