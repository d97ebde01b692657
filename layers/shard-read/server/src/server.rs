//! A server of a service.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use storage_sdk::{Ids, RandomIds};
use storage_shard_read::net::LocalListener;
use storage_shard_read::{Schema, ShardInfo};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::figures::Figures;
use crate::keeper::Keeper;
use crate::moment::{BootClock, MomentClock};
use crate::service::{Service, ServiceLimits};
use crate::tenure::Tenure;
use crate::transport::{self, Listener, ServerSecurity};
use crate::{Claims, ServerFigures, Shard};

/// The greatest [`ServerBuilder::call_max`].
const CALL_MAX: Duration = Duration::from_hours(24);

/// Why a server can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting can't be used.
    #[error("{0}")]
    Invalid(String),
    /// The address can't be listened at.
    #[error("{address} can't be listened at: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The database of the claims can't be opened.
    #[error("the claims: {0}")]
    Claims(#[from] storage_sdk::Error),
}

/// What a server does when another one has its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// It leaves its range, and claims one again.
    #[default]
    Reclaim,
    /// It leaves its range, and ends.
    End,
}

/// Why a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It was closed.
    Closed,
    /// It lost its claim, and was to end then.
    Lost,
    /// Another server has its name: they took the claim from each other.
    NameTaken,
    /// It failed by a fault of its code.
    Failed,
}

/// How the end of a server went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Why it ended.
    pub ended: Ended,
    /// Whether all calls under way had their answers.
    pub is_orderly: bool,
}

/// The settings of a server.
pub struct ServerBuilder<S: Schema> {
    shard: Arc<dyn Shard<S>>,
    claims: Claims,
    limits: ServiceLimits,
    security: ServerSecurity,
    on_lost: OnLost,
    drain: Duration,
    clock: Arc<dyn MomentClock>,
    ids: Arc<dyn Ids>,
}

impl<S: Schema> std::fmt::Debug for ServerBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("schema", &S::NAME)
            .field("claims", &self.claims)
            .field("limits", &self.limits)
            .field("security", &self.security)
            .field("on_lost", &self.on_lost)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}

impl<S: Schema> ServerBuilder<S> {
    /// The most keys of one request. Default: 1,000, as many as a client sends.
    #[must_use]
    pub fn keys_per_call(mut self, keys: usize) -> Self {
        self.limits.keys_per_call = keys;
        self
    }

    /// The most keys of all requests under way, over all connections. Further requests are refused with a
    /// pause. Default: 10,000.
    #[must_use]
    pub fn keys_under_way(mut self, keys: usize) -> Self {
        self.limits.keys_under_way = keys.min(tokio::sync::Semaphore::MAX_PERMITS);
        self
    }

    /// The longest call, also for callers that name no time. Default: 10 s, and a day at most.
    #[must_use]
    pub fn call_max(mut self, time: Duration) -> Self {
        self.limits.call = time.min(CALL_MAX);
        self
    }

    /// The token that each request must have.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.security.token = Some(token.into().into());
        self
    }

    /// TLS, with this certificate and its key, as PEM.
    #[must_use]
    pub fn tls(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.security.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Clients need a certificate of one of these authorities, as PEM. Only with [`ServerBuilder::tls`].
    #[must_use]
    pub fn client_authorities(mut self, authorities: impl Into<String>) -> Self {
        self.security.client_authorities = Some(authorities.into());
        self
    }

    /// What happens when another server has the claim. Default: [`OnLost::Reclaim`].
    #[must_use]
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// How long the server answers after it has left its range. Clients learn of the end meanwhile, and
    /// another server loads. Default: 5 s.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The clock of ages, for tests. Default: that of the machine.
    #[must_use]
    pub fn clock(mut self, clock: impl MomentClock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The source of tokens, for tests. Default: random.
    #[must_use]
    pub fn ids(mut self, ids: impl Ids + 'static) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    /// Starts the server at an address of this machine. With port 0 the machine chooses one.
    ///
    /// # Errors
    /// A setting can't be used, or the address can't be listened at.
    pub async fn listen(self, address: SocketAddr) -> Result<Server<S>, ServerError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| ServerError::Listen {
            address: address.to_string(),
            source,
        })?;
        self.start(Listener::Tcp(listener)).await
    }

    /// Starts the server with a socket that listens already, such as one whose port the machine has chosen.
    ///
    /// # Errors
    /// A setting can't be used, or the socket can't be taken over.
    pub async fn listen_with(
        self,
        listener: std::net::TcpListener,
    ) -> Result<Server<S>, ServerError> {
        let taken = listener.set_nonblocking(true);
        let taken = taken.and_then(|()| TcpListener::from_std(listener));
        let listener = taken.map_err(|source| ServerError::Listen {
            address: "the socket".to_owned(),
            source,
        })?;
        self.start(Listener::Tcp(listener)).await
    }

    /// Starts the server in a network within the process.
    ///
    /// # Errors
    /// A setting can't be used.
    pub async fn listen_local(self, listener: LocalListener) -> Result<Server<S>, ServerError> {
        self.start(Listener::Local(listener)).await
    }

    async fn start(self, listener: Listener) -> Result<Server<S>, ServerError> {
        let claimer = self.claims.for_schema(S::NAME, &*self.ids)?;
        let (address, socket) = listener.address().map_err(|source| ServerError::Listen {
            address: "the listener".to_owned(),
            source,
        })?;
        let figures = Arc::new(Figures::default());
        let (tenure, watched) = watch::channel(Tenure::standby(0, claimer.dc()));
        let (closing, is_closing) = watch::channel(false);
        let limits = ServiceLimits {
            // A request that never fits is refused for good.
            keys_per_call: self.limits.keys_per_call.min(self.limits.keys_under_way),
            ..self.limits
        };
        let service = Arc::new(Service::new(
            Arc::clone(&self.shard),
            watched.clone(),
            self.clock,
            limits,
            Arc::clone(&figures),
        ));
        let (end, ended) = oneshot::channel();
        let serving = transport::serve(listener, service, watched.clone(), &self.security, ended)?;
        let keeper = Keeper {
            shard: self.shard,
            claimer,
            tenure,
            closing: is_closing,
            on_lost: self.on_lost,
            drain: self.drain,
            ids: self.ids,
            figures: Arc::clone(&figures),
        };
        Ok(Server {
            address,
            socket,
            tenure: watched,
            figures,
            closing,
            keeper: Some(tokio::spawn(keeper.run())),
            transport: Some(tokio::spawn(serving)),
            has_ended: None,
            end,
            schema: std::marker::PhantomData,
        })
    }
}

