//! Lets a gateway's process die at every request it sends, in every scenario.

use anyhow::Result;
use document_trials::crash::SCENARIOS;
use storage_tests::crash::{Database, Density, Kind, Tried, try_all};

fn main() -> Result<()> {
    println!(
        "{:<12} {:>6} {:>6} {:>8}",
        "scenario", "points", "runs", "time"
    );
    let mut all = 0;
    for scenario in SCENARIOS {
        let Tried { runs, points, took } =
            try_all(scenario, Database::Sqlite, &Kind::ALL, Density::Every)?;
        println!(
            "{:<12} {points:>6} {runs:>6} {:>7.1}s",
            scenario.name,
            took.as_secs_f64()
        );
        all += runs;
    }
    println!("{all} runs; no change was lost, made twice, or told wrongly");
    Ok(())
}
