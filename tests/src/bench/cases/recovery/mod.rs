//! The time until everything goes on after a death: of a landing worker, of the database, of a
//! Redis master.

mod database;
mod holder;
mod master;
mod worker;

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::timeout;

use crate::bench::case::{Case, Figure, Goal, Judged, Plan, Repetitions, Sample};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// The longest time that any step can take.
const PATIENCE: Duration = Duration::from_mins(1);
/// The number of writes that wait for landing. It is so small that landing them takes next to no
/// time.
const MARKS: usize = 1_000;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(worker::Worker),
        Box::new(holder::Holder),
        Box::new(database::Database),
        Box::new(master::Master),
    ]
}

/// A case with the name `recovery-…`. The goal is the excess of ours over the baseline, in
/// milliseconds.
fn plan(name: &str, ours: &str, baseline: &str, must: f64, aim: f64) -> Plan {
    Plan {
        name: format!("recovery-{name}"),
        ours: ours.to_owned(),
        baseline: baseline.to_owned(),
        figure: Figure::Counted,
        unit: "ms",
        goal: Some(Goal {
            judged: Judged::ExcessAtMost,
            must,
            aim,
        }),
        repetitions: Repetitions::Few,
    }
}

fn sample(time: Duration) -> Sample {
    Sample::counted(1, time.as_secs_f64() * 1e3)
}

/// The result of a task, or an error that names it.
async fn within<T>(what: &str, task: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(PATIENCE, task)
        .await
        .with_context(|| format!("{what}: not within {PATIENCE:?}"))?
        .context(what.to_owned())
}
