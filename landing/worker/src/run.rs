//! `run`: land until told to stop.

use std::process::ExitCode;

use crate::cli::ConfigArgs;
use crate::{open, signal};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Lands until a signal.
///
/// # Errors
/// Settings or tiers that waiting can't mend.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let stop = signal::stop();
    tokio::pin!(stop);
    let tiers = tokio::select! {
        tiers = open::tiers_waiting(&settings) => tiers?,
        () = &mut stop => return Ok(ExitCode::SUCCESS),
    };
    let cold = std::sync::Arc::clone(tiers.cold());
    let worker = open::worker(&settings, tiers);
    tracing::info!("landing");
    worker.run(stop).await;
    let counts = worker.counts();
    tracing::info!(rows = counts.rows, marks = counts.marks, parked = counts.parked, "stopped");
    cold.close().await;
    Ok(ExitCode::SUCCESS)
}
