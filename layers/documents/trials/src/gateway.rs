//! A gateway in a process of a trial's program.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use document_gateway::args::{Args, PAGE_SIZE};
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
    let gateway = Gateway::open(&Args {
        embedded: None,
        config: Some(args.config),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        token_file: Some(args.token_file),
        history: Vec::new(),
        page_size: PAGE_SIZE,
        app: "documents".into(),
        region: "main".into(),
    })
    .await?;
    println!("http://{}", gateway.address());
    // A thread of its own, since the runtime would wait for a read at its end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let _ = term.recv().await;
    gateway.close().await
}
