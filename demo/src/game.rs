//! Simulated game servers. Each owns some players, and lets them act at every tick.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use storage_model::Cell;
use storage_sdk::{ByteOwner, Stats, Storage};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::difference::Difference;
use crate::log::Key;
use crate::player::{Player, Totals};

/// The number of game servers. Each is a task.
pub const GAME_SERVERS: u32 = 8;
/// The time between two ticks of a game server.
const TICK: Duration = Duration::from_millis(10);
/// The number of players of one game server that act concurrently at one tick.
const ACTIONS: usize = 20;
/// The interval between looks at the storage.
const LOOK: Duration = Duration::from_millis(50);

/// The players of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The number of players. The game servers share them evenly.
    pub players: u32,
    /// Determines the actions of each player.
    pub seed: u64,
}

/// The result of a play.
#[derive(Debug)]
pub struct Played {
    /// All players.
    pub owners: Vec<ByteOwner>,
    /// The logs of all players.
    pub log: BTreeMap<Key, Cell>,
    /// Differences from the log that players saw during the play.
    pub differences: Vec<Difference>,
    /// The counts of the players' actions.
    pub totals: Arc<Totals>,
    /// The length of the play.
    pub time: Duration,
    /// The highest age of the oldest unlanded write.
    pub oldest_unlanded: Duration,
}

/// The state during the play.
#[derive(Debug)]
pub struct Look<'a> {
    /// The time since the start.
    pub time: Duration,
    /// Writes acknowledged so far.
    pub writes: u64,
    /// The storage's figures.
    pub stats: &'a Stats,
}

/// Logs all players in and lets them play until `over`. Also returns the result of `over`. Calls
/// `progress` several times a second.
///
/// # Errors
/// `over` fails, or the storage rejects a player's call for good.
pub async fn play<T>(
    storage: &Storage,
    plan: Plan,
    over: impl Future<Output = anyhow::Result<T>>,
    mut progress: impl FnMut(Look<'_>),
) -> anyhow::Result<(Played, T)> {
    let totals = Arc::new(Totals::default());
    let (stop, stopped) = watch::channel(false);
    let mut servers = JoinSet::new();
    for server in 0..GAME_SERVERS {
        servers.spawn(serve(
            players(storage, plan, server, &totals)?,
            stopped.clone(),
        ));
    }

    let started = Instant::now();
    let mut oldest_unlanded = Duration::ZERO;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut over = std::pin::pin!(over);
    let over = loop {
        tokio::select! {
            over = &mut over => break over?,
            Some(ended) = servers.join_next() => {
                ended??;
                anyhow::bail!("a game server ended too early");
            }
            _ = looks.tick() => {
                let stats = storage.stats().await?;
                oldest_unlanded = oldest_unlanded.max(stats.oldest_unlanded.unwrap_or_default());
                progress(Look { time: started.elapsed(), writes: totals.writes.load(Ordering::Relaxed), stats: &stats });
            }
        }
    };
    let _ = stop.send(true);
    let mut players = Vec::new();
    while let Some(ended) = servers.join_next().await {
        players.extend(ended.context("a game server")??);
    }
    let time = started.elapsed();
    Ok((gather(&players, totals, time, oldest_unlanded), over))
}

/// The players of one game server: every n-th player.
fn players(
    storage: &Storage,
    plan: Plan,
    server: u32,
    totals: &Arc<Totals>,
) -> storage_sdk::Result<Vec<Player>> {
    let world = storage.world("demo", "eu-1")?;
    let ids =
        (1 + server..=plan.players).step_by(usize::try_from(GAME_SERVERS).unwrap_or(usize::MAX));
    ids.map(|id| Player::new(storage, &world, id, plan.seed, totals))
        .collect()
}

/// A game server. First all players log in. Then the next players act at each tick.
async fn serve(
    mut players: Vec<Player>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<Vec<Player>> {
    for some in players.chunks_mut(ACTIONS) {
        try_join_all(some.iter_mut().map(Player::act)).await?;
    }
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stopped.borrow_and_update() {
        let acting = ACTIONS.min(players.len());
        try_join_all(players.iter_mut().take(acting).map(Player::act)).await?;
        players.rotate_left(acting);
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.changed() => {}
        }
    }
    Ok(players)
}

fn gather(
    players: &[Player],
    totals: Arc<Totals>,
    time: Duration,
    oldest_unlanded: Duration,
) -> Played {
    let log = players.iter().flat_map(|player| {
        let owner = player.owner().owner();
        player
            .log()
            .iter()
            .map(|(field, cell)| ((owner.clone(), field.clone()), cell.clone()))
    });
    Played {
        owners: players
            .iter()
            .map(|player| player.owner().clone())
            .collect(),
        log: log.collect(),
        differences: players
            .iter()
            .flat_map(|player| player.differences().iter().cloned())
            .collect(),
        totals,
        time,
        oldest_unlanded,
    }
}
