//! One run of all requested cases.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use tokio::time::timeout;

use super::args::Args;
use super::case::Case;
use super::commands;
use super::docs;
use super::machine::Machine;
use super::measured::Measured;
use super::place::Arena;
use super::report::{Failed, Report};
use super::runner::measure;
use super::scale::Scale;
use super::suite::{STORAGE, Suite};
use super::sweep::{self, Sweep};

/// A case that takes longer than this hangs. Writing and landing 10,000,000 owners is the longest.
const PATIENCE: Duration = Duration::from_mins(20);

/// Measures the requested cases of a suite and writes the requested files. A failure is reported, and all
/// other cases are measured and written. `exe` is this program, or one with its hidden subcommands.
///
/// # Errors
/// The database server does not start, or a file can't be written.
pub async fn run(suite: &Suite, args: &Args, exe: &Path) -> Result<Report> {
    let cases = args.cases(suite)?;
    let arena = Arena::start(args.scale(), args.partitions, exe).await?;
    let mut report = Report {
        command: args.command(suite),
        ..report(cases, &arena).await?
    };
    write(suite, args, &report)?;
    if args.docs && suite.charts {
        more(&mut report, &arena).await;
        write(suite, args, &report)?;
    }
    Ok(report)
}

fn write(suite: &Suite, args: &Args, report: &Report) -> Result<()> {
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.docs {
        docs::write(&suite.page, report, Path::new("docs"))
    } else {
        Ok(())
    }
}

/// Measures the cases of a suite of which `wanted` holds at the smallest scale, to see whether each of them
/// runs.
///
/// # Errors
/// The database server does not start.
pub async fn smoke(suite: &Suite, exe: &Path, wanted: impl Fn(&str) -> bool) -> Result<Report> {
    let arena = Arena::start(Scale::Smoke, None, exe).await?;
    let mut cases = (suite.cases)();
    cases.retain(|case| wanted(&case.plan().name));
    report(cases, &arena).await
}

/// Measures all charts and single commands at the smallest scale, besides one case. The page and
/// its charts go into a folder.
///
/// # Errors
/// The database server does not start, or a file can't be written.
pub async fn smoke_docs(exe: &Path, folder: &Path) -> Result<Report> {
    let arena = Arena::start(Scale::Smoke, None, exe).await?;
    let args = Args {
        docs: true,
        only: Some("update-1-task".to_owned()),
        ..Args::default()
    };
    let mut report = Report {
        command: args.command(&STORAGE),
        ..report(args.cases(&STORAGE)?, &arena).await?
    };
    more(&mut report, &arena).await;
    docs::write(&STORAGE.page, &report, folder)?;
    Ok(report)
}

/// Each case is dropped after its measurement. Cases may share a world, which is dropped with the
/// last of them.
async fn report(cases: Vec<Box<dyn Case>>, arena: &Arena) -> Result<Report> {
    let machine = Machine::look(&arena.place().await?, arena.scale.database_gib()).await?;
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    let all = cases.len();
    for (number, case) in cases.into_iter().enumerate() {
        let (name, begun) = (case.plan().name, arena.elapsed());
        arena.say(format_args!("{} of {all}: {name}", number + 1));
        match timeout(PATIENCE, measure(case.as_ref(), arena))
            .await
            .map_err(Error::from)
            .flatten()
        {
            Ok(one) => {
                let seconds = (arena.elapsed() - begun).as_secs_f64();
                arena.say(format_args!(
                    "{name}: {} {} ({seconds:.1} s)",
                    one.ratio_text(),
                    one.verdict_text()
                ));
                measured.push(one);
            }
            Err(error) => failed.push(failure(arena, &name, &error)),
        }
    }
    let (scale, seconds) = (arena.scale, arena.elapsed().as_secs_f64());
    Ok(Report {
        command: String::new(),
        scale,
        machine,
        cases: measured,
        failed,
        sweeps: Vec::new(),
        commands: Vec::new(),
        seconds,
    })
}

/// Measures the parts that only the document shows: single commands, and all charts. If a chart
/// fails, its earlier points are kept.
async fn more(report: &mut Report, arena: &Arena) {
    match timeout(PATIENCE, commands::measure(arena))
        .await
        .map_err(Error::from)
        .flatten()
    {
        Ok(costs) => report.commands = costs,
        Err(error) => report.failed.push(failure(arena, "commands", &error)),
    }
    arena.say("single commands");
    for chart in sweep::all() {
        let mut sweep: Sweep = chart.sweep;
        for x in sweep.values(arena.scale) {
            let case = (chart.case)(x);
            match timeout(PATIENCE, measure(case.as_ref(), arena))
                .await
                .map_err(Error::from)
                .flatten()
            {
                Ok(Measured { ours, baseline, .. }) => sweep.push(x, ours, baseline),
                Err(error) => {
                    report.failed.push(failure(arena, sweep.name, &error));
                    break;
                }
            }
            arena.say(format_args!("chart {}: {x} {}", sweep.name, sweep.x));
        }
        report.sweeps.push(sweep);
    }
    report.seconds = arena.elapsed().as_secs_f64();
}

fn failure(arena: &Arena, name: &str, error: &Error) -> Failed {
    arena.say(format_args!("{name}: FAILED: {error:#}"));
    Failed {
        name: name.to_owned(),
        why: format!("{error:#}"),
    }
}
