//! A game server as a process that writes, through the storage or as plain HSETs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use storage_config::Settings;
use storage_sdk::Storage;

use super::case::{Sample, Side};
use super::cases::{Call, Ours};
use super::load::{count, drive};
use super::place::{Place, connect, owners_of, plain_keys};
use super::plain::{Command, Plain, fields};
use super::talk::{Talk, lines};

/// Arguments of a game server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The settings file
    #[arg(long)]
    config: PathBuf,
    /// The prefix of the ids of its owners
    #[arg(long)]
    series: String,
    /// The number of its owners
    #[arg(long)]
    owners: usize,
}

/// The number of tasks of each game server.
pub const TASKS: usize = 64;
const OURS: &str = "update";
const PLAIN: &str = "hset";

/// Reads lines with a kind of work and a number of milliseconds. For each line it does the work
/// with [`TASKS`] tasks over its own owners. Then it prints the number of operations and the
/// seconds. Ends with its standard input.
///
/// # Errors
/// The storage does not open, or a write fails.
pub async fn serve(args: ServerArgs) -> Result<()> {
    let ServerArgs {
        config,
        series,
        owners,
    } = args;
    let settings = Settings::load(&config)?;
    let connection = connect(&settings.redis.url.to_string(), &settings.redis).await?;
    let storage = Storage::open(settings.clone()).await?;
    let fields = fields(1, 64, 0);
    let ours = Ours::new(owners_of(&storage, &series, owners)?, &fields, Call::Update);
    let plain = Plain::over(
        connection,
        plain_keys(settings.redis.partitions, &series, owners),
        Command::Hset,
        fields,
    );
    count(&ours, TASKS, owners).await?;
    count(&plain, TASKS, owners).await?;
    println!("ready");
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let (what, millis) = line
            .split_once(' ')
            .context("the kind and the time of the work")?;
        let time = Duration::from_millis(millis.parse()?);
        let sample = match what {
            OURS => drive(&ours, TASKS, time).await?,
            PLAIN => drive(&plain, TASKS, time).await?,
            other => bail!("{other} is unknown"),
        };
        println!("{} {}", sample.operations, sample.seconds);
    }
    Ok(())
}

/// A game server's process.
#[derive(Debug)]
pub struct Server(Talk);

impl Server {
    /// Starts the game server of this number with this number of owners, and waits until each of
    /// them is written.
    ///
    /// # Errors
    /// The game server does not start.
    pub async fn start(place: &Place, number: usize, owners: usize) -> Result<Self> {
        let args = [
            "--series",
            &format!("s{number}-"),
            "--owners",
            &owners.to_string(),
        ]
        .map(str::to_owned);
        Talk::start(place, "server", &args).await.map(Self)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.pid()
    }

    /// Lets it write for this time.
    ///
    /// # Errors
    /// A write fails.
    pub async fn write(&mut self, side: Side, time: Duration) -> Result<Sample> {
        let what = if side == Side::Ours { OURS } else { PLAIN };
        let answer = self.0.ask(&format!("{what} {}", time.as_millis())).await?;
        let (operations, seconds) = answer.split_once(' ').context("a number and a time")?;
        Ok(Sample {
            operations: operations.parse()?,
            seconds: seconds.parse()?,
            ..Sample::default()
        })
    }
}
