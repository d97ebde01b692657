//! `drain`: land everything that was marked before the start.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use storage_dirty::PartitionPeek;
use storage_landing::{Backlog, drained};
use storage_model::Partition;
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

/// The longest wait, a year: later moments the clock can't tell.
const DEADLINE_MAX: Duration = Duration::from_hours(365 * 24);

/// What a partition still holds.
fn left(partition: Partition, peek: PartitionPeek) -> String {
    // Marks on probation that become live again are unlanded, too.
    let backlog = Backlog { partitions: vec![(partition, peek)], ..Backlog::default() };
    format!("left in partition {partition}: {} unlanded, {} refused", backlog.marks(), backlog.errors())
}

/// Runs a worker of its own beside any others, until everything older than the start has landed.
///
/// # Errors
/// Settings or tiers that waiting can't mend; a tier is away until the deadline, or the hot one again when it comes.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = open::settings(&args.config)?;
    let deadline = Instant::now() + args.deadline.unwrap_or(settings.landing.drain_deadline).min(DEADLINE_MAX);
    let tiers = open::tiers_by(&settings, deadline).await?;
    let hot = std::sync::Arc::clone(tiers.hot());
    let worker = open::worker(&settings, tiers);
    let enough = Notify::new();
    let bar = progress::bar(0, "marks landed");
    let wait = async {
        let left = drained(hot.as_ref(), deadline, |backlog| progress::shrink(&bar, backlog.marks())).await;
        enough.notify_one();
        left
    };
    let (left_over, ()) = tokio::join!(wait, worker.run(enough.notified()));
    bar.finish_and_clear();
    let left_over = left_over.context("the hot tier").context(open::LATE)?;
    let counts = worker.counts();
    let mut out = std::io::stdout();
    writeln!(out, "landed {} rows of {} marks", counts.rows, counts.marks)?;
    let is_empty = left_over.is_empty();
    for (partition, peek) in left_over {
        writeln!(out, "{}", left(partition, peek))?;
    }
    Ok(if is_empty { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_become_live_again_are_counted_as_unlanded() {
        let peek = PartitionPeek { live: 1, snapshot: 2, errors: 4, probation: 8, ..PartitionPeek::default() };
        let again = PartitionPeek { relive: true, ..peek.clone() };
        assert_eq!(left(Partition(3), peek), "left in partition 3: 3 unlanded, 4 refused");
        assert_eq!(left(Partition(3), again), "left in partition 3: 11 unlanded, 4 refused");
    }
}
