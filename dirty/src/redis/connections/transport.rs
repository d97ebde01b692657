//! The seam between the engine and its connections: what is sent, what comes back, and who may
//! stand between.

use std::{fmt, io};

use async_trait::async_trait;
use redis::{Cmd, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use super::barrier::Barrier;
use crate::redis::error::Failure;

/// Stands between the engine and its connections, so that tests can count, hold back and break what
/// is sent.
#[async_trait]
pub trait Gate: Send + Sync + fmt::Debug {
    /// Before a pipeline is sent. An error keeps it from being sent, as a connection that can't be
    /// opened does.
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken>;

    /// After a pipeline was answered. An error loses the answers, as a connection that breaks does.
    async fn after(&self, commands: &[&'static str]) -> Result<(), Broken>;

    /// Whether a pipeline that was answered is sent once more, as by something on the way that
    /// repeats; the second answers count.
    async fn again(&self, _commands: &[&'static str]) -> bool {
        false
    }
}

/// Opens the streams that connections speak over, in place of the network, so that tests can stand
/// in for the server.
#[async_trait]
pub trait Dial: Send + Sync + fmt::Debug {
    /// A stream to the server of this address.
    ///
    /// # Errors
    /// The server can't be reached.
    async fn dial(&self, address: &str) -> io::Result<Box<dyn Stream>>;
}

/// Bytes to and from a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug> Stream for S {}

/// The link is broken, says a [`Gate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// Under which server a command may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    /// Under any: the command checks for itself, or needs no check.
    Any,
    /// Only under the incarnation of this number; under another it is not sent.
    Incarnation(u64),
}

/// One command of a pipeline.
#[derive(Clone)]
pub(crate) struct Command {
    /// What a gate and an error call it.
    pub(crate) name: &'static str,
    /// What is sent.
    pub(crate) cmd: Cmd,
    /// The slot of its keys.
    pub(crate) slot: u16,
    /// Whether it may change something, so that its outcome is unknown when its answer is lost.
    pub(crate) writes: bool,
    /// Whether it acknowledges data that must not be evicted.
    pub(crate) needs_policy: bool,
    /// Under which server it may run.
    pub(crate) under: Under,
    /// What its answer waits for.
    pub(crate) barrier: Option<Barrier>,
}

impl Command {
    /// A command that changes nothing.
    pub(crate) fn read(name: &'static str, slot: u16, cmd: Cmd) -> Self {
        Self {
            name,
            cmd,
            slot,
            writes: false,
            needs_policy: false,
            under: Under::Any,
            barrier: None,
        }
    }

    /// A command that may change something.
    pub(crate) fn write(name: &'static str, slot: u16, cmd: Cmd) -> Self {
        Self {
            writes: true,
            ..Self::read(name, slot, cmd)
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in slot {}", self.name, self.slot)
    }
}

/// What came back for one command.
pub(crate) type Answer = Result<Value, Failure>;
