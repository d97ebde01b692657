//! Lets a process die at every request it sends, in every scenario.

use anyhow::{Context as _, Result};
use clap::Parser;
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::crash::{
    CHOSEN, Database, Density, Kind, SCENARIOS, Scenario, Tried, try_all, try_one, try_pairs,
};

/// Lets a process die at every request it sends, one run each, and checks the state that the next
/// one finds.
#[derive(Debug, Parser)]
struct Args {
    /// Also pairs of deaths: that of the process, and that of the one after it.
    #[arg(long)]
    pairs: bool,
    /// Only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// Only this point. Needs a scenario and a kind.
    #[arg(long, requires_all = ["scenario", "kind"])]
    at: Option<usize>,
    /// Only this kind of end, such as `After`.
    #[arg(long)]
    kind: Option<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let named = |kind: &Kind| {
        args.kind
            .as_ref()
            .is_none_or(|name| format!("{kind:?}").eq_ignore_ascii_case(name))
    };
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(named).collect();
    let chosen = |scenario: &&Scenario| {
        args.scenario
            .as_ref()
            .is_none_or(|name| scenario.name == name)
    };
    if let (Some(at), Some(kind)) = (args.at, kinds.first()) {
        let scenario = SCENARIOS.iter().find(chosen).context("no such scenario")?;
        let reached = try_one(scenario, Database::Sqlite, *kind, at)?;
        println!(
            "point {at} was {}reached; nothing is wrong",
            if reached { "" } else { "not " }
        );
        return Ok(());
    }
    println!(
        "{:<20} {:<8} {:>6} {:>6} {:>8}",
        "scenario", "database", "points", "runs", "time"
    );
    let mut runs = 0;
    for scenario in SCENARIOS.iter().filter(chosen) {
        runs += print(
            scenario,
            "sqlite",
            try_all(scenario, Database::Sqlite, &kinds, Density::Every)?,
        );
    }
    if !CHOSEN.iter().any(|scenario| chosen(&scenario)) {
        println!("{runs} runs; nothing was lost, halved, left over or stuck");
        return Ok(());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let mariadb = runtime.block_on(MariaDbServer::start(MariaDbOptions::default()))?;
    for scenario in CHOSEN.iter().filter(chosen) {
        runs += print(
            scenario,
            "mariadb",
            try_all(
                scenario,
                Database::MariaDb(&mariadb),
                &kinds,
                Density::Every,
            )?,
        );
    }
    if args.pairs {
        for scenario in CHOSEN.iter().filter(chosen) {
            for kind in [Kind::Before, Kind::After] {
                runs += print(
                    scenario,
                    "pairs",
                    try_pairs(scenario, Database::Sqlite, &[kind])?,
                );
            }
        }
    }
    println!("{runs} runs; nothing was lost, halved, left over or stuck");
    Ok(())
}

fn print(scenario: &Scenario, database: &str, tried: Tried) -> usize {
    let Tried { runs, points, took } = tried;
    println!(
        "{:<20} {database:<8} {points:>6} {runs:>6} {:>7.1}s",
        scenario.name,
        took.as_secs_f64()
    );
    runs
}
