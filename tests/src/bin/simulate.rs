//! Runs seeds of the simulator. Ends with 1 if anything is wrong in one of them, or if a fault never hit anything.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Parser;
use storage_tests::sim::run::run;
use storage_tests::sim::summary::Summary;

/// Plays seeds of the simulator: the real code on simulated time, over models of Redis and of the database.
#[derive(Debug, Parser)]
struct Args {
    /// Play this seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "count"])]
    seed: Option<u64>,
    /// Play seeds FROM..TO.
    #[arg(long, value_parser = range, conflicts_with = "count")]
    seeds: Option<Range<u64>>,
    /// Play so many seeds, from 0 on.
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// End at the first seed in which something is wrong.
    #[arg(long)]
    first: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let Args { seed, seeds, count, jobs, trace, first } = Args::parse();
    let seeds = seed.map(|seed| seed..seed + 1).or(seeds).unwrap_or(0..count);
    let begun = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let play = || {
        let mut summary = Summary::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return summary;
            }
            summary.add(run(seed, trace));
            if first && !summary.violations.is_empty() {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    let mut all = Summary::default();
    let mut panicked = false;
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs).map(|_| scope.spawn(play)).collect();
        for job in jobs {
            match job.join() {
                Ok(summary) => all.join(summary),
                Err(_) => panicked = true,
            }
        }
    });
    print!("{all}");
    for (seed, violation) in &all.violations {
        println!(
            "\nseed {seed}: {violation}\nrepeat it with: cargo run --release -p storage-tests --bin simulate -- --seed {seed} --trace"
        );
    }
    println!("{}; {} with violations", all.rate(begun.elapsed()), all.violations.len());
    let unhit = all.unhit();
    if !unhit.is_empty() {
        println!("faults that never hit anything: {unhit:?}");
    }
    if all.violations.is_empty() && unhit.is_empty() && !panicked { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
