//! Connections: how many there are at once, and how one of them ends.
//!
//! A connection ends once it has had no request for a while, whatever else it does. So one that is
//! silent, one with half a head, and one that a client keeps for later do not stay. A live feed is a
//! request under way, and no time limits it. Once all places are taken, a connection without a caller
//! that is known ends for a further one.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::server::TlsStream;

use crate::activity::{Activity, until_its_end};
use crate::figures::Figures;
use crate::front::Front;
use crate::outlet::Outlet;
use crate::strangers::{Name, Stranger, Strangers};
use crate::tls::Tls;

/// How long a new connection may take to send the head of its first request.
const FIRST_MAX: Duration = Duration::from_secs(10);
/// How long a connection that is to end stays open without a request.
const LAST: Duration = Duration::from_secs(1);
/// How long a client of a gateway that ends may take nothing of its answer.
const STANDS: Duration = Duration::from_secs(3);
/// How often a stranger is asked to go while a connection waits for a place.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// The pause after a connection that could not be taken.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two lines of the log about the limit, or about connections that could not be taken.
const TELL_EVERY: Duration = Duration::from_mins(1);
/// The most requests at once on one connection of HTTP/2. Each open feed is one.
const STREAMS_MAX: u32 = 1_000;
/// How often the client of an HTTP/2 connection is asked whether it is there, and its time to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
/// The most bytes of a head. The id of a feed with the most partitions fits.
const HEAD_BYTES_MAX: u32 = 256 << 10;

/// How connections are served.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// The most at once. Further ones take the place of a stranger, or wait.
    pub(crate) most: u32,
    /// How long one stays open without a request.
    pub(crate) idle: Duration,
    /// Without it, they have no TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    /// They are counted here.
    pub(crate) figures: Figures,
}

/// Serves until it is told to stop. Then each connection ends with its requests.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Front,
    terms: Terms,
    stop: watch::Receiver<bool>,
) {
    let mut door = Door {
        listener,
        places: Arc::new(Semaphore::new(
            usize::try_from(terms.most).unwrap_or(usize::MAX),
        )),
        strangers: Strangers::default(),
        is_full: Seldom::default(),
        fails: Seldom::default(),
    };
    loop {
        let (stream, place, stranger) = tokio::select! {
            Some(next) = door.next() => next,
            () = stopped(stop.clone()) => break,
        };
        let (terms, stop) = (terms.clone(), stop.clone());
        let connection = Connection {
            front: front.clone(),
            name: stranger.name(),
            idle: terms.idle,
            stop,
        };
        tokio::spawn(async move {
            // ORDER: the stranger behind its place, so that it goes first. Else one would be asked that is not there.
            let _place = (place, terms.figures.connected());
            let stranger = stranger;
            // An event of a feed is a small packet, which shall not wait for others.
            let _ = stream.set_nodelay(true);
            tokio::select! {
                () = connection.serve_with(stream, terms.tls.as_deref()) => {}
                () = stranger.goes() => {}
            }
        });
    }
    let Door {
        places,
        listener,
        strangers,
        ..
    } = door;
    drop(listener);
    // All places are free once all connections have ended.
    let mut ended = pin!(places.acquire_many(terms.most));
    if timeout(LAST, ended.as_mut()).await.is_err() {
        // Strangers have no request for which the gateway waits.
        while strangers.ask_one_to_go() {}
        let _ = ended.await;
    }
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    strangers: Strangers,
    is_full: Seldom,
    fails: Seldom,
}

/// A line of the log that comes at most once in a while.
#[derive(Default)]
struct Seldom(Option<Instant>);

impl Seldom {
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

impl Door {
    /// The next connection and its place.
    async fn next(&mut self) -> Option<(TcpStream, OwnedSemaphorePermit, Stranger)> {
        let stream = loop {
            match self.listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) if is_of_client(&error) => {}
                Err(error) => self.failed(&error).await,
            }
        };
        // ORDER: behind the connection, which alone can show that a stranger has to go. One waits here.
        let place = self.place().await?;
        Some((stream, place, self.strangers.add()))
    }

    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return Some(place);
            }
            let is_waiting = !self.strangers.ask_one_to_go();
            if self.is_full.is_due() {
                tracing::warn!(
                    is_waiting,
                    "all connections are taken, so further ones wait, or take the place of one without a token: raise --connections, or let clients share them"
                );
            }
            let place = Arc::clone(&self.places).acquire_owned();
            // Another connection may be a stranger by then.
            if let Ok(place) = timeout(ASK_EVERY, place).await {
                return place.ok();
            }
        }
    }

    async fn failed(&mut self, error: &std::io::Error) {
        if self.fails.is_due() {
            tracing::warn!(%error, "a connection could not be taken; if the limit of open files is reached, raise it (ulimit -n)");
        }
        sleep(AGAIN).await;
    }
}

/// A client that went away before it was served.
fn is_of_client(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

/// Waits for the end. A gateway that is dropped stops, too.
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The connection by TLS, unless the client is too slow or speaks none.
async fn encrypted(
    stream: TcpStream,
    tls: &Tls,
    stop: watch::Receiver<bool>,
) -> Option<TlsStream<TcpStream>> {
    let accepted = tls.acceptor(Instant::now()).accept(stream);
    tokio::select! {
        accepted = timeout(FIRST_MAX, accepted) => accepted.ok()?.ok(),
        () = stopped(stop) => None,
    }
}

/// A connection that came in, and how it is served.
struct Connection {
    front: Front,
    /// Each of its requests has this name.
    name: Name,
    /// How long it stays open without a request.
    idle: Duration,
    stop: watch::Receiver<bool>,
}

impl Connection {
    /// Serves it until it ends, with TLS or without.
    async fn serve_with(self, stream: TcpStream, tls: Option<&Tls>) {
        match tls {
            None => self.serve(stream).await,
            // Boxed, so that a connection without TLS keeps no room for it.
            Some(tls) => Box::pin(self.serve_encrypted(stream, tls)).await,
        }
    }

    async fn serve_encrypted(self, stream: TcpStream, tls: &Tls) {
        if let Some(stream) = encrypted(stream, tls, self.stop.clone()).await {
            self.serve(stream).await;
        }
    }

    /// Serves it until it ends.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let activity = Arc::<Activity>::default();
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(self.name.clone());
            let (front, under_way) = (self.front.clone(), activity.begin(request.version()));
            // Boxed, since a connection keeps room for its future while the answer is read, such as a feed.
            Box::pin(async move {
                let response = front.answer(request.map(Body::new)).await;
                Ok::<_, std::convert::Infallible>(until_its_end(response, under_way))
            })
        });
        let stream = TokioIo::new(Outlet::new(stream, Arc::clone(&activity)));
        let http = http();
        let mut served = pin!(http.serve_connection(stream, service));
        let is_stopped = tokio::select! {
            // A client that goes away or sends no HTTP is no failure of this program.
            _ = served.as_mut() => return,
            () = activity.ends(self.idle.min(FIRST_MAX), self.idle) => false,
            () = stopped(self.stop) => true,
        };
        served.as_mut().graceful_shutdown();
        tokio::select! {
            _ = served => {}
            () = activity.rests(LAST) => {}
            () = activity.stands(STANDS), if is_stopped => {}
        }
    }
}

/// HTTP/1.1, or HTTP/2 by its first bytes.
fn http() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        // The time without a request is that for heads, too.
        .header_read_timeout(None)
        .max_buf_size(usize::try_from(HEAD_BYTES_MAX).unwrap_or(usize::MAX));
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX);
    http
}
