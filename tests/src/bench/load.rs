//! Many tasks that repeat the same operation for some time.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::case::Sample;

/// An operation that is repeated. Each task has a clone of its own.
pub trait Operation: Clone + Send + 'static {
    /// Runs it once. Returns the number of operations that it counts for. Each call of a repetition
    /// has another `turn`. For all turns of one task, the remainder by the number of tasks is the
    /// same.
    ///
    /// # Errors
    /// The operation fails.
    fn run(&mut self, turn: usize) -> impl Future<Output = Result<u64>> + Send;
}

/// Lets this number of tasks repeat an operation for this time, each at least once.
///
/// # Errors
/// An operation fails.
pub async fn drive<O: Operation>(operation: &O, tasks: usize, time: Duration) -> Result<Sample> {
    let begun = Instant::now();
    let until = begun + time;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let mut operation = operation.clone();
        running.spawn(async move {
            let (mut operations, mut latencies, mut turn) = (0, Vec::new(), task);
            let mut from = Instant::now();
            loop {
                operations += operation.run(turn).await?;
                let now = Instant::now();
                latencies.push(u32::try_from((now - from).as_nanos()).unwrap_or(u32::MAX));
                if now >= until {
                    return anyhow::Ok((operations, latencies));
                }
                (from, turn) = (now, turn + tasks);
            }
        });
    }
    let mut sample = Sample::default();
    while let Some(ended) = running.join_next().await {
        let (operations, latencies) = ended??;
        sample.operations += operations;
        sample.latencies.extend(latencies);
    }
    sample.seconds = begun.elapsed().as_secs_f64();
    Ok(sample)
}

/// Lets this number of tasks run an operation this many times in all, as fast as they can.
///
/// # Errors
/// An operation fails.
pub async fn count<O: Operation>(operation: &O, tasks: usize, turns: usize) -> Result<Sample> {
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let mut operation = operation.clone();
        running.spawn(async move {
            let mut operations = 0;
            for turn in (task..turns).step_by(tasks) {
                operations += operation.run(turn).await?;
            }
            anyhow::Ok(operations)
        });
    }
    let mut sample = Sample::default();
    while let Some(ended) = running.join_next().await {
        sample.operations += ended??;
    }
    sample.seconds = begun.elapsed().as_secs_f64();
    Ok(sample)
}
