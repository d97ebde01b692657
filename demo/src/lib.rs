//! The demo: the whole system at work, checked three ways.
//!
//! Simulated game servers log players in, let them play, save and log out, while what they write
//! lands. Then everything that is cached is evicted and every player is hot-loaded; the players'
//! own log, the rows by plain SQL and the hot-loads must agree.
//!
//! | module | concept |
//! | --- | --- |
//! | [`game`] | [`game::play`]: game servers and what is to be seen of them |
//! | [`player`], [`log`] | one player: what it does, and what it was told |
//! | [`verify`], [`rows`], [`difference`] | [`verify::compare`]: log, rows and hot-loads |
//! | [`embedded`], [`servers`], [`worker`] | where it takes place: in one process, or on real servers with workers that are killed |
//! | [`table`] | what is printed |

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
    /// For how many seconds they play
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// What decides what the players do; chosen and printed if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// Where the database file is made. Default: in a new temporary folder
    #[arg(long, value_name = "FILE", conflicts_with = "servers")]
    database: Option<PathBuf>,
    /// Play on a Redis and a MariaDB or MySQL that are started for it, with two workers of which
    /// one is killed; 100 players or more
    #[arg(long)]
    servers: bool,
    /// Give up after this long
    #[arg(long, default_value = "2h")]
    deadline: Deadline,
}

/// How long a storage may take to close after everything has landed.
const CLOSE: Duration = Duration::from_secs(10);

/// Plays, compares and prints the table; fails on any difference.
///
/// # Errors
/// The storage or a server fails; the deadline passed.
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

/// Shows on a bar how the play goes.
fn show(bar: &ProgressBar) -> impl FnMut(Look<'_>) {
    |look| {
        bar.set_position(u64::try_from(look.time.as_millis()).unwrap_or(u64::MAX));
        let (writes, marks) = (grouped(look.writes), grouped(look.stats.marks));
        bar.set_message(format!(
            "playing: {writes} writes acknowledged, {marks} marks wait to land"
        ));
    }
}

/// After the play: waits for what is left to land, evicts and loads everybody, and compares.
///
/// Answers the comparison, and what the storage said of itself before it.
async fn settle_and_compare(
    storage: &Storage,
    played: &Played,
    database: &Database,
    bar: &ProgressBar,
) -> anyhow::Result<(Comparison, Stats)> {
    bar.set_message("landing what is left");
    verify::landed(storage).await?;
    let stats = storage.stats().await?;
    bar.set_message("everything is evicted; loading every player and comparing");
    Ok((verify::compare(storage, played, database).await?, stats))
}
