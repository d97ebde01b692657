//! `drain`: land everything that was marked before the start.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use storage_landing::drained;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cli::ConfigArgs;
use crate::{open, progress};

/// Arguments of `drain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Give up after this long, such as 30s or 5min; what is left stays marked. Default: landing.drain_deadline, 5 min
    #[arg(long, value_parser = humantime::parse_duration)]
    deadline: Option<Duration>,
}

/// Runs a worker of its own beside any others, until everything older than the start has landed.
///
/// # Errors
/// Settings or tiers that waiting can't mend; the hot tier is away at the deadline.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let deadline = Instant::now() + args.deadline.unwrap_or(settings.landing.drain_deadline);
    let tiers = tokio::time::timeout_at(deadline, open::tiers_waiting(&settings)).await??;
    let hot = std::sync::Arc::clone(tiers.hot());
    let worker = open::worker(&settings, tiers);
    let enough = Notify::new();
    let bar = progress::bar(0, "marks landed");
    let wait = async {
        let left = drained(hot.as_ref(), deadline, |backlog| progress::shrink(&bar, backlog.marks())).await;
        enough.notify_one();
        left
    };
    let (left, ()) = tokio::join!(wait, worker.run(enough.notified()));
    bar.finish_and_clear();
    let left = left?;
    let counts = worker.counts();
    let mut out = std::io::stdout();
    writeln!(out, "landed {} rows of {} marks", counts.rows, counts.marks)?;
    for (partition, peek) in &left {
        writeln!(out, "left in partition {partition}: {} unlanded, {} refused", peek.live + peek.snapshot, peek.errors)?;
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
