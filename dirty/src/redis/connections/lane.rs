//! The places of a node's connections.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deadpool_redis::Connection;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::common::locked;
use super::flight::Flight;
use crate::redis::error::Failure;

/// A place for one connection.
#[derive(Default)]
pub(in crate::redis) struct Lane {
    /// Held for moments only, never across an await. Emptied by whoever meets a failure, filled by
    /// whoever comes next.
    line: Mutex<Option<Line>>,
    /// The opening under way, or the question whether the connection still leads to the same
    /// server.
    pub(in crate::redis) opening: Flight<Result<Ready, Failure>>,
    /// How many calls are under way over it.
    calls: AtomicUsize,
}

/// A call that is under way over a lane, until it is dropped.
pub(in crate::redis) struct Passage<'a>(&'a Lane);

/// An open connection. It leaves the pool for good when it is dropped, so that the pool never hands
/// it out again.
pub(in crate::redis) struct Line {
    /// None for a connection that was dialled.
    pub(in crate::redis) pooled: Option<Connection>,
    pub(in crate::redis) ready: Ready,
    pub(in crate::redis) driven: Driven,
}

/// Whether the runtime is there that a connection was opened in: it drives the connection. What is
/// sent over one that nobody drives any more has an unknown outcome, though it never left this
/// process.
pub(in crate::redis) struct Driven {
    ended: Arc<AtomicBool>,
    /// Ends the task that watches, with the connection.
    _watched: oneshot::Sender<()>,
}

impl Driven {
    /// By the present runtime.
    pub(in crate::redis) fn here() -> Self {
        struct End(Arc<AtomicBool>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let (ended, (watched, over)) = (Arc::new(AtomicBool::new(false)), oneshot::channel::<()>());
        let end = End(Arc::clone(&ended));
        tokio::spawn(async move {
            let _ = over.await;
            drop(end);
        });
        Self {
            ended,
            _watched: watched,
        }
    }
}

/// What a call needs of a connection.
#[derive(Clone)]
pub(in crate::redis) struct Ready {
    pub(in crate::redis) connection: MultiplexedConnection,
    pub(in crate::redis) incarnation: u64,
    pub(in crate::redis) serial: u64,
    /// Before its server was last asked which one it is.
    pub(in crate::redis) asked: Instant,
}

impl Ready {
    /// Waits so long for answers.
    pub(in crate::redis) fn patience(&mut self, timeout: Duration) {
        self.connection.set_response_timeout(timeout);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(pooled) = self.pooled.take() {
            drop(Connection::take(pooled));
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lane {
    /// How many calls are under way over it.
    pub(in crate::redis) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a call.
    pub(in crate::redis) fn enter(&self) -> Passage<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Passage(self)
    }

    /// The connection that is there.
    pub(in crate::redis) fn ready(&self) -> Option<Ready> {
        let line = locked(&self.line);
        line.as_ref()
            .filter(|line| !line.driven.ended.load(Ordering::Acquire))
            .map(|line| line.ready.clone())
    }

    /// Puts a connection there, and answers it.
    pub(in crate::redis) fn fill(&self, line: Line) -> Ready {
        let ready = line.ready.clone();
        *locked(&self.line) = Some(line);
        ready
    }

    /// Takes note that a connection was asked about, if it is still there.
    pub(in crate::redis) fn confirm(&self, known: &Ready) {
        if let Some(line) = &mut *locked(&self.line)
            && line.ready.serial == known.serial
        {
            line.ready.asked = known.asked;
        }
    }

    /// Gives up a connection that was opened before `began`.
    pub(in crate::redis) fn retire(&self, began: u64) {
        let retired = locked(&self.line).take_if(|line| line.ready.serial < began);
        drop(retired);
    }
}
