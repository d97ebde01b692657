//! The part of the Redis protocol that is needed to control the servers, without a client library.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::timeout,
};

/// The longest time that one command can take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest string of a reply, in bytes: Redis' own default limit.
const MAX_STRING: usize = 512 << 20;

/// An answer of Redis. An error reply is an `Err` of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A simple or bulk string.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// Several replies.
    Array(Vec<Reply>),
    /// No value.
    Null,
}

impl Reply {
    /// The text of a string reply.
    ///
    /// # Errors
    /// The reply is not a string of UTF-8.
    pub fn text(&self) -> Result<&str> {
        match self {
            Self::Bytes(bytes) => Ok(std::str::from_utf8(bytes)?),
            other => bail!("not a string: {other:?}"),
        }
    }
}

/// A connection through the server's own unix socket. The socket is there with and without TLS on
/// the port.
pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(crate) async fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .await
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) async fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply> {
        let name = || {
            args.first()
                .map(|name| String::from_utf8_lossy(name.as_ref()).into_owned())
                .unwrap_or_default()
        };
        let exchange = async {
            self.0.write_all(&encode(args)).await?;
            self.read().await
        };
        timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("{} did not answer in {PATIENCE:?}", name()))?
            .with_context(|| format!("{} failed", name()))
    }

    async fn read(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let Some((kind, rest)) = line.trim_end().split_at_checked(1) else {
            bail!("the server closed the connection")
        };
        match kind {
            "+" => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
            "-" => bail!("{rest}"),
            ":" => Ok(Reply::Integer(rest.parse()?)),
            "$" => self.read_bulk(rest.parse()?).await,
            "*" => self.read_array(rest.parse()?).await,
            _ => bail!("not a reply of Redis: {line:?}"),
        }
    }

    async fn read_bulk(&mut self, length: i64) -> Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Null);
        };
        if length > MAX_STRING {
            bail!("a string of {length} bytes; the limit is {MAX_STRING}");
        }
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).await?;
        bytes.truncate(length);
        Ok(Reply::Bytes(bytes))
    }

    async fn read_array(&mut self, length: i64) -> Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Null);
        };
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(Box::pin(self.read()).await?);
        }
        Ok(Reply::Array(items))
    }
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        command.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        command.extend_from_slice(arg.as_ref());
        command.extend_from_slice(b"\r\n");
    }
    command
}
