//! Connections that are not those of the machine, for tests and for services in one process.

use std::fmt;
use std::io;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

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
