//! Every case of the benchmarks runs. No test judges a speed.

use std::path::Path;

use anyhow::Result;
use shard_read_trials::bench::SHARD_READ;
use storage_tests::bench::smoke;

const BENCH: &str = env!("CARGO_BIN_EXE_shard_read_bench");

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_of_the_service_runs_and_gives_two_figures_and_their_ratio() -> Result<()> {
    let report = smoke(&SHARD_READ, Path::new(BENCH), |_| true).await?;
    println!("{report}");
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!(report.cases.len(), 4);
    for case in &report.cases {
        let (ours, baseline) = (case.ours.figure, case.baseline.figure);
        for (what, figure) in [
            ("ours", ours),
            ("baseline", baseline),
            ("ratio", case.ratio),
        ] {
            let is_figure = figure.median.is_finite() && figure.median > 0.0;
            assert!(is_figure, "{}: {what} is {figure:?}", case.name);
        }
    }
    Ok(())
}
