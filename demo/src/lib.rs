//! The demo: the whole system at work, checked three ways.
//!
//! Simulated game servers log players in, let them play, save and log out, while their writes land.
//! Then all cached players are evicted and hot-loaded. The players' own log, the rows by plain SQL
//! and the hot-loads must agree.
//!
//! | module | concept |
//! | --- | --- |
//! | [`game`] | [`game::play`]: the game servers and their progress |
//! | [`player`], [`log`] | one player: its actions, and its log of acknowledged states |
//! | [`verify`], [`rows`], [`difference`] | [`verify::compare`]: log, rows and hot-loads |
//! | [`embedded`], [`servers`], [`worker`] | the stage: one process, or real servers and workers |
//! | [`table`] | the printed result |

pub mod difference;
pub mod embedded;
pub mod game;
pub mod log;
pub mod player;
pub mod rows;
pub mod servers;
pub mod table;
pub mod verify;
pub mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use landing_worker::exit::Exit;
use landing_worker::limit::{self, Deadline};
use landing_worker::progress;
use storage_sdk::{Stats, Storage};

use game::{Look, Plan, Played};
use rows::Database;
use table::grouped;
use verify::Comparison;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Players, shared evenly by the simulated game servers
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    players: u32,
    /// The length of the play, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Determines the actions of the players. Default: a random seed, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// The database file to create. Default: a file in a new temporary folder
    #[arg(long, value_name = "FILE", conflicts_with = "servers")]
    database: Option<PathBuf>,
    /// Start a Redis and a MariaDB or MySQL and play on them, with two workers of which one is
    /// killed. Needs 100 players or more
    #[arg(long)]
    servers: bool,
    /// Give up after this long
    #[arg(long, default_value = "2h")]
    deadline: Deadline,
}

/// The first argument of the processes in which the demo's landing workers run.
pub const WORKER: &str = "worker";

/// The longest time that a storage can take to close after all data has landed.
const CLOSE: Duration = Duration::from_secs(10);

/// Plays, compares and prints the table. The exit code tells whether there is a difference.
///
/// # Errors
/// The storage or a server fails, or the deadline passes.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    limit::within(args.deadline, play(args)).await
}

async fn play(args: Args) -> anyhow::Result<Exit> {
    let plan = Plan {
        players: args.players,
        seed: args.seed.unwrap_or_else(|| rand::random::<u32>().into()),
    };
    let time = Duration::from_secs(args.seconds);
    let bar = progress::phases(u64::try_from(time.as_millis())?);
    let ended = if args.servers {
        servers::run(plan, time, &bar).await
    } else {
        embedded::run(plan, time, &embedded::database_file(args.database)?, &bar).await
    };
    bar.finish_and_clear();
    let table = ended?;
    write!(std::io::stdout(), "{table}")?;
    Ok(if table.agrees() {
        Exit::Fine
    } else {
        Exit::Found
    })
}

/// Shows the progress of the play on a bar.
fn show(bar: &ProgressBar) -> impl FnMut(Look<'_>) {
    |look| {
        bar.set_position(u64::try_from(look.time.as_millis()).unwrap_or(u64::MAX));
        let (writes, marks) = (grouped(look.writes), grouped(look.stats.marks));
        bar.set_message(format!(
            "playing: {writes} writes acknowledged, {marks} marks wait to land"
        ));
    }
}

/// After the play: waits until the rest has landed, evicts and loads all players, and compares.
///
/// Returns the comparison, and the storage's figures from before it.
async fn settle_and_compare(
    storage: &Storage,
    played: &Played,
    database: &Database,
    bar: &ProgressBar,
) -> anyhow::Result<(Comparison, Stats)> {
    bar.set_message("landing the rest");
    verify::landed(storage).await?;
    let stats = storage.stats().await?;
    bar.set_message("evicting, loading and comparing every player");
    Ok((verify::compare(storage, played, database).await?, stats))
}
