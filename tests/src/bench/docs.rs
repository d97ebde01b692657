//! The page of the results and its charts.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::chart::svg;
use super::commands::Cost;
use super::report::{Failed, Report, figure};
use super::scaling;
use super::suite::Paper;
use super::sweep::Sweep;

/// Writes the page and `benchmarks/*.svg` into a folder.
///
/// # Errors
/// A file can't be written.
pub fn write(paper: &Paper, report: &Report, folder: &Path) -> Result<()> {
    let charts = folder.join("benchmarks");
    std::fs::create_dir_all(&charts)
        .with_context(|| format!("cannot make {}", charts.display()))?;
    for sweep in &report.sweeps {
        std::fs::write(charts.join(format!("{}.svg", sweep.name)), svg(sweep))?;
    }
    let path = folder.join(paper.file);
    std::fs::write(&path, markdown(paper, report))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn markdown(paper: &Paper, report: &Report) -> String {
    let mut text = head(paper, report);
    text.push_str(&cases(report));
    text.push_str(&descriptions(report));
    text.push_str(&commands(report));
    let (scale, others): (Vec<&Sweep>, Vec<&Sweep>) = report
        .sweeps
        .iter()
        .partition(|sweep| sweep.processes.is_some());
    if !scale.is_empty() {
        text.push_str(
            "\n## How it scales\n\nCPU time of all processes of the storage and of the servers beside the rate. \"busy\" is that \
             time as a part of all cores' time, and \"all\" includes the rest of the machine.\n",
        );
    }
    for sweep in scale {
        let _ = write!(
            text,
            "\n{}\n{}",
            chart(sweep),
            scaling::markdown(sweep, report.machine.cores)
        );
    }
    if !others.is_empty() {
        text.push_str("\n## Charts\n\nThe upright lines are the least and the greatest of three repetitions.\n");
    }
    for sweep in others {
        let _ = write!(text, "\n{}", chart(sweep));
    }
    text + "\n" + paper.limits_title + "\n\n" + paper.limits
}

fn head(paper: &Paper, report: &Report) -> String {
    let Paper {
        title, cpu, parts, ..
    } = paper;
    let Report {
        command,
        machine,
        seconds,
        ..
    } = report;
    let (met, goals) = report.goals();
    let mut text = format!(
        "{title}\n\n\
         This command writes the page. Only the last part is by hand.\n\n```sh\n{command}\n```\n\n\
         On {machine}. Redis keeps nothing on disk. The database flushes its log at each commit and has {} GiB of buffers. {parts} \
         share the machine. The run took {:.0} minutes.\n\n\
         Each case runs ours and its baseline in turn (A B, B A, …). Figures are medians, a ratio is the median of the ratios of \
         neighbours, with its range. Time and CPU are for one operation, {cpu}. A case during which others \
         used the machine is measured again, and if that does not help, says so.\n\n\
         {met} of {goals} goals are met.\n\n",
        machine.database_gib,
        seconds / 60.0,
    );
    for Failed { name, why } in &report.failed {
        let _ = writeln!(text, "**`{name}` could not be measured**: {why}\n");
    }
    text
}

fn cases(report: &Report) -> String {
    let mut text = "| case | ours | baseline | unit | ratio (range) | goal | | p50/p99 µs | baseline's | CPU µs | baseline's |\n\
                    | --- | ---: | ---: | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for case in &report.cases {
        let (ours, baseline) = (&case.ours, &case.baseline);
        let verdict = match case.verdict_text() {
            missed @ "not met" => format!("**{missed}**"),
            reached => reached.to_owned(),
        };
        let cells = [
            case.name.clone(),
            figure(ours.figure.median),
            figure(baseline.figure.median),
            case.unit.to_owned(),
            case.ratio_text(),
            case.goal_text(),
            verdict,
            ours.latency(),
            baseline.latency(),
            ours.cpu(),
            baseline.cpu(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn descriptions(report: &Report) -> String {
    let mut text =
        "\n## What each case does\n\n| case | ours | baseline | repetitions | |\n| --- | --- | --- | ---: | --- |\n".to_owned();
    for case in &report.cases {
        let cells = [
            &case.name,
            &case.what_ours_does,
            &case.what_baseline_does,
            &case.repetitions.to_string(),
            &case.remark(),
        ];
        let _ = writeln!(text, "| {} |", cells.map(String::as_str).join(" | "));
    }
    text
}

fn commands(report: &Report) -> String {
    if report.commands.is_empty() {
        return String::new();
    }
    let mut text = "\n## What single commands cost Redis\n\n\
                    Without a script, in pipelines of 1,000 commands over one connection. No layout of the same keys can cost less.\n\n\
                    | command | µs of Redis |\n| --- | ---: |\n"
        .to_owned();
    for Cost { command, micros } in &report.commands {
        let _ = writeln!(text, "| {command} | {} |", figure(*micros));
    }
    text
}

fn chart(sweep: &Sweep) -> String {
    format!("![{}](benchmarks/{}.svg)\n", sweep.title, sweep.name)
}
