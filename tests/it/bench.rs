//! Every case of the benchmarks runs. No test judges a speed.

use std::path::Path;

use anyhow::Result;
use storage_tests::bench::smoke;

#[tokio::test(flavor = "multi_thread")]
async fn every_benchmark_runs_and_gives_two_figures_and_their_ratio() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let report = smoke(Path::new(env!("CARGO_BIN_EXE_bench")), folder.path()).await?;
    println!("{report}");
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert!(report.cases.len() >= 30, "{} cases", report.cases.len());
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
    assert!(
        report.commands.len() >= 10 && report.commands.iter().all(|cost| cost.micros > 0.0),
        "{:?}",
        report.commands
    );
    let text = std::fs::read_to_string(folder.path().join("benchmarks.md"))?;
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
