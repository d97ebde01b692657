//! A client of the live feed. It breaks at any line, also in the middle of an event, and comes back as
//! an `EventSource` does: behind the last event that it was told whole. Now and then it begins anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use storage_coalesce::locked;
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
    /// A connection opened without an id: changes before this are unknown to it.
    First,
    /// A connection opened behind the last id.
    Back,
    /// It was told that changes after this are told.
    Begin,
    /// It was told to read again: changes before this are unknown to it.
    Reset,
    /// A change.
    Change(Told),
    /// An id. From now on it would come back behind this one.
    Id(String),
}

impl Heard {
    /// By an event of the feed.
    ///
    /// # Errors
    /// The feed has no such event.
    fn of(event: &Event) -> Result<Self> {
        match event.name.as_str() {
            "begin" => Ok(Self::Begin),
            "reset" => Ok(Self::Reset),
            name if name.starts_with("feed:") => {
                let told = serde_json::from_str(&event.data);
                Ok(Self::Change(
                    told.with_context(|| format!("no change: {}", event.data))?,
                ))
            }
            name => bail!("an event of an unknown name: {name}"),
        }
    }
}

/// The number of changes that were heard.
#[must_use]
pub fn changes(heard: &[Heard]) -> usize {
    let is_change = |heard: &&Heard| matches!(heard, Heard::Change(_));
    heard.iter().filter(is_change).count()
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
    /// The last id that was added to what was heard.
    id: Option<String>,
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
            id: None,
            is_over,
        }
    }

    fn add(&self, heard: Heard) {
        let mut all = locked(&self.heard);
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
                self.id = None;
            }
            let any = self.rng.random_range(0..GATES);
            let gate = self.gate.unwrap_or(any);
            match self.client.follow(gate, self.source.last_id()).await {
                Some(feed) => {
                    let is_back = self.source.last_id().is_some();
                    self.add(if is_back { Heard::Back } else { Heard::First });
                    self.hear(feed).await?;
                }
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
            while self.take_line()? {
                lines_left -= 1;
                if lines_left == 0 {
                    return Ok(());
                }
            }
        }
    }

    /// Takes a line, if a whole one has come.
    fn take_line(&mut self) -> Result<bool> {
        let Some(event) = self.source.line()? else {
            return Ok(false);
        };
        if let Some(event) = event {
            self.add(Heard::of(&event)?);
        }
        let id = self
            .source
            .last_id()
            .filter(|id| self.id.as_deref() != Some(id));
        if let Some(id) = id.map(str::to_owned) {
            self.id = Some(id.clone());
            self.add(Heard::Id(id));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower() -> Follower {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::new(reqwest::Client::new(), Arc::new([]), "".into());
        Follower::new(client, (0, 0), Hearing::default(), Arc::default())
    }

    /// All that a follower hears of these lines.
    fn heard(lines: &str) -> Result<Vec<Heard>> {
        let mut follower = follower();
        follower.source.push(lines.as_bytes())?;
        while follower.take_line()? {}
        let heard = locked(&follower.heard);
        Ok(heard.clone())
    }

    #[test]
    fn a_follower_keeps_events_and_ids_in_their_order() -> Result<()> {
        let id = |id: &str| Heard::Id(id.to_owned());
        let begun = heard("event: begin\ndata: {}\nid: x\n\n")?;
        assert_eq!(begun, [Heard::Begin, id("x")]);
        // A place comes without an event.
        assert_eq!(heard(": \nid: y\n\n")?, [id("y")]);
        assert_eq!(heard("event: reset\ndata: {}\n\n")?, [Heard::Reset]);
        let put = r#"{"id":"0.1.2","method":"feed:put","path":"a","revision":3}"#;
        let put = format!("event: feed:put\ndata: {put}\nid: z\n\n");
        let told = heard(&put)?;
        let [Heard::Change(change), last] = told.as_slice() else {
            anyhow::bail!("{told:?}");
        };
        assert_eq!((change.at(), change.revision), (Some((0, 1, 2)), 3));
        assert_eq!(*last, id("z"));
        assert_eq!(changes(&told), 1);
        Ok(())
    }

    #[test]
    fn an_event_that_no_feed_has_is_an_error() {
        for bad in ["event: feed:put\ndata: x\n\n", "event: other\ndata: {}\n\n"] {
            assert!(heard(bad).is_err(), "{bad}");
        }
    }
}
