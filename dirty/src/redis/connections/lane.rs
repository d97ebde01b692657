//! The places of a node's connections.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deadpool_redis::Connection;
use redis::aio::MultiplexedConnection;
use storage_coalesce::SingleFlight;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::redis::error::Failure;
use storage_coalesce::locked;

/// A place for one connection.
#[derive(Default)]
pub(in crate::redis) struct Lane {
    /// Held for moments only, never across an await. A caller that meets a failure empties it, and
    /// the next caller fills it.
    line: Mutex<Option<OpenConnection>>,
    /// The opening under way, or the question whether the connection still leads to the same
    /// server.
    pub(in crate::redis) opening: SingleFlight<Result<Ready, Failure>>,
    /// How many calls are under way over this connection.
    calls: AtomicUsize,
}

/// A call that is under way over a lane. It ends when this is dropped.
pub(in crate::redis) struct Passage<'a>(&'a Lane);

/// An open connection. It leaves the pool for good when it is dropped, so that the pool never hands
/// it out again.
pub(in crate::redis) struct OpenConnection {
    /// `None` for a connection that was dialled.
    pub(in crate::redis) pooled: Option<Connection>,
    pub(in crate::redis) ready: Ready,
    pub(in crate::redis) driven: RuntimeWatch,
}

/// Whether the runtime in which a connection was opened is still there. That runtime drives the
/// connection. A command over a connection that nothing drives has an unknown outcome, although it
/// never left this process.
pub(in crate::redis) struct RuntimeWatch {
    ended: Arc<AtomicBool>,
    /// Ends the watching task together with the connection.
    _watched: oneshot::Sender<()>,
}

impl RuntimeWatch {
    /// Driven by the present runtime.
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

/// The part of a connection that a call needs.
#[derive(Clone)]
pub(in crate::redis) struct Ready {
    pub(in crate::redis) connection: MultiplexedConnection,
    pub(in crate::redis) incarnation: u64,
    pub(in crate::redis) serial: u64,
    /// A moment before its server was last asked which one it is.
    pub(in crate::redis) asked: Instant,
}

impl Ready {
    /// Sets how long to wait for answers.
    pub(in crate::redis) fn patience(&mut self, timeout: Duration) {
        self.connection.set_response_timeout(timeout);
    }
}

impl Drop for OpenConnection {
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
    /// How many calls are under way over this connection.
    pub(in crate::redis) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a call.
    pub(in crate::redis) fn enter(&self) -> Passage<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Passage(self)
    }

    /// The connection, if there is one and its runtime is there.
    pub(in crate::redis) fn ready(&self) -> Option<Ready> {
        let line = locked(&self.line);
        line.as_ref()
            .filter(|line| !line.driven.ended.load(Ordering::Acquire))
            .map(|line| line.ready.clone())
    }

    /// Puts a connection in, and returns its part for calls.
    pub(in crate::redis) fn fill(&self, line: OpenConnection) -> Ready {
        let ready = line.ready.clone();
        *locked(&self.line) = Some(line);
        ready
    }

    /// Notes that a connection was checked, if it is still there.
    pub(in crate::redis) fn confirm(&self, known: &Ready) {
        if let Some(line) = &mut *locked(&self.line)
            && line.ready.serial == known.serial
        {
            line.ready.asked = known.asked;
        }
    }

    /// Retires a connection that was opened before `began`.
    pub(in crate::redis) fn retire(&self, began: u64) {
        let retired = locked(&self.line).take_if(|line| line.ready.serial < began);
        drop(retired);
    }
}
