//! How soon everything goes on after a death: of a landing worker, of the database, of a Redis
//! master.

mod database;
mod holder;
mod master;
mod worker;

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::timeout;

use crate::bench::case::{Case, Figure, Goal, Judged, Plan, Repetitions, Sample};

/// How often it is looked whether it goes on.
const LOOK: Duration = Duration::from_millis(1);
/// How long anything may take at the most.
const PATIENCE: Duration = Duration::from_mins(1);
/// Writes that wait to be landed: so few that landing them takes next to no time.
const MARKS: usize = 1_000;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(worker::Worker),
        Box::new(holder::Holder),
        Box::new(database::Database),
        Box::new(master::Master),
    ]
}

/// A case of the name `recovery-…`; the goal is by how many milliseconds ours may be above the
/// baseline.
fn plan(name: &str, ours: &str, baseline: &str, must: f64, aim: f64) -> Plan {
    Plan {
        name: format!("recovery-{name}"),
        ours: ours.to_owned(),
        baseline: baseline.to_owned(),
        figure: Figure::Counted,
        unit: "ms",
        goal: Goal {
            judged: Judged::ExcessAtMost,
            must,
            aim,
        },
        repetitions: Repetitions::Few,
    }
}

fn sample(time: Duration) -> Sample {
    Sample::counted(1, time.as_secs_f64() * 1e3)
}

/// What is waited for, or an error that names it.
async fn within<T>(what: &str, task: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(PATIENCE, task)
        .await
        .with_context(|| format!("{what}: not within {PATIENCE:?}"))?
        .context(what.to_owned())
}
