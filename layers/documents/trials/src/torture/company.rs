//! All that use the gateways during a run: clients, followers of the live feed, and a reader of the
//! landed feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use storage_coalesce::locked;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::follower::{Follower, Heard, Hearing};
use super::heard::is_up_to_date;
use super::history::History;
use super::outbox::Outbox;
use super::place::GATES;
use super::play::{OUTBOXES, PLAYERS, Player};
use super::told::{Reader, Told};

/// How long the followers may need to hear the last event.
const CATCH_UP: Duration = Duration::from_secs(60);

/// All that use the gateways during a run.
#[derive(Debug)]
pub struct Company {
    play_is_over: Arc<AtomicBool>,
    players: JoinSet<Result<()>>,
    reader: JoinHandle<Result<Reader>>,
    all_is_over: Arc<AtomicBool>,
    followers: JoinSet<Result<()>>,
    heard: Vec<Hearing>,
}

impl Company {
    /// Begins to use the gateways.
    #[must_use]
    pub fn begin(client: &Client, history: &Arc<History>, seed: u64) -> Self {
        let (play_is_over, all_is_over) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let mut players = JoinSet::new();
        for task in 0..PLAYERS + OUTBOXES {
            let (client, history) = (client.clone(), Arc::clone(history));
            let player = Player::new(client, history, (seed, task), Arc::clone(&play_is_over));
            if task < PLAYERS {
                players.spawn(player.play());
            } else {
                players.spawn(Outbox::new(player).play());
            }
        }
        let (mut followers, mut heard) = (JoinSet::new(), Vec::new());
        for number in 0..=GATES {
            let (hearing, over) = (Hearing::default(), Arc::clone(&all_is_over));
            heard.push(Arc::clone(&hearing));
            followers.spawn(Follower::new(client.clone(), (number, seed), hearing, over).follow());
        }
        let reader = tokio::spawn(read_along(client.clone(), Arc::clone(&play_is_over)));
        Self {
            play_is_over,
            players,
            reader,
            all_is_over,
            followers,
            heard,
        }
    }

    /// Ends the play. Returns the reader of the landed feed, which read from the beginning.
    ///
    /// # Errors
    /// A client or the reader got an answer that can't be.
    pub async fn end_play(&mut self) -> Result<Reader> {
        self.play_is_over.store(true, Ordering::SeqCst);
        while let Some(player) = self.players.join_next().await {
            player??;
        }
        (&mut self.reader).await?
    }

    /// Ends the followers once they have heard all of it, or after a while. Returns all that they
    /// heard.
    ///
    /// # Errors
    /// The live feed sent something else than events.
    pub async fn end(mut self, told: &[Told]) -> Result<Vec<Vec<Heard>>> {
        let begun = Instant::now();
        let copy = |hearing: &Hearing| {
            let heard = locked(hearing);
            heard.clone()
        };
        let mut all: Vec<_> = self.heard.iter().map(copy).collect();
        while !all.iter().all(|heard| is_up_to_date(heard, told)) && begun.elapsed() < CATCH_UP {
            sleep(Duration::from_millis(100)).await;
            all = self.heard.iter().map(copy).collect();
        }
        self.all_is_over.store(true, Ordering::SeqCst);
        while let Some(follower) = self.followers.join_next().await {
            follower??;
        }
        Ok(all)
    }
}

/// Reads the landed feed while it grows, from any gateway.
async fn read_along(client: Client, is_over: Arc<AtomicBool>) -> Result<Reader> {
    let (mut reader, mut gate) = (Reader::default(), 0_usize);
    while !is_over.load(Ordering::SeqCst) {
        gate = gate.wrapping_add(1);
        if reader.read(&client, gate).await? != Some(true) {
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(reader)
}
