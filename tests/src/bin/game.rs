//! A game server for tests. It writes players as fast as it can and prints the fields that must be
//! in the database at the end.

use std::time::Duration;

use clap::Parser;

/// A game server that writes its own players and keeps the oracle.
#[derive(Debug, Parser)]
struct Args {
    /// The settings file
    #[arg(long)]
    config: std::path::PathBuf,
    /// The number of this game server. Its players are its own
    #[arg(long)]
    server: u32,
    /// The shortest time that it plays
    #[arg(long, value_parser = humantime::parse_duration)]
    time: Duration,
    /// The least number of writes
    #[arg(long)]
    writes: u64,
    /// The seed of all random choices
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
