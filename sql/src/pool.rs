//! The connections of a store. They are opened on demand, and held by one caller at a time. A
//! connection is thrown away unless it is known to be good.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use storage_coalesce::locked;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exec::{Exec, Shared};
use crate::fault::Fault;
use crate::session::{Engine, Session};

/// How long an idle connection is trusted without a ping.
const TRUST: Duration = Duration::from_secs(1);
/// The time limit of the ping.
const PING: Duration = Duration::from_secs(1);
/// The time limit for closing all connections.
const CLOSE: Duration = Duration::from_secs(5);

/// Some connections to one database.
#[derive(Debug)]
pub(crate) struct Pool<E: Engine> {
    engine: Arc<E>,
    shared: Arc<Shared>,
    /// One permit for each connection. Held by leases, closed by `close`.
    permits: Arc<Semaphore>,
    size: u32,
    /// Idle connections, the last used one last. `lease` takes one, and the drop of a lease gives
    /// it back. Never locked across an await.
    idle: Mutex<Vec<Idle<E::Session>>>,
    /// Raised when a connection was lost. Connections of an earlier generation are not used any
    /// more.
    generation: AtomicU64,
    /// The most bytes of one statement, as of the last opened connection. 0 before the first.
    packet_bytes_max: AtomicUsize,
    acquire_timeout: Duration,
    connect_timeout: Duration,
}

#[derive(Debug)]
struct Idle<S> {
    exec: Exec<S>,
    since: Instant,
    generation: u64,
}

impl<E: Engine> Pool<E> {
    pub(crate) fn new(
        engine: Arc<E>,
        shared: Arc<Shared>,
        size: u32,
        acquire: Duration,
        connect: Duration,
    ) -> Self {
        Self {
            engine,
            shared,
            permits: Arc::new(Semaphore::new(
                usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS),
            )),
            size,
            idle: Mutex::default(),
            generation: AtomicU64::new(0),
            packet_bytes_max: AtomicUsize::new(0),
            acquire_timeout: acquire,
            connect_timeout: connect,
        }
    }

    /// The most bytes of one statement, if a connection was ever opened.
    pub(crate) fn packet_bytes_max(&self) -> Option<usize> {
        Some(self.packet_bytes_max.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// A connection, within the acquire timeout.
    ///
    /// # Cancel safety
    /// A call that is dropped while it waits takes nothing. A call that is dropped while it tests
    /// or opens a connection throws that connection away.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<Lease<E>, Fault> {
        let limit = self.acquire_timeout;
        let acquired = tokio::time::timeout(limit, self.acquire()).await;
        acquired.unwrap_or_else(|_| Err(Fault::lost(format!("no connection within {limit:?}"))))
    }

    async fn acquire(self: &Arc<Self>) -> Result<Lease<E>, Fault> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| Fault::lost("the store is closed"))?;
        while let Some(mut idle) = self.take_idle() {
            if idle.since.elapsed() < TRUST || idle.exec.answers(PING).await {
                return Ok(self.lent(idle.exec, idle.generation, permit));
            }
            self.renew();
        }
        let generation = self.generation.load(Ordering::Acquire);
        let opened = tokio::time::timeout(self.connect_timeout, self.engine.connect())
            .await
            .unwrap_or_else(|_| {
                let message = format!("not connected within {:?}", self.connect_timeout);
                Err(Fault::lost(message))
            });
        let known = self.packet_bytes_max().is_some();
        let session = opened.map_err(|fault| if known { fault.of_known_place() } else { fault })?;
        self.packet_bytes_max
            .store(session.server().packet_bytes_max, Ordering::Relaxed);
        Ok(self.lent(
            Exec::new(session, Arc::clone(&self.shared)),
            generation,
            permit,
        ))
    }

    fn lent(
        self: &Arc<Self>,
        exec: Exec<E::Session>,
        generation: u64,
        permit: OwnedSemaphorePermit,
    ) -> Lease<E> {
        Lease {
            exec: Some(exec),
            generation,
            pool: Arc::clone(self),
            _permit: permit,
        }
    }

    /// Closes all connections, after the running leases.
    pub(crate) async fn close(&self) {
        let returned = tokio::time::timeout(
            self.shared.statement_timeout,
            self.permits.acquire_many(self.size),
        )
        .await;
        self.permits.close();
        drop(returned);
        let idle = std::mem::take(&mut *self.idle());
        let goodbyes = futures::future::join_all(idle.into_iter().map(|idle| idle.exec.close()));
        // A server that hangs gets no orderly close.
        drop(tokio::time::timeout(CLOSE, goodbyes).await);
    }

    fn take_idle(&self) -> Option<Idle<E::Session>> {
        self.idle().pop()
    }

    /// Drops all connections that were opened before now.
    fn renew(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let outdated = std::mem::take(&mut *self.idle());
        drop(outdated);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle<E::Session>>> {
        locked(&self.idle)
    }
}

/// A connection that one caller holds. On drop, a clean connection goes back and any other is
/// closed. So a caller that is dropped in the middle of a statement leaves no broken connection
/// behind.
#[derive(Debug)]
pub(crate) struct Lease<E: Engine> {
    /// Present until the drop.
    exec: Option<Exec<E::Session>>,
    generation: u64,
    pool: Arc<Pool<E>>,
    _permit: OwnedSemaphorePermit,
}

impl<E: Engine> Lease<E> {
    /// The connection.
    pub(crate) fn exec(&mut self) -> Result<&mut Exec<E::Session>, Fault> {
        self.exec
            .as_mut()
            .ok_or_else(|| Fault::lost("the connection was given back"))
    }
}

impl<E: Engine> Drop for Lease<E> {
    fn drop(&mut self) {
        let Some(exec) = self.exec.take() else { return };
        if exec.is_lost() {
            self.pool.renew();
        }
        // ORDER: the connection goes back before the permit. Otherwise the next caller would find
        // no idle connection and open another one.
        let mut idle = self.pool.idle();
        if exec.is_clean()
            && self.generation == self.pool.generation.load(Ordering::Acquire)
            && !self.pool.permits.is_closed()
        {
            idle.push(Idle {
                exec,
                since: Instant::now(),
                generation: self.generation,
            });
        }
    }
}
