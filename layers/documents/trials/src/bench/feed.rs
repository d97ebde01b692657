//! A client of the live feed that costs little.

use anyhow::Result;
use tokio::net::TcpStream;

use super::http::{find, read};
use super::requests::get;
use super::served::Served;

/// The name of the first event, of each change, and the end of any event.
const OPEN: &[u8] = b"event: begin";
const CHANGE: &[u8] = b"event: feed:";
const END: &[u8] = b"\n\n";
const RESET: &[u8] = b"event: reset";

/// An open feed.
#[derive(Debug)]
pub struct Feed {
    stream: TcpStream,
    /// The bytes that were read and not looked at.
    left: Vec<u8>,
}

impl Feed {
    /// Opens a feed of all changes below a prefix, and waits until it tells them.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub async fn open(served: &Served, prefix: &str) -> Result<Self> {
        let request = get(&format!("feed?prefix={prefix}"));
        let mut feed = Self {
            stream: served.connect().await?.stream_of(&request).await?,
            left: Vec::new(),
        };
        feed.event(OPEN).await?;
        Ok(feed)
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// The feed has ended.
    pub async fn change(&mut self) -> Result<()> {
        self.event(CHANGE).await
    }

    /// Waits for the whole of an event with this beginning, and drops all until its end.
    async fn event(&mut self, name: &[u8]) -> Result<()> {
        loop {
            anyhow::ensure!(find(&self.left, RESET).is_none(), "the feed was reset");
            if let Some(end) = self.end_of(name) {
                self.left.drain(..end);
                return Ok(());
            }
            read(&mut self.stream, &mut self.left).await?;
        }
    }

    fn end_of(&self, name: &[u8]) -> Option<usize> {
        let begin = find(&self.left, name)?;
        let rest = self.left.get(begin..)?;
        Some(begin + find(rest, END)? + END.len())
    }
}
