//! The driver: it starts all processes, lets players play, kills a game server, and counts.
//!
//! [`stage`] has the servers, [`process`] the child processes, [`player`] the players, [`tiers`] the
//! reads of both tiers, and [`count`] the count.

pub mod count;
pub mod player;
pub mod process;
pub mod stage;
pub mod tiers;

use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use count::{Found, wrong_counts};
use player::{Diary, Player};
use process::Child;
use stage::Stage;

/// The arguments.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Args {
    /// Players, shared evenly by the guilds
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    players: u64,
    /// Guilds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    guilds: u64,
    /// Game servers. The first one is killed in the middle
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=20))]
    servers: u64,
    /// Commands of each player
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    commands: u64,
    /// Determines the choices of the players. Default: a random seed, which is printed
    #[arg(long)]
    seed: Option<u64>,
}

/// The longest time for the whole game.
const PATIENCE: Duration = Duration::from_mins(10);

/// Plays the whole game, counts everything in both tiers, and prints the result. Returns whether
/// all counts are right.
///
/// # Errors
/// A server is not installed or does not start, a process ends too early, a player can't log in,
/// the data does not land, or the game takes too long.
pub async fn run(args: Args) -> anyhow::Result<bool> {
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    println!(
        "seed {seed}: {} players, {} guilds, {} game servers",
        args.players, args.guilds, args.servers
    );
    let stage = Stage::start().await?;
    let in_time = timeout(PATIENCE, play(args, seed, &stage)).await;
    let counted = in_time
        .context("the game has not ended in 10 minutes")
        .flatten();
    if !matches!(counted, Ok(true)) {
        eprint!("{}", std::fs::read_to_string(&stage.log)?);
    }
    counted
}

/// The game from its first process to the count.
async fn play(args: Args, seed: u64, stage: &Stage) -> anyhow::Result<bool> {
    // The order of a deployment: the schema, the workers, the game servers.
    Child::start(&["worker", "migrate"], stage)?.wait().await?;
    let worker = Child::start(&["worker", "run"], stage)?;
    let (mut servers, mut addresses) = (Vec::new(), Vec::new());
    for number in 1..=args.servers {
        let name = format!("game-{number}");
        let mut server = Child::start(&["server", "--name", &name], stage)?;
        addresses.push(server.line().await?.parse()?);
        servers.push(server);
    }

    let (progress, done) = mpsc::unbounded_channel();
    let players = start_players(args, seed, &addresses, &progress);
    drop(progress);
    kill_at_half(servers.remove(0), done, args.players * args.commands).await?;
    let diaries: anyhow::Result<Vec<Diary>> = players.join_all().await.into_iter().collect();
    let diaries = diaries?;
    for server in servers {
        server.end().await?;
    }

    // The drain ends when nothing waits any more.
    let mut drain = Child::start(&["worker", "drain"], stage)?;
    drain.wait().await.context("not all data has landed")?;
    worker.end().await?;
    let (hot, cold) = (
        tiers::in_redis(stage).await?,
        tiers::in_database(stage).await?,
    );
    Ok(report(&diaries, &hot, &cold))
}

/// Starts all players. Each of them reports each finished command to `progress`.
fn start_players(
    args: Args,
    seed: u64,
    servers: &[std::net::SocketAddr],
    progress: &mpsc::UnboundedSender<()>,
) -> JoinSet<anyhow::Result<Diary>> {
    let mut choices = StdRng::seed_from_u64(seed);
    let mut players = JoinSet::new();
    for id in 1..=args.players {
        let guild = id % args.guilds;
        let mates = (1..=args.players).filter(|mate| *mate != id && mate % args.guilds == guild);
        let player = Player {
            login: format!("login {id} guild-{guild}"),
            mates: mates.collect(),
            servers: servers.to_vec(),
            choices: StdRng::seed_from_u64(choices.random()),
            diary: Diary::of(id),
        };
        players.spawn(player.play(args.commands, progress.clone()));
    }
    players
}

/// Kills a server with SIGKILL after half of all commands, while the players play on.
async fn kill_at_half(
    mut victim: Child,
    mut done: mpsc::UnboundedReceiver<()>,
    commands: u64,
) -> anyhow::Result<()> {
    for _ in 0..commands / 2 {
        // `None` if all players have ended, because they failed. Their errors come later.
        done.recv().await;
    }
    victim.kill().await
}

/// Prints the counts. Returns whether all of them are right.
fn report(diaries: &[Diary], hot: &Found, cold: &Found) -> bool {
    let sum = |number: fn(&Diary) -> u64| diaries.iter().map(number).sum::<u64>();
    for command in ["trade", "pay", "quest", "walk"] {
        let done: u64 = diaries.iter().map(|diary| diary.done(command)).sum();
        println!("{command:<8}{done:>8}");
    }
    println!("refused {:>8}", sum(|diary| diary.refused));
    println!("moves   {:>8} to another server", sum(|diary| diary.moves));
    println!(
        "cut off {:>8} by the kill of game-1",
        sum(|diary| diary.cut_off)
    );
    let mut all_right = true;
    for (tier, found) in [("Redis", hot), ("the database", cold)] {
        println!(
            "{} items, {} gold, {} xp in {tier}",
            found.items().len(),
            found.gold(),
            found.xp.values().sum::<u64>()
        );
        for wrong in wrong_counts(diaries, found) {
            println!("WRONG in {tier}: {wrong}");
            all_right = false;
        }
    }
    if all_right {
        println!("Every item exists once. No gold and no acknowledged xp is lost.");
    }
    all_right
}
