//! A client: it writes documents of its own and shared ones, reads, and lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep};

use super::client::{Answer, Client, Outcome, Request};
use super::history::{Asked, End, History, Kind};
use super::owned::Owned;

/// The number of clients that change documents and read them.
pub const PLAYERS: u32 = 10;
/// The number of clients with an outbox. Their numbers follow.
pub const OUTBOXES: u32 = 2;
/// The documents, and the items, that a client alone writes.
const OWN: u32 = 12;
/// How long a change with a key may take until a try of it is answered.
const LIMIT: Duration = Duration::from_secs(120);
/// The longest pause between two requests.
const PAUSE_MAX_MS: u64 = 8;

/// A client.
#[derive(Debug)]
pub struct Player {
    pub(super) client: Client,
    pub(super) history: Arc<History>,
    pub(super) rng: StdRng,
    pub(super) owned: Vec<Owned>,
    pub(super) task: u32,
    number: u64,
    pub(super) is_over: Arc<AtomicBool>,
}

impl Player {
    /// The client of this number.
    #[must_use]
    pub fn new(
        client: Client,
        history: Arc<History>,
        (seed, task): (u64, u32),
        is_over: Arc<AtomicBool>,
    ) -> Self {
        let own = |number: u32| match number % 2 {
            0 => Owned::new(format!("own/{task}/{number}")),
            _ => Owned::new(format!("guild{}~/t{task}-{number}", number % 3)),
        };
        Self {
            client,
            history,
            rng: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(task.into())),
            owned: (0..OWN).map(own).collect(),
            task,
            number: 0,
            is_over,
        }
    }

    /// Plays until the run is over.
    ///
    /// # Errors
    /// The history can't be written.
    pub async fn play(mut self) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            match self.rng.random_range(0..100) {
                0..45 => self.change_own().await?,
                45..60 => self.read_own().await,
                60..66 => self.list().await,
                _ => self.play_shared().await?,
            }
            sleep(Duration::from_millis(
                self.rng.random_range(0..PAUSE_MAX_MS),
            ))
            .await;
        }
        Ok(())
    }

    /// A name of a change that no other one has.
    pub(super) fn token(&mut self) -> String {
        self.number += 1;
        format!("{}-{}", self.task, self.number)
    }

    /// A number that no other increment adds.
    pub(super) fn amount(&mut self) -> u64 {
        self.number += 1;
        self.number * u64::from(PLAYERS + OUTBOXES) + u64::from(self.task)
    }

    /// As [`carry_out`].
    pub(super) async fn carry_out(&mut self, request: &Request) -> Option<Answer> {
        let to = (&self.client, &*self.history);
        carry_out(to, &mut self.rng, request).await
    }

    /// Records a change with its answer.
    pub(super) fn record(
        &self,
        (path, kind, token): (&str, Kind, &str),
        answer: Option<&Answer>,
    ) -> Result<()> {
        let end = match answer.map(|answer| (answer.outcome(), answer)) {
            Some((Outcome::Made, answer)) => End::Acked {
                revision: answer.revision.unwrap_or_default(),
                first: answer.tag.clone().zip(answer.event.clone()),
            },
            Some((Outcome::NotMade | Outcome::Refused, _)) => End::NotApplied,
            _ => End::Unknown,
        };
        self.history.add(Asked {
            path: path.to_owned(),
            kind,
            token: token.to_owned(),
            end,
        })
    }
}

/// Sends a change with a key until it is answered. `None` if that never happens, which is a flaw.
pub(super) async fn carry_out(
    (client, history): (&Client, &History),
    rng: &mut StdRng,
    request: &Request,
) -> Option<Answer> {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        let answer = client.ask(rng, request).await;
        let is_last =
            |answer: &Answer| matches!(answer.outcome(), Outcome::Made | Outcome::Refused);
        if let Some(answer) = answer.filter(is_last) {
            return Some(answer);
        }
        sleep(Duration::from_millis(rng.random_range(10..200))).await;
    }
    let detail = format!("no answer to {} within {LIMIT:?}", request.method);
    history.flaw("answers", &request.path, detail);
    None
}
