//! A gateway in a process of a trial's program.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser as _;
use document_gateway::args::Args;
use document_gateway::serve::Gateway;
use tokio::signal::unix::{SignalKind, signal};

/// A gateway over the tiers of a settings file, on a port that the system chooses.
#[derive(Debug, Clone, clap::Args)]
pub struct GatewayArgs {
    /// The settings file
    #[arg(long)]
    pub config: PathBuf,
    /// The file with the token of callers
    #[arg(long)]
    pub token_file: PathBuf,
}

/// Serves until SIGTERM, and ends in order. It prints its address first. It also ends when its
/// parent has died, because its standard input ends then.
///
/// # Errors
/// A tier is away, or the gateway does not end in order.
pub async fn serve(args: GatewayArgs) -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let config = args.config.display().to_string();
    let token_file = args.token_file.display().to_string();
    let options = ["--config", &config, "--token-file", &token_file];
    // Clients of a trial may rest for longer than those of a game.
    let fixed = ["gateway", "--listen", "127.0.0.1:0", "--idle", "1h"];
    let args = Args::try_parse_from(fixed.into_iter().chain(options))?;
    let gateway = Gateway::open(&args).await?;
    println!("http://{}", gateway.address());
    // A thread of its own, since the runtime would wait for a read at its end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let _ = term.recv().await;
    gateway.close().await
}
