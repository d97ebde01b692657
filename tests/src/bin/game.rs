//! A game server for tests: writes players as fast as it can and prints what must be in the
//! database in the end.

use std::time::Duration;

use clap::Parser;

/// A game server that writes its own players and keeps the oracle.
#[derive(Debug, Parser)]
struct Args {
    /// The settings file
    #[arg(long)]
    config: std::path::PathBuf,
    /// Which of the game servers this is; its players are its own
    #[arg(long)]
    server: u32,
    /// How long it plays at least
    #[arg(long, value_parser = humantime::parse_duration)]
    time: Duration,
    /// How many writes it makes at least
    #[arg(long)]
    writes: u64,
    /// The seed of everything that is random
    #[arg(long)]
    seed: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let settings = storage_config::Settings::load(&args.config)?;
    let oracle =
        storage_tests::game::play(settings, args.server, args.time, args.writes, args.seed).await?;
    println!("{}", serde_json::to_string(&oracle)?);
    Ok(())
}