/// A server of a service. It runs in the runtime of its start. A server that is dropped leaves its range in
/// order as far as the runtime lives, and takes no further connections at once.
#[derive(Debug)]
pub struct Server<S> {
    address: String,
    socket: Option<SocketAddr>,
    tenure: watch::Receiver<Tenure>,
    figures: Arc<Figures>,
    closing: watch::Sender<bool>,
    /// None: it has ended.
    keeper: Option<JoinHandle<Ended>>,
    /// None: it has ended.
    transport: Option<JoinHandle<()>>,
    has_ended: Option<Ended>,
    end: oneshot::Sender<()>,
    schema: std::marker::PhantomData<fn() -> S>,
}

/// What a server holds and has done. Cheap to clone, and it keeps no server alive.
#[derive(Debug, Clone)]
pub struct ServerView {
    tenure: watch::Receiver<Tenure>,
    figures: Arc<Figures>,
}

impl ServerView {
    /// What the server holds now, without an age.
    #[must_use]
    pub fn shard(&self) -> ShardInfo {
        self.tenure.borrow().shard.clone()
    }

    /// What the server has done.
    #[must_use]
    pub fn figures(&self) -> ServerFigures {
        self.figures.read()
    }
}

impl<S: Schema> Server<S> {
    /// The settings of a server. Each server has a service of its own.
    #[must_use]
    pub fn builder(shard: impl Shard<S>, claims: Claims) -> ServerBuilder<S> {
        ServerBuilder {
            shard: Arc::new(shard),
            claims,
            limits: ServiceLimits {
                keys_per_call: 1_000,
                keys_under_way: 10_000,
                // Below the 4 MiB that gRPC reads, with the bytes beside the values.
                reply_bytes: 3 << 20,
                call: Duration::from_secs(10),
            },
            security: ServerSecurity::default(),
            on_lost: OnLost::default(),
            drain: Duration::from_secs(5),
            clock: Arc::new(BootClock),
            ids: Arc::new(RandomIds),
        }
    }

    /// The address that clients name.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The address of the machine. None: it listens in a network within the process.
    #[must_use]
    pub fn socket(&self) -> Option<SocketAddr> {
        self.socket
    }

    /// What the server holds now, without an age.
    #[must_use]
    pub fn shard(&self) -> ShardInfo {
        self.tenure.borrow().shard.clone()
    }

    /// What the server has done.
    #[must_use]
    pub fn figures(&self) -> ServerFigures {
        self.figures.read()
    }

    /// What the server holds and has done, for another task.
    #[must_use]
    pub fn view(&self) -> ServerView {
        ServerView {
            tenure: self.tenure.clone(),
            figures: Arc::clone(&self.figures),
        }
    }

    /// Waits until the server ends by itself. Close it afterwards, so that calls under way have their answers.
    ///
    /// # Cancel safety
    /// Only waits.
    pub async fn ended(&mut self) -> Ended {
        if let Some(ended) = self.has_ended {
            return ended;
        }
        let ended = tokio::select! {
            ended = joined(&mut self.keeper) => ended.unwrap_or(Ended::Failed),
            // It takes no connections any more.
            _ = joined(&mut self.transport) => Ended::Failed,
        };
        self.has_ended = Some(ended);
        ended
    }

    /// Releases the claim, answers for some seconds more, and ends. What is under way after the grace breaks.
    ///
    /// # Cancel safety
    /// A dropped call leaves the server to its end, without a grace.
    pub async fn close(mut self, grace: Duration) -> CloseReport {
        let _ = self.closing.send(true);
        let keeper = match &self.keeper {
            Some(_) => timeout(grace, joined(&mut self.keeper)).await.map(Some),
            None => Ok(None),
        };
        let _ = self.end.send(());
        let transport = match &self.transport {
            Some(_) => timeout(grace, joined(&mut self.transport)).await.is_ok(),
            None => true,
        };
        let tasks = (self.keeper.take(), self.transport.take());
        tasks.0.inspect(JoinHandle::abort);
        tasks.1.inspect(JoinHandle::abort);
        let ended = match &keeper {
            Ok(Some(ended)) => ended.unwrap_or(Ended::Failed),
            Ok(None) | Err(_) => Ended::Closed,
        };
        CloseReport {
            ended: self.has_ended.unwrap_or(ended),
            is_orderly: keeper.is_ok() && transport,
        }
    }
}

/// Waits for a task, and forgets it. None: it panicked. Never ends without a task.
async fn joined<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    let Some(running) = task else {
        return std::future::pending().await;
    };
    let result = running.await;
    *task = None;
    result.ok()
}
