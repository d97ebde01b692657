//! gRPC by tonic. No other module of the server knows it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _};
use futures::{Stream as Incoming, stream};
use storage_shard_read::net::{LocalListener, Stream};
use storage_shard_read::{GetReply, GetRequest, Schema, Wire};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::{Connected, TcpIncoming};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};
use tonic_health::ServingStatus;
use tower::Service as TowerService;

use crate::server::ServerError;
use crate::service::{Refusal, Service};
use crate::tenure::Tenure;

/// A connection without traffic is asked after this time, and ends without an answer after the second time.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// The bytes that may be under way in one direction.
const WINDOW: u32 = 1 << 20;
/// So many streams that their caller has reset may wait. Hedges cancel their losers, and a connection ends
/// above this. The default of h2 is 20 (grpc-rust, issue 1401).
const RESETS_MAX: usize = 1_024;
/// The trailer by which a busy server asks for a pause, in milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
/// A request is this much larger than its keys at most.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// Where a server listens.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Local(LocalListener),
}

impl Listener {
    /// What clients name.
    pub(crate) fn address(&self) -> io::Result<(String, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let address = listener.local_addr()?;
                Ok((address.to_string(), Some(address)))
            }
            Self::Local(listener) => Ok((listener.address().to_owned(), None)),
        }
    }
}

/// Who may call.
#[derive(Clone, Default)]
pub(crate) struct ServerSecurity {
    /// The server's certificate and its key, as PEM.
    pub(crate) identity: Option<(String, String)>,
    /// The certificates of the authorities that clients' certificates are checked by, as PEM.
    pub(crate) client_authorities: Option<String>,
    /// The token that each request must have.
    pub(crate) token: Option<Arc<str>>,
}

/// Shows no secrets.
impl fmt::Debug for ServerSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSecurity")
            .field("tls", &self.identity.is_some())
            .field("client_authorities", &self.client_authorities.is_some())
            .field("token", &self.token.is_some())
            .finish()
    }
}

/// Serves until `end`, and then until the calls under way have ended.
pub(crate) fn serve<S: Schema>(
    listener: Listener,
    service: Arc<Service<S>>,
    tenure: watch::Receiver<Tenure>,
    security: &ServerSecurity,
    end: oneshot::Receiver<()>,
) -> Result<impl Future<Output = ()> + Send + use<S>, ServerError> {
    let mut server = Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .http2_keepalive_interval(Some(KEEP_ALIVE.0))
        .http2_keepalive_timeout(Some(KEEP_ALIVE.1))
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX));
    if let Some(tls) = tls_of(security) {
        server = server.tls_config(tls).map_err(|error| {
            ServerError::Invalid(format!("TLS can't be set up: {}", chain(&error)))
        })?;
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    let token = security.token.clone();
    // Of both versions, since older tools know the first alone.
    let (newer, older) = (reflection::<S::Wire>(), reflection::<S::Wire>());
    let newer = newer.map(|builder| builder.build_v1()).transpose();
    let newer = newer.map_err(|error| unreadable(&error))?;
    let older = older.map(|builder| builder.build_v1alpha()).transpose();
    let older = older.map_err(|error| unreadable(&error))?;
    let router = server
        .add_service(GetService::<S> { service, token })
        .add_service(health_service)
        .add_optional_service(newer)
        .add_optional_service(older);
    let incoming = incoming(listener);
    Ok(async move {
        // A sender that was dropped is an end, too.
        let end = async { end.await.unwrap_or_default() };
        let serving = router.serve_with_incoming_shutdown(incoming, end);
        tokio::select! {
            ended = serving => if let Err(error) = ended {
                tracing::error!(error = %chain(&error), "the server can't take connections any more");
            },
            () = tell_health(health, S::NAME, tenure) => {}
        }
    })
}

/// Tells the health of the schema. Never ends.
async fn tell_health(
    health: tonic_health::server::HealthReporter,
    schema: &'static str,
    mut tenure: watch::Receiver<Tenure>,
) {
    loop {
        let answers = tenure.borrow_and_update().shard.state.answers();
        let status = if answers {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        health.set_service_status(schema, status).await;
        if tenure.changed().await.is_err() {
            health
                .set_service_status(schema, ServingStatus::NotServing)
                .await;
            std::future::pending::<()>().await;
        }
    }
}

/// Tells strange clients the messages of the service. None: the service does not tell of itself.
fn reflection<W: Wire>() -> Option<tonic_reflection::server::Builder<'static>> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(W::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    (!W::DESCRIPTORS.is_empty()).then(builder)
}

