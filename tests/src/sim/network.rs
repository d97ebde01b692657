//! The way from a process to the model of Redis: connections that break, and requests and answers
//! that are lost, late or sent twice.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use storage_dirty::redis::{Dial, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{Duration, sleep};

use super::chance::Chance;
use super::fault::Fault;
use super::point::point;
use super::process::{Process, Socket};
use super::redis::Server;
use super::redis::reply::take_request;

const LINK: &[Fault] = &[
    Fault::RequestLost,
    Fault::ReplyLost,
    Fault::RequestLate,
    Fault::ReplyLate,
    Fault::RequestCopied,
];
/// An answer without items.
const NOTHING: &[u8] = b"*0\r\n";
/// The bytes that a connection takes before its reader has read them.
const BUFFER: usize = 1 << 20;

/// The way of one process to a server.
#[derive(Debug, Clone)]
pub struct Link {
    /// The server.
    pub server: Arc<Server>,
    /// The source of faults.
    pub chance: Arc<Chance>,
    /// The process.
    pub process: Arc<Process>,
}

#[async_trait]
impl Dial for Link {
    async fn dial(&self, _: &str) -> io::Result<Box<dyn Stream>> {
        self.process.runs().await;
        self.chance.delay("connect", self.process.slowness()).await;
        if *self.server.lives().borrow() % 2 == 1 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (here, there) = duplex(BUFFER);
        let link = self.clone();
        tokio::spawn(async move { link.serve(there).await });
        Ok(Box::new(Socket::new(Arc::clone(&self.process), here)))
    }
}

impl Link {
    /// Answers one connection until it breaks.
    async fn serve(&self, mut stream: DuplexStream) {
        let mut lives = self.server.lives();
        let life = *lives.borrow_and_update();
        let mut buffer = BytesMut::new();
        loop {
            let read = tokio::select! {
                biased;
                _ = lives.changed() => return,
                read = stream.read_buf(&mut buffer) => read,
            };
            if !matches!(read, Ok(1..)) {
                return;
            }
            while let Some(request) = take_request(&mut buffer) {
                let Some(reply) = self.answer(&request, life).await else {
                    return;
                };
                if stream.write_all(&reply).await.is_err() {
                    return;
                }
            }
        }
    }

    /// The answer to a request. None if the connection breaks.
    async fn answer(&self, request: &[Vec<u8>], life: u64) -> Option<Vec<u8>> {
        let point = point(&self.server, request);
        if point == "setup" {
            // One fault for each opening of a connection is enough. It hits the last request.
            return self.execute(request, life);
        }
        if point == "asked" {
            // Holders look so often that hits of other points would be rare. So no fault hits a
            // look that finds no request.
            self.server.process.runs().await;
            let reply = self.execute(request, life)?;
            if reply == NOTHING {
                return Some(reply);
            }
        }
        let _under_way = self.chance.begin(point);
        let fault = self.chance.fault(point, LINK);
        self.chance.delay(point, self.process.slowness()).await;
        match fault {
            Some(Fault::RequestLost) => return None,
            Some(Fault::RequestLate) => sleep(self.late()).await,
            _ => {}
        }
        self.server.process.runs().await;
        let reply = self.execute(request, life)?;
        // Like a library or proxy that repeats a request after it missed the answer. It gives up if
        // the repeat fails too.
        if fault == Some(Fault::RequestCopied) {
            sleep(self.chance.millis(0, 900)).await;
            if self.execute(request, life)? != reply {
                return None;
            }
        }
        match fault {
            Some(Fault::ReplyLost) => return None,
            Some(Fault::ReplyLate) => sleep(self.late()).await,
            _ => self.chance.delay(point, self.process.slowness()).await,
        }
        (*self.server.lives().borrow() == life).then_some(reply)
    }

    fn late(&self) -> Duration {
        self.chance.millis(500, 4_000)
    }

    /// Carries a request out, if the server still is the one that it was sent to.
    fn execute(&self, request: &[Vec<u8>], life: u64) -> Option<Vec<u8>> {
        if *self.server.lives().borrow() != life {
            return None;
        }
        let mut reply = Vec::new();
        self.server.execute(request).encode(&mut reply);
        self.chance.digest(&reply);
        Some(reply)
    }
}
