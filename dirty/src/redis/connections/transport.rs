//! The border between the engine and its connections: commands, answers, and the dial hook.

use std::{fmt, io};

use async_trait::async_trait;
use redis::{Cmd, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use super::barrier::Barrier;
use crate::redis::error::Failure;

/// Opens the streams of connections in place of the network. Tests stand in for the server with it.
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

/// The server that a command may run under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    /// Any server. The command checks for itself, or needs no check.
    Any,
    /// Only the incarnation of this number. The command is not sent to another one.
    Incarnation(u64),
}

/// One command of a pipeline.
#[derive(Clone)]
pub(crate) struct Command {
    /// The name of the command in intercepts and errors.
    pub(crate) name: &'static str,
    /// The command as it is sent.
    pub(crate) cmd: Cmd,
    /// The slot of its keys.
    pub(crate) slot: u16,
    /// Whether it may change something. Then its outcome is unknown if its answer is lost.
    pub(crate) writes: bool,
    /// Whether it acknowledges data that must not be evicted.
    pub(crate) needs_policy: bool,
    /// The server that it may run under.
    pub(crate) under: Under,
    /// The durability that its answer waits for.
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

/// The answer to one command.
pub(crate) type Answer = Result<Value, Failure>;
