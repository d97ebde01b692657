//! `run`: land until told to stop.

use crate::cli::ConfigArgs;
use crate::exit::Exit;
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
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let stop = signal::stop("stopping: finishing the batch; a second signal exits at once");
    tokio::pin!(stop);
    let tiers = tokio::select! {
        tiers = open::tiers_waiting(&settings) => tiers?,
        () = &mut stop => return Ok(Exit::Fine),
    };
    let cold = std::sync::Arc::clone(tiers.cold());
    let worker = open::worker(&settings, tiers);
    tracing::info!("landing");
    worker.run(stop).await;
    let counts = worker.counts();
    tracing::info!(
        rows = counts.rows,
        marks = counts.marks,
        parked = counts.parked,
        "stopped"
    );
    cold.close().await;
    Ok(Exit::Fine)
}
