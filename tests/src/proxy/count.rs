//! A TCP proxy that counts round trips and bytes, loses replies, and holds requests back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use storage_coalesce::locked;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A proxy in front of one server. Dropping it ends it and cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    rounds: AtomicU64,
    bytes: AtomicU64,
    /// Every n-th reply is lost with its connection. 0 loses none.
    lose_every: AtomicU64,
    replies: AtomicU64,
    lost: AtomicU64,
    /// Every n-th request with these bytes in it loses its reply.
    lose_to: Mutex<Option<(&'static [u8], u64)>>,
    matched: AtomicU64,
    connections: AtomicU64,
    /// Nothing goes through connections with a number below this one.
    held_below: watch::Sender<u64>,
}

/// The common state of the two directions of a connection.
#[derive(Debug)]
struct Link {
    number: u64,
    shared: Arc<Shared>,
    answered: AtomicBool,
    /// Whether the next reply is lost.
    doomed: AtomicBool,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// A proxy to a server on this port of 127.0.0.1.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepted = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let number = accepted.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&accepted);
                let link = Arc::new(Link {
                    number,
                    shared,
                    answered: AtomicBool::new(true),
                    doomed: AtomicBool::new(false),
                });
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(requests(from_client, to_server, Arc::clone(&link)));
                tokio::spawn(replies(from_server, to_client, link));
            }
        });
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Loses every n-th reply from now on and cuts its connection. The server has carried the
    /// request out. 0 loses none.
    pub fn lose_every(&self, nth: u64) {
        self.shared.lose_every.store(nth, Ordering::SeqCst);
    }

    /// Like [`lose_every`](Self::lose_every), for requests that contain these bytes.
    pub fn lose_every_reply_to(&self, nth: u64, request: &'static [u8]) {
        *locked(&self.shared.lose_to) = (nth > 0).then_some((request, nth));
    }

    /// Holds back all bytes of the connections that are open now, in both directions. Later
    /// connections work.
    pub fn hold_open_ones(&self) {
        self.shared
            .held_below
            .send_replace(self.shared.connections.load(Ordering::SeqCst));
    }

    /// Holds everything back, like a network that swallows packets. Connections are accepted, and
    /// no answer ever comes.
    pub fn hold_all(&self) {
        self.shared.held_below.send_replace(u64::MAX);
    }

    /// Lets everything go that was held back. It arrives late, even if its sender has given up.
    pub fn let_go(&self) {
        self.shared.held_below.send_replace(0);
    }

    /// The number of lost replies.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of times that a client sent a request after the server's last answer: the round
    /// trips.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.load(Ordering::SeqCst)
    }

    /// The number of bytes in both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::SeqCst)
    }
}

impl Link {
    /// Waits until the connection is not held back, and counts.
    async fn pass(&self, read: usize) {
        let mut held = self.shared.held_below.subscribe();
        let _ = held.wait_for(|below| self.number >= *below).await;
        self.shared
            .bytes
            .fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Notes a request, and decides whether its reply is lost.
    fn asked(&self, request: &[u8]) {
        if self.answered.swap(false, Ordering::SeqCst) {
            self.shared.rounds.fetch_add(1, Ordering::SeqCst);
        }
        let Some((wanted, nth)) = *locked(&self.shared.lose_to) else {
            return;
        };
        if request.windows(wanted.len()).any(|bytes| bytes == wanted) {
            let matched = self.shared.matched.fetch_add(1, Ordering::SeqCst);
            self.doomed
                .store(matched % nth == nth - 1, Ordering::SeqCst);
        }
    }

    /// Notes a reply. Returns whether it is lost.
    fn loses(&self) -> bool {
        self.answered.store(true, Ordering::SeqCst);
        let every = self.shared.lose_every.load(Ordering::SeqCst);
        let due =
            every > 0 && self.shared.replies.fetch_add(1, Ordering::SeqCst) % every == every - 1;
        let lost = due || self.doomed.load(Ordering::SeqCst);
        self.shared
            .lost
            .fetch_add(u64::from(lost), Ordering::SeqCst);
        lost
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: Arc<Link>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let request = buffer.get(..read).unwrap_or_default();
        link.pass(read).await;
        link.asked(request);
        if to.write_all(request).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: Arc<Link>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        link.pass(read).await;
        if link.loses()
            || to
                .write_all(buffer.get(..read).unwrap_or_default())
                .await
                .is_err()
        {
            return;
        }
    }
}
