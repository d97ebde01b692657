//! A game server's process: seeded play over its own owners and over shared ones. It also reads the
//! owners of other game servers.
//!
//! | module | concept |
//! | --- | --- |
//! | `own` | owners with one writer: any kind of write and read |
//! | `shared` | counters and chains that all game servers write |
//! | `held` | chains that game servers hold in sessions |

mod held;
mod own;
pub mod shared;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use storage_config::Settings;
use storage_sdk::{ByteStorage, Outcome, Retry, Storage, Write};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::history::{Call, End, Log};

/// The number of owners that only one game server writes.
pub const OWN: u32 = 240;
/// The number of tasks of one game server. Each writes its own share of the owners.
pub const TASKS: u32 = 16;
/// The number of repeats of a write with an unknown outcome, under its id.
const REPEATS: u32 = 4;
/// The number of tasks that write one owner each again and again, as soon as it is cold.
const CHURNERS: u32 = 3;
/// The time for which a key stays the hottest, in milliseconds.
const DRIFT_MS: u128 = 1_200;
/// The longest pause after an operation, in microseconds.
const PAUSE_MAX: u64 = 6_000;

/// The arguments of a game server's process.
#[derive(Debug, Clone, clap::Args)]
pub struct GameArgs {
    /// The settings
    #[arg(long)]
    pub config: PathBuf,
    /// The file for the history
    #[arg(long)]
    pub history: PathBuf,
    /// The number of the game server
    #[arg(long)]
    pub server: u32,
    /// The number of all game servers
    #[arg(long)]
    pub servers: u32,
    /// The number of earlier starts of this game server
    #[arg(long)]
    pub generation: u32,
    /// The seed of the run
    #[arg(long)]
    pub seed: u64,
    /// Write values that the database may reject on demand
    #[arg(long)]
    pub poison: bool,
    /// Write values that are larger than the packets that the database may accept on demand
    #[arg(long)]
    pub large: bool,
}

/// Plays until the standard input ends, then closes the storage.
///
/// # Errors
/// The history can't be written, or the storage can't be opened for a lasting reason.
pub async fn play(args: GameArgs) -> Result<()> {
    let (stopper, stop) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = stopper.send(true);
    });
    let log = Arc::new(Log::create(&args.history)?);
    let Some(storage) = open(&args, &stop).await? else {
        return Ok(());
    };
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let player = Player::new(&args, task, &storage, &log, &stop)?;
        tasks.spawn(player.play());
    }
    while let Some(played) = tasks.join_next().await {
        played??;
    }
    let number = log.begin(0, "", &Call::Close)?;
    let report = storage.close(Duration::from_secs(30)).await;
    log.end(
        number,
        End::Done(report.under_way + report.unlanded.unwrap_or_default()),
    )
}

/// Opens the storage. None if play ended before both tiers were there.
async fn open(args: &GameArgs, stop: &watch::Receiver<bool>) -> Result<Option<Storage>> {
    let settings = Settings::load(&args.config)?;
    loop {
        match Storage::open(settings.clone()).await {
            Ok(storage) => return Ok(Some(storage)),
            Err(_) if *stop.borrow() => return Ok(None),
            Err(error) if error.kind() == storage_sdk::Kind::Invalid => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// One task of a game server.
#[derive(Debug)]
pub(super) struct Player {
    args: GameArgs,
    task: u32,
    storage: Storage,
    bytes: ByteStorage,
    log: Arc<Log>,
    stop: watch::Receiver<bool>,
    rng: StdRng,
    sequence: u64,
    /// The last versions seen of owners, by their numbers.
    seen: Vec<storage_sdk::Version>,
    begun: Instant,
}

impl Player {
    fn new(
        args: &GameArgs,
        task: u32,
        storage: &Storage,
        log: &Arc<Log>,
        stop: &watch::Receiver<bool>,
    ) -> Result<Self> {
        let place =
            u64::from(args.server) << 40 | u64::from(args.generation) << 20 | u64::from(task);
        Ok(Self {
            args: args.clone(),
            task,
            storage: storage.clone(),
            bytes: storage.world("game", "eu")?.bytes(),
            log: Arc::clone(log),
            stop: stop.clone(),
            rng: StdRng::seed_from_u64(args.seed ^ place),
            sequence: 0,
            seen: vec![storage_sdk::Version::ZERO; usize::try_from(OWN)?],
            begun: Instant::now(),
        })
    }

    async fn play(mut self) -> Result<()> {
        while !*self.stop.borrow() {
            match self.rng.random_range(0..100) {
                0..30 if self.task < CHURNERS => self.churn().await?,
                0..70 => self.play_own().await?,
                70..86 => self.look_at_others().await?,
                86..91 => self.count().await?,
                91..94 => self.shift().await?,
                94..98 => self.append().await?,
                _ => self.hold().await?,
            }
            let pause = self.rng.random_range(0..PAUSE_MAX);
            sleep(Duration::from_micros(pause)).await;
        }
        Ok(())
    }

    /// A value that no other write has.
    fn token(&mut self) -> String {
        self.sequence += 1;
        let kind = match self.rng.random_range(0..400) {
            0 if self.args.poison => super::value::POISON,
            1 if self.args.large => super::value::LARGE,
            _ => "",
        };
        format!(
            "{kind}{}.{}.{}.{}",
            self.args.server, self.args.generation, self.task, self.sequence
        )
    }

    /// A number below `all`. Some numbers come more often: the hot keys. They change over time, so
    /// a hot key becomes cold and keeps its data.
    fn hot(&mut self, all: u32) -> u32 {
        let share = self.rng.random_range(0.0..1.0_f64).powi(3);
        let at = (0..all)
            .find(|at| share < f64::from(at + 1) / f64::from(all))
            .unwrap_or(0);
        let drift = u32::try_from(self.begun.elapsed().as_millis() / DRIFT_MS).unwrap_or(0);
        (at + drift) % all
    }

    /// Sends a write, in most cases until its outcome is known. The README has this recipe.
    async fn write<T>(
        &mut self,
        owner: &str,
        call: Call,
        make: impl Fn() -> Write<T>,
        end: impl Fn(T) -> End,
    ) -> Result<End>
    where
        T: Send + 'static,
    {
        let repeats = if self.rng.random_range(0..4) == 0 {
            0
        } else {
            REPEATS
        };
        let id = self.storage.next_id();
        let number = self.log.begin(self.task, owner, &call)?;
        let mut unknown = None;
        for _ in 0..=repeats {
            match make().id(id).await {
                Ok(answer) => return self.ended(number, end(answer)),
                Err(error) => match (error.outcome(), unknown.is_some()) {
                    (Outcome::Unknown, _) if error.retry() == Retry::Reread => {
                        return self.ended(number, End::Unknown(error.to_string()));
                    }
                    (Outcome::Unknown, _) => unknown = Some(error.to_string()),
                    (Outcome::Applied, _) => {
                        return self.ended(number, End::Applied(error.to_string()));
                    }
                    (Outcome::NotApplied, false) if error.is_conflict() => {
                        return self.ended(number, End::Conflict);
                    }
                    (Outcome::NotApplied, false) => {
                        return self.ended(number, End::NotApplied(error.to_string()));
                    }
                    (Outcome::NotApplied, true) => {}
                },
            }
        }
        self.ended(number, End::Unknown(unknown.unwrap_or_default()))
    }

    fn ended(&self, number: u64, end: End) -> Result<End> {
        self.log.end(number, end.clone())?;
        Ok(end)
    }
}
