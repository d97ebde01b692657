//! `run`: land until a signal.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::{http, open, signal};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Serve `/metrics`, `/livez`, `/readyz` and `/healthz` at this address, such as 127.0.0.1:9187
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
}

/// Lands until a signal.
///
/// # Errors
/// Settings or tiers have a fault that waiting does not help.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let work = http::Shared::default();
    let _serving = match args.http {
        Some(address) => Some(http::serve(address, Arc::clone(&work)).await?),
        None => None,
    };
    let stop = signal::stop("stopping after this batch: a second signal exits at once");
    tokio::pin!(stop);
    let tiers = tokio::select! {
        tiers = open::tiers_waiting(&settings) => tiers?,
        () = &mut stop => return Ok(Exit::Fine),
    };
    let cold = tiers.cold().clone();
    let worker = tokio::select! {
        worker = open::worker_with_sinks(&settings, tiers.clone()) => Arc::new(worker?),
        () = &mut stop => return Ok(Exit::Fine),
    };
    let _ = work.set(http::Work {
        worker: Arc::clone(&worker),
        tiers,
        statement_timeout: settings.sql.statement_timeout,
    });
    tracing::info!("landing");
    worker.run(stop).await;
    let counts = worker.counts();
    tracing::info!(
        rows = counts.rows,
        marks = counts.marks,
        rejected = counts.rejected,
        "stopped"
    );
    cold.database.close().await;
    Ok(Exit::Fine)
}
