//! A TCP proxy that counts round trips and bytes, and loses replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy in front of one server. It ends with this value; connections under way are cut.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    rounds: AtomicU64,
    bytes: AtomicU64,
    /// Every n-th reply is lost with its connection; 0: none.
    lose_every: AtomicU64,
    replies: AtomicU64,
    lost: AtomicU64,
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
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let answered = Arc::new(AtomicBool::new(true));
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(requests(from_client, to_server, Arc::clone(&shared), Arc::clone(&answered)));
                tokio::spawn(replies(from_server, to_client, Arc::clone(&shared), answered));
            }
        });
        Ok(Self { address, counts, accepting })
    }

    /// Loses every n-th reply from now on, and cuts the connection it would have come on; the server has carried the request out.
    /// 0 loses none.
    pub fn lose_every(&self, nth: u64) {
        self.counts.lose_every.store(nth, Ordering::SeqCst);
    }

    /// How many replies were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::SeqCst)
    }

    /// Where to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often a client sent something after the server's last answer: the round trips.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.counts.rounds.load(Ordering::SeqCst)
    }

    /// How many bytes went through, both ways.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::SeqCst)
    }
}

fn count(counts: &Counts, read: usize) {
    counts.bytes.fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::SeqCst);
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counts: Arc<Counts>, answered: Arc<AtomicBool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if answered.swap(false, Ordering::SeqCst) {
            counts.rounds.fetch_add(1, Ordering::SeqCst);
        }
        count(&counts, read);
        if to.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counts: Arc<Counts>, answered: Arc<AtomicBool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        answered.store(true, Ordering::SeqCst);
        let every = counts.lose_every.load(Ordering::SeqCst);
        if every > 0 && counts.replies.fetch_add(1, Ordering::SeqCst) % every == every - 1 {
            counts.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        count(&counts, read);
        if to.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}
