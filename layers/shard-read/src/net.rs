//! Connections that are not those of the machine, for tests and for services in one process.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;

/// Both directions of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Connects to hosts.
#[async_trait]
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// A connection to the host of this address.
    ///
    /// # Errors
    /// There is no such host, or it takes no connection.
    async fn dial(&self, address: &str) -> io::Result<Box<dyn Stream>>;
}

/// The bytes that a local connection holds in one direction.
const LOCAL_BYTES: usize = 1 << 20;

type Accepting = mpsc::UnboundedSender<DuplexStream>;

/// A network within the process, for tests and for services that stand beside their callers.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use storage_shard_read::net::{Dial, LocalNetwork};
/// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
///
/// let network = LocalNetwork::default();
/// let mut host = network.listen("goals-1")?;
/// let mut caller = network.dial("goals-1").await?;
/// let mut accepted = host.accept().await;
/// caller.write_all(b"hello").await?;
/// let mut heard = [0; 5];
/// accepted.read_exact(&mut heard).await?;
/// assert_eq!(&heard, b"hello");
/// drop(host);
/// assert!(network.dial("goals-1").await.is_err(), "nobody listens any more");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct LocalNetwork(Arc<Mutex<HashMap<String, Accepting>>>);

impl LocalNetwork {
    /// Takes the connections to an address, until the listener is dropped.
    ///
    /// # Errors
    /// Another listener has the address.
    pub fn listen(&self, address: impl Into<String>) -> io::Result<LocalListener> {
        let (address, (accepting, arriving)) = (address.into(), mpsc::unbounded_channel());
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.get(&address).is_some_and(|host| !host.is_closed()) {
            let taken = format!("another listener has the address {address:?}");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, taken));
        }
        hosts.insert(address.clone(), accepting);
        Ok(LocalListener { address, arriving })
    }
}

#[async_trait]
impl Dial for LocalNetwork {
    async fn dial(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        let (near, far) = tokio::io::duplex(LOCAL_BYTES);
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = hosts.get(address).map(|host| host.send(far));
        match sent {
            Some(Ok(())) => Ok(Box::new(near)),
            _ => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("nobody listens at {address:?}"),
            )),
        }
    }
}

/// A host of a [`LocalNetwork`].
#[derive(Debug)]
pub struct LocalListener {
    address: String,
    arriving: mpsc::UnboundedReceiver<DuplexStream>,
}

impl LocalListener {
    /// The address that it listens at.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next connection.
    ///
    /// # Cancel safety
    /// A dropped call takes no connection.
    pub async fn accept(&mut self) -> Box<dyn Stream> {
        match self.arriving.recv().await {
            Some(stream) => Box::new(stream),
            // Another listener has the address, so none comes any more.
            None => std::future::pending().await,
        }
    }
}
