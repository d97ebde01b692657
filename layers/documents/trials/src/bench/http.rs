//! A client of HTTP/1.1 that costs little: one request at a time over a connection that stays open.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The least room for each read.
const ROOM: usize = 16 << 10;
/// The line before the body.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The last answer.
    answer: Vec<u8>,
    /// The length of its head.
    head: usize,
}

impl Connection {
    /// Connects. Small packets are sent at once.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            answer: Vec::with_capacity(ROOM),
            head: 0,
        })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// The answer is an error, or it has no length.
    pub async fn call(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let length = loop {
            self.read().await?;
            if let Some(length) = self.length()? {
                break length;
            }
        };
        while self.answer.len() < length {
            self.read().await?;
        }
        Ok(())
    }

    /// The body of the last answer.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.answer.get(self.head..).unwrap_or_default()
    }

    /// Sends a request whose answer has no end, and returns its stream.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn stream_of(mut self, request: &[u8]) -> Result<TcpStream> {
        self.stream.write_all(request).await?;
        Ok(self.stream)
    }

    async fn read(&mut self) -> Result<()> {
        read(&mut self.stream, &mut self.answer).await
    }

    /// The length of the answer, once its head is there.
    fn length(&mut self) -> Result<Option<usize>> {
        let Some(at) = find(&self.answer, END_OF_HEAD) else {
            return Ok(None);
        };
        let head = std::str::from_utf8(self.answer.get(..at).unwrap_or_default())?;
        let status = head.get(9..12).unwrap_or_default();
        anyhow::ensure!(status.starts_with('2'), "the answer is {head}");
        let body: usize = header(head, "content-length")
            .with_context(|| format!("no length in {head}"))?
            .parse()?;
        self.head = at + END_OF_HEAD.len();
        Ok(Some(self.head + body))
    }
}

/// Reads more behind the bytes that are there.
///
/// # Errors
/// The connection has ended.
pub(crate) async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.reserve(ROOM);
    let count = stream.read_buf(bytes).await?;
    anyhow::ensure!(count > 0, "the server has closed the connection");
    Ok(())
}

/// The place of a text.
pub(crate) fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

/// The value of a header.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(of, _)| of.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}
