//! Runs seeds of the simulator. Ends with 1 if a seed finds a violation, or if a fault never hit.

use std::ops::Range;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Parser;
use storage_tests::sim::run::run;
use storage_tests::sim::summary::Summary;

/// Plays seeds of the simulator: the real code on simulated time, over models of Redis and of the
/// database.
#[derive(Debug, Clone, Parser)]
struct Args {
    /// Play this seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "count"])]
    seed: Option<u64>,
    /// Play seeds FROM..TO.
    #[arg(long, value_parser = range, conflicts_with = "count")]
    seeds: Option<Range<u64>>,
    /// Play this number of seeds, from 0 on.
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// End at the first seed with a violation.
    #[arg(long)]
    first: bool,
    /// Print the result of all seeds as a part of a page in Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write the cells of fault and point that were hit, with their numbers of schedules, to this
    /// file.
    #[arg(long, value_name = "FILE")]
    cells: Option<std::path::PathBuf>,
    /// Break this rule, a switch of scripts/sabotage, and end with 0 if a seed finds it. Needs a
    /// build with the feature `sabotage`.
    #[arg(long, value_name = "SWITCH", conflicts_with_all = ["markdown", "trace"])]
    broken: Option<String>,
    /// This rule is broken by a change of the sources, from tests/sabotage. End with 0 if a seed
    /// finds it.
    #[arg(long, value_name = "SWITCH", conflicts_with_all = ["broken", "markdown", "trace"])]
    changed: Option<String>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let args = Args::parse();
    match &args.broken {
        Some(switch) if !cfg!(feature = "sabotage") => {
            eprintln!(
                "error: {switch} can be broken only in a build with the feature `sabotage`; see scripts/sabotage --simulator"
            );
            ExitCode::from(2)
        }
        // The rules of a process are broken at its start.
        Some(switch) if std::env::var_os("STORAGE_SABOTAGE").is_none() => {
            let program = std::env::current_exe().map(Command::new);
            let again = program.and_then(|mut again| {
                again
                    .args(std::env::args_os().skip(1))
                    .env("STORAGE_SABOTAGE", switch)
                    .status()
            });
            match again.map(|status| status.code()) {
                Ok(Some(0)) => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        _ => play(&args),
    }
}

fn play(args: &Args) -> ExitCode {
    let Args {
        seed,
        seeds,
        count,
        jobs,
        trace,
        first,
        markdown,
        cells,
        broken,
        changed,
    } = args.clone();
    let broken = broken.or(changed);
    let first = first || broken.is_some();
    let seeds = seed
        .map(|seed| seed..seed + 1)
        .or(seeds)
        .unwrap_or(0..count);
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
    if let Some(switch) = broken {
        return found(&switch, &all, panicked);
    }
    if let Some(path) = cells
        && let Err(error) = std::fs::write(&path, all.cells())
    {
        eprintln!("error: cannot write {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if markdown {
        print!("{}", all.markdown());
    } else {
        print!("{all}");
    }
    if !markdown {
        for (seed, violation) in &all.violations {
            println!(
                "\nseed {seed}: {violation}\nrepeat it with: cargo run --release -p storage-tests --bin simulate -- --seed {seed} --trace"
            );
        }
        println!(
            "{}; {} with violations",
            all.rate(begun.elapsed()),
            all.violations.len()
        );
    }
    let unhit = all.unhit();
    if !unhit.is_empty() {
        println!("faults that never hit anything: {unhit:?}");
    }
    let unhit_cells = all.unhit_cells();
    if !unhit_cells.is_empty() {
        println!("cells of fault and point that were never hit: {unhit_cells:?}");
    }
    if all.violations.is_empty() && unhit.is_empty() && unhit_cells.is_empty() && !panicked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether a broken rule was found, and the check that found it.
fn found(switch: &str, all: &Summary, panicked: bool) -> ExitCode {
    match all.violations.first_key_value() {
        _ if panicked => println!("| `{switch}` | {} | a panic |", all.seeds),
        Some((seed, violation)) => {
            let line = violation.lines().next().unwrap_or_default();
            let (_, what) = line.split_once(": ").unwrap_or(("", line));
            println!("| `{switch}` | {} | seed {seed}: {what} |", all.seeds);
        }
        None => println!("| `{switch}` | {} | not found |", all.seeds),
    }
    if all.violations.is_empty() || panicked {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
