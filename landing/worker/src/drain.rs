//! `drain`: land everything that was marked before the start.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use storage_dirty::{HotError, PartitionPeek};
use storage_landing::{Backlog, LandingWorker, drained};
use storage_model::Partition;
use storage_tiers::TierError;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::limit::{self, Deadline};
use crate::{open, progress, signal};

/// Arguments of `drain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Give up after this long, such as 30s or 5min. The rest stays marked
    #[arg(long, default_value = "5min")]
    deadline: Deadline,
}

/// How often the command checks whether a rescue has finished.
const LOOK: Duration = Duration::from_millis(50);
/// The time for the batch under way after the deadline.
const FINISH: Duration = Duration::from_secs(3);

/// Why the command stops landing.
enum End {
    /// Nothing from before the start is left, or the deadline passed. The rest.
    Left(Result<Vec<(Partition, PartitionPeek)>, HotError>),
    /// Only an operator can end the failure.
    Stuck(TierError),
    /// A rescue has landed everything, or a signal came.
    Stopped,
}

/// The marks that a partition still holds.
fn left(partition: Partition, peek: PartitionPeek) -> String {
    // Marks on probation that must become live again are unlanded, too.
    let backlog = Backlog {
        partitions: vec![(partition, peek)],
        ..Backlog::default()
    };
    format!(
        "left in partition {partition}: {} unlanded, {} rejected",
        backlog.marks(),
        backlog.errors()
    )
}

/// Runs a worker beside any others, until everything older than the start has landed, or until a
/// signal.
///
/// # Errors
/// Settings or tiers have a fault that waiting does not help. Or a tier is away until the deadline,
/// or the hot tier is away at the deadline.
pub async fn run(args: Args) -> anyhow::Result<Exit> {
    let settings = open::settings(&args.config)?;
    let deadline = args.deadline.from_now();
    limit::end_after(deadline);
    let stop = signal::stop("stopping after this batch: a second signal exits at once");
    tokio::pin!(stop);
    let tiers = tokio::select! {
        biased;
        () = &mut stop => return Ok(Exit::Signal),
        tiers = open::tiers_by(&settings, deadline) => tiers?,
    };
    let hot = tiers.hot().clone();
    let worker = open::worker(&settings, tiers);
    let enough = Notify::new();
    let bar = progress::bar(0, "marks landed");
    let wait = async {
        let left = tokio::select! {
            left = drained(&hot, deadline, |backlog| progress::shrink(&bar, backlog.marks())) => End::Left(left),
            error = stuck(&worker) => End::Stuck(error),
            () = rescued(&worker) => End::Stopped,
            () = &mut stop => End::Stopped,
        };
        enough.notify_one();
        left
    };
    // A batch that hangs is given up. Its marks are still there, even if it landed.
    let work = timeout_at(deadline + FINISH, worker.run(enough.notified()));
    let (end, _) = tokio::join!(wait, work);
    bar.finish_and_clear();
    let left_over = match end {
        End::Left(left) => Some(left.context("the hot tier").context(open::LATE)?),
        End::Stuck(error) => {
            let why = "landing stands still until an operator mends this: waiting data is kept";
            return Err(error).context(why);
        }
        End::Stopped => None,
    };
    let counts = worker.counts();
    let mut out = std::io::stdout();
    writeln!(out, "landed {} rows of {} marks", counts.rows, counts.marks)?;
    if counts.rescues > 0 {
        return tell_rescue(&mut out, counts.unrescued);
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

/// Tells that Redis takes no writes, and how many marked fields could not be landed from it.
fn tell_rescue(out: &mut impl Write, unrescued: u64) -> anyhow::Result<Exit> {
    let but = match unrescued {
        0 => String::new(),
        some => format!(
            " but for {some} marked fields that can't be landed: landing-worker errors and status show them"
        ),
    };
    writeln!(
        out,
        "Redis takes no writes: all waiting data is in the database{but}. The marks stay until Redis takes writes again"
    )?;
    Ok(if unrescued == 0 {
        Exit::Fine
    } else {
        Exit::Found
    })
}

/// Ready when an operator must act before anything lands. The error tells why.
async fn stuck(worker: &LandingWorker) -> TierError {
    loop {
        if let Some(error) = worker.stuck() {
            return error;
        }
        sleep(LOOK).await;
    }
}

/// Ready when all waiting data has landed from a Redis that takes no writes.
async fn rescued(worker: &LandingWorker) {
    while worker.counts().rescues == 0 {
        sleep(LOOK).await;
    }
}

/// The exit code: `Late` if marks are left at the deadline, `Found` if anything else is left.
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
            requeue: true,
            ..peek.clone()
        };
        assert_eq!(
            left(Partition(3), peek),
            "left in partition 3: 3 unlanded, 4 rejected"
        );
        assert_eq!(
            left(Partition(3), again),
            "left in partition 3: 11 unlanded, 4 rejected"
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
        // Written after the start, in a partition with a rejected row.
        assert_eq!(exit(&[waits], false), Exit::Found);
    }
}
