//! Every case of the benchmarks runs. No test judges a speed.

use std::path::Path;

use anyhow::Result;
use storage_tests::bench::report::Report;
use storage_tests::bench::{STORAGE, smoke, smoke_docs};

const BENCH: &str = env!("CARGO_BIN_EXE_bench");

/// The part of the benchmarks that a test runs. Each case belongs to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Calls,
    Landing,
    Sizes,
    RecoveryOfRedis,
    OtherRecoveries,
}

impl Part {
    fn of(case: &str) -> Self {
        let begins = |beginnings: &[&str]| beginnings.iter().any(|with| case.starts_with(with));
        if case == "recovery-redis" {
            Self::RecoveryOfRedis
        } else if begins(&["recovery-"]) {
            Self::OtherRecoveries
        } else if begins(&["durable-", "landing-", "hot-keys", "lag"]) {
            Self::Landing
        } else if begins(&["hot-load", "misses-", "memory-", "worker-", "owners-"]) {
            Self::Sizes
        } else {
            Self::Calls
        }
    }
}

fn assert_figures(report: &Report) {
    println!("{report}");
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    for case in &report.cases {
        for (what, figure) in [
            ("ours", case.ours.figure),
            ("baseline", case.baseline.figure),
            ("ratio", case.ratio),
        ] {
            assert!(
                figure.median.is_finite() && figure.median > 0.0,
                "{}: {what} is {figure:?}",
                case.name
            );
        }
    }
}

async fn assert_runs(part: Part, cases_min: usize) -> Result<()> {
    let report = smoke(&STORAGE, Path::new(BENCH), |case| Part::of(case) == part).await?;
    assert_figures(&report);
    let cases = report.cases.len();
    assert!(cases >= cases_min, "{part:?}: {cases} cases");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_of_calls_runs_and_gives_two_figures_and_their_ratio() -> Result<()> {
    assert_runs(Part::Calls, 20).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_of_landing_runs_and_gives_two_figures_and_their_ratio() -> Result<()> {
    assert_runs(Part::Landing, 6).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_of_sizes_runs_and_gives_two_figures_and_their_ratio() -> Result<()> {
    assert_runs(Part::Sizes, 6).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_benchmark_of_redis_recovery_runs_and_gives_two_figures_and_their_ratio() -> Result<()>
{
    assert_runs(Part::RecoveryOfRedis, 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_of_other_recoveries_runs_and_gives_two_figures_and_their_ratio()
-> Result<()> {
    assert_runs(Part::OtherRecoveries, 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_benchmarks_has_every_chart_and_the_costs_of_commands() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let report = smoke_docs(Path::new(BENCH), folder.path()).await?;
    assert_figures(&report);
    assert!(
        report.commands.len() >= 10 && report.commands.iter().all(|cost| cost.micros > 0.0),
        "{:?}",
        report.commands
    );
    let text = std::fs::read_to_string(folder.path().join("benchmarks.md"))?;
    assert!(!report.sweeps.is_empty(), "no charts");
    for sweep in &report.sweeps {
        assert_eq!(sweep.points.len(), 2, "{}", sweep.name);
        let file = format!("benchmarks/{}.svg", sweep.name);
        assert!(
            text.contains(&file) && folder.path().join(&file).is_file(),
            "{file}"
        );
    }
    Ok(())
}
