//! Serves documents over HTTP until SIGTERM, SIGINT or SIGHUP.

use std::process::ExitCode;

use clap::Parser as _;
use document_gateway::args::Args;
use document_gateway::limits;
use document_gateway::serve::Gateway;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For people. A used port needs no backtrace.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    limits::enough_threads()?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .init();
    let (mut term, mut int, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let gateway = Gateway::open(args).await?;
    println!("{}", gateway.url());
    if args.token_file.is_none() {
        println!("token {}", gateway.token());
    }
    let mut signalled = async || {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    signalled().await;
    gateway.leave();
    // A second signal ends the wait.
    let _ = tokio::time::timeout(args.drain, signalled()).await;
    gateway.close().await
}
