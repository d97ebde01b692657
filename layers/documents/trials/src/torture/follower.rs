//! A client of the live feed. It comes back after each cut, with the last id or anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{sleep, timeout};

use super::client::Client;
use super::told::Told;

/// How long a follower hears nothing before it looks whether the run is over.
const QUIET: Duration = Duration::from_millis(200);
/// The most bytes of an event that has not ended.
const LINES_MAX: usize = 1 << 20;

/// What a follower heard.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It began anew, or was told to do so: changes before this are unknown to it.
    Anew,
    /// A change.
    Change(Told),
}

/// All that a follower heard so far.
pub type Hearing = Arc<Mutex<Vec<Heard>>>;

/// Follows the feed of a gateway until the end of the run.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    gate: usize,
    rng: StdRng,
    heard: Hearing,
    last_id: Option<String>,
    is_over: Arc<AtomicBool>,
}

impl Follower {
    /// A follower of a gateway. It adds to `heard`.
    #[must_use]
    pub fn new(
        client: Client,
        (gate, seed): (usize, u64),
        heard: Hearing,
        is_over: Arc<AtomicBool>,
    ) -> Self {
        Self {
            client,
            gate,
            rng: StdRng::seed_from_u64(seed ^ 0xF0 ^ gate as u64),
            heard,
            last_id: None,
            is_over,
        }
    }

    fn add(&self, heard: Heard) {
        let mut all = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(heard);
    }

    /// Follows until the end.
    ///
    /// # Errors
    /// The feed sends something else than events.
    pub async fn follow(mut self) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            if self.rng.random_range(0..10) == 0 {
                self.last_id = None;
            }
            if self.last_id.is_none() {
                self.add(Heard::Anew);
            }
            let since = self.last_id.clone();
            match self.client.follow(self.gate, since.as_deref()).await {
                Some(feed) => self.hear(feed).await?,
                None => sleep(Duration::from_millis(50)).await,
            }
        }
        Ok(())
    }

    /// Hears one connection to its end.
    async fn hear(&mut self, mut feed: reqwest::Response) -> Result<()> {
        let mut text = Vec::new();
        // Some connections are given up early.
        let mut events_left = self.rng.random_range(1..2_000);
        while events_left > 0 {
            match timeout(QUIET, feed.chunk()).await {
                Err(_) if self.is_over.load(Ordering::SeqCst) => return Ok(()),
                Err(_) => continue,
                Ok(Ok(Some(chunk))) => text.extend_from_slice(&chunk),
                Ok(Ok(None) | Err(_)) => return Ok(()),
            }
            anyhow::ensure!(text.len() <= LINES_MAX, "an event without an end");
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                self.take(std::str::from_utf8(&event)?)?;
                events_left = i32::max(events_left - 1, 0);
            }
        }
        Ok(())
    }

    fn take(&mut self, event: &str) -> Result<()> {
        let field = |name: &str| {
            let line = event.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim_start)
        };
        match (field("event:"), field("data:")) {
            (Some("reset"), _) => self.add(Heard::Anew),
            (Some(name), Some(data)) if name.starts_with("feed:") => {
                let told = serde_json::from_str(data);
                let told = told.with_context(|| format!("no change: {data}"))?;
                self.add(Heard::Change(told));
            }
            // The opening, and comments that keep the connection alive.
            _ => {}
        }
        if let Some(id) = field("id:") {
            self.last_id = Some(id.to_owned());
        }
        Ok(())
    }
}
