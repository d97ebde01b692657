//! A client of the live feed. It breaks at any line, also in the middle of an event, and comes back as
//! an `EventSource` does: behind the last event that it was told whole. Now and then it begins anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{sleep, timeout};

use super::client::Client;
use super::place::GATES;
use super::told::Told;
use crate::events::{Event, Source};

/// How long a follower hears nothing before it looks whether the run is over.
const QUIET: Duration = Duration::from_millis(200);
/// The longest time until it comes back. Changes are made meanwhile.
const AWAY_MAX_MS: u64 = 600;
/// The most lines after which it breaks: of a short connection, and of a long one.
const LINES_MAX: [u32; 2] = [40, 8_000];

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

/// Follows the feed of one gateway, or of any, until the end of the run.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    /// Without one, each return is to any gateway.
    gate: Option<usize>,
    rng: StdRng,
    heard: Hearing,
    source: Source,
    is_over: Arc<AtomicBool>,
}

impl Follower {
    /// A follower by its number. There is one for each gateway, and then one that follows any of
    /// them. It adds to `heard`.
    #[must_use]
    pub fn new(
        client: Client,
        (number, seed): (usize, u64),
        heard: Hearing,
        is_over: Arc<AtomicBool>,
    ) -> Self {
        Self {
            client,
            gate: (number < GATES).then_some(number),
            rng: StdRng::seed_from_u64(seed ^ 0xF0 ^ number as u64),
            heard,
            source: Source::default(),
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
            if self.rng.random_range(0..20) == 0 {
                self.source.begin_anew();
            }
            if self.source.last_id().is_none() {
                self.add(Heard::Anew);
            }
            let any = self.rng.random_range(0..GATES);
            let gate = self.gate.unwrap_or(any);
            match self.client.follow(gate, self.source.last_id()).await {
                Some(feed) => self.hear(feed).await?,
                None => sleep(Duration::from_millis(50)).await,
            }
            self.source.breaks();
            let away = self.rng.random_range(0..AWAY_MAX_MS);
            sleep(Duration::from_millis(away)).await;
        }
        Ok(())
    }

    /// Hears one connection to its end, or until it breaks behind some line.
    async fn hear(&mut self, mut feed: reqwest::Response) -> Result<()> {
        let [short, long] = LINES_MAX;
        let most = if self.rng.random_range(0..2) == 0 {
            short
        } else {
            long
        };
        let mut lines_left = self.rng.random_range(1..most);
        loop {
            match timeout(QUIET, feed.chunk()).await {
                Err(_) if self.is_over.load(Ordering::SeqCst) => return Ok(()),
                Err(_) => continue,
                Ok(Ok(Some(chunk))) => self.source.push(&chunk)?,
                Ok(Ok(None) | Err(_)) => return Ok(()),
            }
            while let Some(event) = self.source.line()? {
                event.map_or(Ok(()), |event| self.take(&event))?;
                lines_left -= 1;
                if lines_left == 0 {
                    return Ok(());
                }
            }
        }
    }

    fn take(&self, event: &Event) -> Result<()> {
        match event.name.as_str() {
            "reset" => self.add(Heard::Anew),
            name if name.starts_with("feed:") => {
                let told = serde_json::from_str(&event.data);
                let told = told.with_context(|| format!("no change: {}", event.data))?;
                self.add(Heard::Change(told));
            }
            // The opening.
            _ => {}
        }
        Ok(())
    }
}
