//! Many tasks that do the same for some time.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::case::Sample;

/// Something that is done again and again. Each task has a clone of its own.
pub trait Operation: Clone + Send + 'static {
    /// Does it once; answers for how many it counts. `turn` is another number for each call of a
    /// repetition, and of each task's turns the rest by the number of tasks is the same.
    ///
    /// # Errors
    /// It failed.
    fn run(&mut self, turn: usize) -> impl Future<Output = Result<u64>> + Send;
}

/// Lets so many tasks do something for so long, each once at least.
///
/// # Errors
/// One of them failed.
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

/// Lets so many tasks do something so often in all, as fast as they can.
///
/// # Errors
/// One of them failed.
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
