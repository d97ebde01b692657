//! A bare server of gRPC: each answer has the same bytes. And its client.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::{Buf as _, BufMut as _, Bytes};
use http::uri::PathAndQuery;
use storage_tests::bench::talk::lines;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// The windows of the service's own servers and clients.
const WINDOW: u32 = 1 << 20;

/// Serves on a free port, and prints its address. Ends with its standard input.
///
/// # Errors
/// It can't listen.
pub async fn serve(reply: usize) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    let service = EchoService(vec![7; reply].into());
    let serving = Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    let mut lines = lines();
    tokio::select! {
        served = serving => Ok(served?),
        () = async { while lines.recv().await.is_some() {} } => Ok(()),
    }
}

/// Answers each request with these bytes.
#[derive(Debug, Clone)]
struct EchoService(Bytes);

impl NamedService for EchoService {
    const NAME: &'static str = "bench.Echo";
}

type Answering = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

impl tower::Service<http::Request<Body>> for EchoService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(BytesCodec);
            Ok(grpc.unary(service, request).await)
        })
    }
}

impl UnaryService<Bytes> for EchoService {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(self.0.clone())))
    }
}

/// A client of the bare server. Clones share a connection.
#[derive(Debug, Clone)]
pub struct EchoClient {
    grpc: Grpc<Channel>,
    request: Bytes,
}

impl EchoClient {
    /// With requests of this size.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn connect(address: &str, request: usize) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        Ok(Self {
            grpc: Grpc::new(endpoint.connect().await?),
            request: vec![7; request].into(),
        })
    }

    /// One request.
    ///
    /// # Errors
    /// It fails.
    pub async fn ask(&mut self) -> Result<Bytes> {
        self.grpc.ready().await?;
        let path = PathAndQuery::from_static("/bench.Echo/Echo");
        let request = Request::new(self.request.clone());
        let reply = self.grpc.unary(request, path, BytesCodec).await?;
        Ok(reply.into_inner())
    }
}

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
