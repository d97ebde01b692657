//! docs/benchmarks.md and its charts.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::chart::svg;
use super::measured::Verdict;
use super::report::{Report, figure};
use super::scale::Scale;
use super::sweep::Sweep;

/// Writes `benchmarks.md` and `benchmarks/*.svg` into a folder that exists.
///
/// # Errors
/// A file can't be written.
pub fn write(report: &Report, sweeps: &[Sweep], folder: &Path) -> Result<()> {
    let charts = folder.join("benchmarks");
    std::fs::create_dir_all(&charts).with_context(|| format!("cannot make {}", charts.display()))?;
    for sweep in sweeps {
        std::fs::write(charts.join(format!("{}.svg", sweep.name)), svg(sweep))?;
    }
    let path = folder.join("benchmarks.md");
    std::fs::write(&path, markdown(report, sweeps)).with_context(|| format!("cannot write {}", path.display()))
}

fn markdown(report: &Report, sweeps: &[Sweep]) -> String {
    let quick = if report.scale == Scale::Quick { " --quick" } else { "" };
    let command = format!("cargo run --release -p storage-tests --bin bench --{quick} --docs");
    let mut text = format!(
        "# Benchmarks\n\n\
         Written by this command, and not by hand:\n\n```sh\n{command}\n```\n\n\
         On {}. Redis keeps nothing on disk; the database flushes its log at each commit and has 1 GiB of buffers. Client, servers and \
         workers share the machine.\n\n\
         Each case runs ours and its baseline in turn (A B, B A, …). Figures are medians, a ratio is the median of the ratios of \
         neighbours, with its range. Time and CPU are for one operation, CPU of client, Redis and database. A case during which others \
         used the machine is measured again, and if that does not help, says so.\n\n",
        report.machine
    );
    text.push_str("| case | ours | baseline | unit | ratio (range) | goal | | p50/p99 µs | CPU µs | baseline's |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for case in &report.cases {
        let (ours, baseline) = (&case.ours, &case.baseline);
        let verdict = if case.verdict == Verdict::NotMet { "**not met**" } else { case.verdict.text() };
        let cells = [
            case.name.clone(),
            figure(ours.figure.median),
            figure(baseline.figure.median),
            case.unit.to_owned(),
            case.ratio_text(),
            case.goal.text(case.unit),
            verdict.to_owned(),
            ours.latency(),
            ours.cpu(),
            baseline.cpu(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push_str("\n## What each case does\n\n| case | ours | baseline | repetitions | |\n| --- | --- | --- | --- | --- |\n");
    for case in &report.cases {
        let cells = [&case.name, &case.what_ours_does, &case.what_baseline_does, &case.repetitions.to_string(), &case.remark()];
        let _ = writeln!(text, "| {} |", cells.map(String::as_str).join(" | "));
    }
    text.push_str("\n## Charts\n");
    for sweep in sweeps {
        let _ = write!(text, "\n![{}](benchmarks/{}.svg)\n", sweep.title, sweep.name);
    }
    text
}
