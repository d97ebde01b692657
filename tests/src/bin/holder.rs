//! A game server that holds one owner in a session. See `storage_tests::holder`.

use clap::Parser;
use storage_tests::holder::{HolderArgs, hold};

/// A game server that holds one owner.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: HolderArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    hold(Cli::parse().args).await
}
