//! A proxy that delays, cuts, falls silent, loses replies, or lets bytes through in pieces.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The fate of the bytes that pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weather {
    /// Normal traffic.
    #[default]
    Fair,
    /// All bytes arrive later.
    Delayed(Duration),
    /// Replies arrive later, requests in time.
    LateReplies(Duration),
    /// Nothing arrives and nothing is closed. At the end of this weather, everything that was held
    /// back arrives late.
    Silent,
    /// The present connections fall silent, and new ones do not. At the end of this weather,
    /// everything that was held back arrives, after the traffic of newer connections.
    Stuck,
    /// Every n-th reply is lost with its connection, although the server carried the request out.
    Losing(u64),
    /// This number of bytes at a time, with a pause after each piece.
    Throttled(usize, Duration),
    /// No connection stays open, and none can be opened.
    Down,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    weather: Weather,
    /// The number of times that all connections were cut.
    cuts: u64,
    /// Connections with a lower number are stuck in the weather `Stuck`.
    stuck_below: u64,
}

impl State {
    fn holds_back(&self, connection: u64) -> bool {
        self.weather == Weather::Silent
            || (self.weather == Weather::Stuck && connection < self.stuck_below)
    }
}

/// A proxy to one server. Dropping it ends it and cuts its connections.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    replies: AtomicU64,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Link {
    /// A link to a server on this port of 127.0.0.1.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(State::default());
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(client, port, seen.clone(), Arc::clone(&counted)));
            }
        });
        Ok(Self {
            address,
            state,
            counts,
            accepting,
        })
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes the weather for connections old and new.
    pub fn set(&self, weather: Weather) {
        let stuck_below = self.counts.connections.load(Ordering::SeqCst);
        self.state
            .send_modify(|state| (state.weather, state.stuck_below) = (weather, stuck_below));
    }

    /// Cuts all connections. New ones are let through.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

async fn connection(
    client: TcpStream,
    port: u16,
    seen: watch::Receiver<State>,
    counts: Arc<Counts>,
) {
    let number = counts.connections.fetch_add(1, Ordering::SeqCst);
    let cuts = seen.borrow().cuts;
    if seen.borrow().weather == Weather::Down {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut ended = seen.clone();
    // Both ways end together, and with a cut.
    tokio::select! {
        () = pump(from_client, to_server, seen.clone(), number, None) => {}
        () = pump(from_server, to_client, seen, number, Some(&counts.replies)) => {}
        _ = ended.wait_for(|state| state.cuts > cuts || state.weather == Weather::Down) => {}
    }
}

/// Passes bytes on as the weather allows. `replies` counts them, on the way back.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut seen: watch::Receiver<State>,
    connection: u64,
    replies: Option<&AtomicU64>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let reply = replies.map(|replies| replies.fetch_add(1, Ordering::Relaxed));
        let Ok(weather) = seen
            .wait_for(|state| !state.holds_back(connection))
            .await
            .map(|state| state.weather)
        else {
            return;
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        let passed = match weather {
            Weather::LateReplies(_) if reply.is_none() => to.write_all(bytes).await,
            Weather::Delayed(delay) | Weather::LateReplies(delay) => {
                sleep(delay).await;
                to.write_all(bytes).await
            }
            Weather::Losing(every) if reply.is_some_and(|reply| reply % every == every - 1) => {
                return;
            }
            Weather::Throttled(piece, pause) => in_pieces(&mut to, bytes, piece, pause).await,
            _ => to.write_all(bytes).await,
        };
        if passed.is_err() {
            return;
        }
    }
}

async fn in_pieces(
    to: &mut OwnedWriteHalf,
    bytes: &[u8],
    piece: usize,
    pause: Duration,
) -> std::io::Result<()> {
    for piece in bytes.chunks(piece.max(1)) {
        to.write_all(piece).await?;
        to.flush().await?;
        sleep(pause).await;
    }
    Ok(())
}