fn unreadable(error: &tonic_reflection::server::Error) -> ServerError {
    ServerError::Invalid(format!("the descriptors can't be read: {error}"))
}

fn tls_of(security: &ServerSecurity) -> Option<ServerTlsConfig> {
    let (certificate, key) = security.identity.as_ref()?;
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
    Some(match &security.client_authorities {
        None => tls,
        Some(authorities) => tls.client_ca_root(Certificate::from_pem(authorities)),
    })
}

/// The connections of a listener.
fn incoming(listener: Listener) -> Pin<Box<dyn Incoming<Item = io::Result<Connection>> + Send>> {
    match listener {
        Listener::Tcp(listener) => {
            let accepted = TcpIncoming::from(listener).with_nodelay(Some(true));
            Box::pin(futures::StreamExt::map(accepted, |accepted| {
                accepted.map(|stream| Connection(Box::new(stream)))
            }))
        }
        Listener::Local(listener) => Box::pin(stream::unfold(listener, async |mut listener| {
            let stream = listener.accept().await;
            Some((Ok(Connection(stream)), listener))
        })),
    }
}

/// A connection of any kind.
struct Connection(Box<dyn Stream>);

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

/// The one method, of whichever service the schema's messages name.
struct GetService<S: Schema> {
    service: Arc<Service<S>>,
    token: Option<Arc<str>>,
}

impl<S: Schema> Clone for GetService<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            token: self.token.clone(),
        }
    }
}

impl<S: Schema> NamedService for GetService<S> {
    const NAME: &'static str = <S::Wire as Wire>::SERVICE;
}

type Answered<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S: Schema> TowerService<http::Request<Body>> for GetService<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answered<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next();
            if method != Some(<S::Wire as Wire>::METHOD) {
                return Ok(Status::unimplemented("there is no such method").into_http());
            }
            let codec = WireCodec::<S::Wire>(PhantomData);
            let mut grpc = Grpc::new(codec).max_decoding_message_size(REQUEST_BYTES_MAX);
            Ok(grpc.unary(service, request).await)
        })
    }
}

impl<S: Schema> TowerService<Request<GetRequest>> for GetService<S> {
    type Response = Response<GetReply>;
    type Error = Status;
    type Future = Answered<Self::Response, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<GetRequest>) -> Self::Future {
        let GetService { service, token } = self.clone();
        Box::pin(async move {
            let metadata = request.metadata();
            check_token(metadata, token.as_deref())?;
            let within = timeout_of(metadata);
            let reply = service.get(request.into_inner(), within).await;
            reply.map(Response::new).map_err(status_of)
        })
    }
}

fn check_token(metadata: &MetadataMap, token: Option<&str>) -> Result<(), Status> {
    let Some(token) = token else {
        return Ok(());
    };
    let given = metadata
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    match given {
        Some(given) if is_same(given.as_bytes(), token.as_bytes()) => Ok(()),
        Some(_) => Err(Status::unauthenticated(
            "the token is not that of the server",
        )),
        None => Err(Status::unauthenticated(
            "the request has no token: send authorization: Bearer ...",
        )),
    }
}

/// Compares two texts in a time that tells nothing of the place where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differs = pairs.fold(0, |differs, (one, other)| differs | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

/// The time of a call, as its caller gives it. A header that can't be read gives none.
fn timeout_of(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The protocol allows eight digits.
    let number: u64 = number.parse().ok().filter(|_| number.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Invalid(reason) => Status::invalid_argument(reason),
        Refusal::Stale(reason) => Status::failed_precondition(reason),
        Refusal::Late => Status::deadline_exceeded("the time of the call is up"),
        Refusal::Busy(reason, pause) => {
            let mut metadata = MetadataMap::new();
            if let Ok(pause) = pause.as_millis().to_string().parse() {
                metadata.insert(PUSHBACK, pause);
            }
            Status::with_metadata(Code::ResourceExhausted, reason, metadata)
        }
    }
}

/// An error with its causes, for people.
fn chain(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = all.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}

/// The messages of a [`Wire`].
struct WireCodec<W>(PhantomData<W>);

impl<W: Wire> Codec for WireCodec<W> {
    type Encode = GetReply;
    type Decode = GetRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<W: Wire> Encoder for WireCodec<W> {
    type Item = GetReply;
    type Error = Status;

    fn encode(&mut self, reply: GetReply, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(W::encode_reply(&reply));
        Ok(())
    }
}

impl<W: Wire> Decoder for WireCodec<W> {
    type Item = GetRequest;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<GetRequest>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let request = W::decode_request(bytes);
        request.map(Some).map_err(|error| {
            Status::invalid_argument(format!("the request can't be read: {error}"))
        })
    }
}
