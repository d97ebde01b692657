//! `drain`: land everything that was marked before the start.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use storage_dirty::PartitionPeek;
use storage_landing::{Backlog, LandingWorker, drained};
use storage_model::Partition;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::cli::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::{open, progress, signal};

/// Arguments of `drain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Give up after this long, such as 30s or 5min; what is left stays marked. Default:
    /// landing.drain_deadline, 5 min
    #[arg(long)]
    deadline: Option<Deadline>,
}

/// How often it is looked whether a rescue was made.
const LOOK: Duration = Duration::from_millis(50);
/// What the batch under way may take after the deadline.
const FINISH: Duration = Duration::from_secs(3);

/// What a partition still holds.
fn left(partition: Partition, peek: PartitionPeek) -> String {
    // Marks on probation that become live again are unlanded, too.
    let backlog = Backlog {
        partitions: vec![(partition, peek)],
        ..Backlog::default()
    };
    format!(
        "left in partition {partition}: {} unlanded, {} refused",
        backlog.marks(),
        backlog.errors()
    )
}

/// Runs a worker of its own beside any others, until everything older than the start has landed, or
/// a signal comes.
///
/// # Errors
/// Settings or tiers that waiting can't mend; a tier is away until the deadline, or the hot one
/// again when it comes.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let deadline = args
        .deadline
        .unwrap_or(Deadline(settings.landing.drain_deadline))
        .from_now();
    limit::end_after(deadline);
    let stop = signal::stop("stopping: finishing the batch; a second signal exits at once");
    tokio::pin!(stop);
    let tiers = tokio::select! {
        biased;
        () = &mut stop => return Ok(Exit::Signal),
        tiers = open::tiers_by(&settings, deadline) => tiers?,
    };
    let hot = std::sync::Arc::clone(tiers.hot());
    let worker = open::worker(&settings, tiers);
    let enough = Notify::new();
    let bar = progress::bar(0, "marks landed");
    let wait = async {
        let left = tokio::select! {
            left = drained(hot.as_ref(), deadline, |backlog| progress::shrink(&bar, backlog.marks())) => Some(left),
            () = rescued(&worker) => None,
            () = &mut stop => None,
        };
        enough.notify_one();
        left
    };
    // A batch that hangs is given up: landed or not, its marks are still there.
    let work = timeout_at(deadline + FINISH, worker.run(enough.notified()));
    let (left_over, _) = tokio::join!(wait, work);
    bar.finish_and_clear();
    let left_over = left_over
        .transpose()
        .context("the hot tier")
        .context(open::LATE)?;
    let counts = worker.counts();
    let mut out = std::io::stdout();
    writeln!(out, "landed {} rows of {} marks", counts.rows, counts.marks)?;
    if counts.rescues > 0 {
        let but = match counts.unrescued {
            0 => String::new(),
            some => format!(
                " but for {some} marked fields that can't be landed, whose marks tell which (landing-worker errors, status)"
            ),
        };
        writeln!(
            out,
            "Redis takes no writes: all that waits is in the database{but}, and its marks stay until Redis takes writes again"
        )?;
        return Ok(if counts.unrescued == 0 {
            Exit::Fine
        } else {
            Exit::Found
        });
    }
    let Some(left_over) = left_over else {
        return Ok(Exit::Signal);
    };
    let exit = exit(&left_over, Instant::now() >= deadline);
    for (partition, peek) in left_over {
        writeln!(out, "{}", left(partition, peek))?;
    }
    Ok(exit)
}

/// Ready when all that waits was landed from a Redis that takes no writes.
async fn rescued(worker: &LandingWorker) {
    while worker.counts().rescues == 0 {
        sleep(LOOK).await;
    }
}

/// How it ends: late if marks are left, else with something found if rows are refused.
fn exit(left_over: &[(Partition, PartitionPeek)], is_late: bool) -> Exit {
    let marks = Backlog {
        partitions: left_over.to_vec(),
        ..Backlog::default()
    }
    .marks();
    match left_over {
        [] => Exit::Fine,
        _ if is_late && marks > 0 => Exit::Late,
        _ => Exit::Found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_become_live_again_are_counted_as_unlanded() {
        let peek = PartitionPeek {
            live: 1,
            snapshot: 2,
            errors: 4,
            probation: 8,
            ..PartitionPeek::default()
        };
        let again = PartitionPeek {
            relive: true,
            ..peek.clone()
        };
        assert_eq!(
            left(Partition(3), peek),
            "left in partition 3: 3 unlanded, 4 refused"
        );
        assert_eq!(
            left(Partition(3), again),
            "left in partition 3: 11 unlanded, 4 refused"
        );
    }

    #[test]
    fn refused_rows_are_found_and_marks_that_are_left_at_the_deadline_are_late() {
        let refused = (
            Partition(3),
            PartitionPeek {
                errors: 1,
                ..PartitionPeek::default()
            },
        );
        let waits = (
            Partition(4),
            PartitionPeek {
                snapshot: 1,
                ..PartitionPeek::default()
            },
        );
        assert_eq!(exit(&[], true), Exit::Fine);
        assert_eq!(exit(std::slice::from_ref(&refused), true), Exit::Found);
        assert_eq!(exit(&[refused, waits.clone()], true), Exit::Late);
        // Written after the start, in a partition where something is refused.
        assert_eq!(exit(&[waits], false), Exit::Found);
    }
}
