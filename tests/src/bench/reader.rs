//! Game servers as processes that read the same owner at once.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use storage_config::Settings;
use storage_sdk::Storage;

use super::place::Place;
use super::talk::{Talk, lines};

/// Arguments of a reader.
#[derive(Debug, clap::Args)]
pub struct ReaderArgs {
    /// The settings file
    #[arg(long)]
    config: PathBuf,
}

/// Reads lines with an owner's id and a number. For each line it makes that number of concurrent
/// reads, and prints how many times it asked the database for the owner's rows. Ends with its
/// standard input.
///
/// # Errors
/// The storage does not open, or a read fails.
pub async fn read(args: ReaderArgs) -> Result<()> {
    let storage = Storage::open(Settings::load(&args.config)?).await?;
    let bytes = storage.world("game", "eu")?.bytes();
    println!("ready");
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let (id, times) = line.split_once(' ').context("an id and a number")?;
        let owner = bytes.owner("player", id)?;
        let before = storage.tiers().load_counts().owners;
        let records = try_join_all((0..times.parse::<usize>()?).map(|_| owner.get_all())).await?;
        anyhow::ensure!(
            records.iter().all(|record| !record.is_empty()),
            "{id} was not found"
        );
        println!("{}", storage.tiers().load_counts().owners - before);
    }
    Ok(())
}

/// A reader's process.
#[derive(Debug)]
pub struct Reader(Talk);

impl Reader {
    /// Starts a reader, and waits until its storage is open.
    ///
    /// # Errors
    /// The reader does not start.
    pub async fn start(place: &Place) -> Result<Self> {
        Talk::start(place, "reader", &[]).await.map(Self)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.pid()
    }

    /// Makes this number of concurrent reads of an owner. Returns how many times the reader asked
    /// the database.
    ///
    /// # Errors
    /// A read fails.
    pub async fn read(&mut self, id: &str, times: usize) -> Result<f64> {
        Ok(self.0.ask(&format!("{id} {times}")).await?.parse()?)
    }
}
