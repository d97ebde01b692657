//! One seed, from its beginning to a verdict.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use storage_sdk::Retry;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::chance::{Chance, Hits, Weather};
use super::drain::{DRAIN_MAX, Lost, drain};
use super::guest::{Guest, have_all};
use super::nemesis::Nemesis;
use super::oracle::book::Counts;
use super::oracle::history::owner_of;
use super::play::{Games, Player};
use super::process::Process;
use super::world::{Worker, World};

/// Longer than any play takes, in simulated time.
const PLAY_MAX: Duration = Duration::from_secs(3_600);

/// Longer than any deadline, and longer than any request is late.
const LATE_MAX: Duration = Duration::from_secs(10);

/// The result of one seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The counts of the checks.
    pub counts: Counts,
    /// How often each fault hit at each point.
    pub hits: Hits,
    /// The number of events.
    pub events: u64,
    /// A number that stands for all events in their order.
    pub trace: u64,
    /// The violation, if there is one.
    pub violation: Option<String>,
}

/// Plays a seed on this thread.
///
/// # Panics
/// There can be no runtime.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "without a runtime there is nothing to simulate"
)]
pub fn run(seed: u64, prints: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(simulate(seed, prints))
}

async fn simulate(seed: u64, prints: bool) -> Report {
    let chance = Chance::new(seed, prints);
    let world = World::new(seed, chance.clone());
    let ended = play(&world).await;
    let (events, trace) = chance.trace();
    let violation = world.history.violation().or(ended.err());
    Report {
        seed,
        counts: world.history.counts(),
        hits: chance.hits(),
        events,
        trace,
        violation,
    }
}

async fn play(world: &Arc<World>) -> Result<(), String> {
    let chance = &world.chance;
    chance.note("plan", || format!("{:?}", world.plan));
    let games: Games = Arc::new(Mutex::new(
        (0..world.plan.games).map(|_| world.game()).collect(),
    ));
    let workers = Arc::new(Mutex::new(
        (0..world.plan.workers)
            .map(|_| world.worker())
            .collect::<Vec<_>>(),
    ));
    let nemesis = Arc::new(Nemesis::new(world.clone(), games.clone(), workers.clone()));
    // It ends with the runtime of the seed.
    drop(world.operator());
    chance.turn(world.plan.weather.clone());

    let mut guests = JoinSet::new();
    for number in 0..world.plan.sessions.map_or(0, |sessions| sessions.guests) {
        guests.spawn(
            Guest {
                world: world.clone(),
                games: games.clone(),
                number,
            }
            .play(),
        );
    }
    let mut stays = Vec::new();
    let mut players = JoinSet::new();
    for number in 0..world.plan.players {
        players.spawn(
            Player {
                world: world.clone(),
                games: games.clone(),
                number,
            }
            .play(),
        );
    }
    let raging = tokio::spawn({
        let nemesis = nemesis.clone();
        async move { nemesis.rage().await }
    });
    let mut playing = async || {
        while let Some(ended) = players.join_next().await {
            ended.map_err(|error| format!("a player failed: {error}"))?;
        }
        while let Some(ended) = guests.join_next().await {
            stays.extend(ended.map_err(|error| format!("a guest failed: {error}"))?);
        }
        Ok(())
    };
    let played = timeout(PLAY_MAX, playing()).await;
    raging.abort();
    let _ = raging.await;
    nemesis.heal();
    chance.turn(Weather {
        delay_max: world.plan.weather.delay_max,
        ..Weather::default()
    });
    chance.note("run", || "all faults end".to_owned());
    match played {
        Ok(played) => played?,
        // Faults may have come so often that no storage could open.
        Err(_) => timeout(DRAIN_MAX, playing())
            .await
            .unwrap_or_else(|_| Err("V8: a call never ends".to_owned()))?,
    }
    // Late requests may be applied until their deadlines.
    sleep(LATE_MAX).await;
    if world.history.violation().is_none() {
        for stay in stays {
            stay.finish().await?;
        }
        have_all(world).await?;
    }
    if world.history.violation().is_none() {
        let lost = drain(world).await?;
        nemesis.look();
        world
            .database
            .tables(|tables| world.history.check_rows(tables));
        look(world).await?;
        let workers = std::mem::take(&mut *locked(&workers));
        end(world, workers, &lost).await?;
    }
    Ok(())
}

/// V2: a fresh game server reads the last state, hot and cold.
async fn look(world: &Arc<World>) -> Result<(), String> {
    let storage = world
        .storage(&Arc::new(Process::default()))
        .await
        .map_err(|error| format!("V8: no storage opens: {error}"))?;
    for cold in [false, true] {
        for name in world.history.owners() {
            let Some(owner) = owner_of(&name) else {
                continue;
            };
            let reader = storage
                .world(owner.app(), owner.region())
                .and_then(|world| world.bytes().owner(owner.logic_type(), owner.id()));
            let reader = reader.map_err(|error| error.to_string())?;
            if cold {
                until_answered(async || reader.evict().await).await?;
            }
            let begun = world.history.begin(&name);
            let record = until_answered(async || reader.get_all().await).await?;
            let values: Vec<_> = world
                .history
                .fields(&name)
                .into_iter()
                .map(|field| (record.get(&field).map(|value| value.to_vec()), field))
                .map(|(value, field)| (field, value))
                .collect();
            world.history.read(&begun, record.version(), &values);
            world.history.check_last(&name, &values);
        }
    }
    Ok(())
}

/// V8: asks until there is an answer. A partition that waits for another hot tier answers later.
async fn until_answered<T>(ask: impl AsyncFn() -> storage_sdk::Result<T>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.retry() == Retry::Never || begun.elapsed() > DRAIN_MAX => {
                return Err(format!("V8: {error}"));
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// V8: workers end when they are told to, and leave nothing behind.
async fn end(world: &World, mut workers: Vec<Worker>, lost: &Lost) -> Result<(), String> {
    workers.iter_mut().for_each(Worker::shut_down);
    let ended = timeout(Duration::from_secs(60), async {
        while !workers.iter().all(Worker::has_ended) {
            sleep(Duration::from_millis(50)).await;
        }
    });
    ended
        .await
        .map_err(|_| "V8: a worker does not end".to_owned())?;
    sleep(Duration::from_secs(15)).await; // by then every other key has expired
    let data = world.redis.copy();
    let lasting = [
        "slug-data:",
        "slug-exist:",
        "slug-part:",
        "slug-ops:",
        "slug-meta",
        "slug-workers",
        "slug-beats:",
    ];
    let left: Vec<String> = data
        .keys
        .keys()
        .map(|key| String::from_utf8_lossy(key).into_owned())
        .collect();
    let left: Vec<&String> = left
        .iter()
        .filter(|key| !lasting.iter().any(|begin| key.starts_with(begin)) && !lost.keep(key))
        .collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("V8: left behind: {left:?}"))
    }
}
