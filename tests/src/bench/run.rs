//! One run: all cases that were asked for.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::args::Args;
use super::case::Case;
use super::docs;
use super::machine::Machine;
use super::place::Arena;
use super::report::Report;
use super::runner::measure;
use super::scale::Scale;
use super::sweep;

/// Measures what was asked for, and writes what was asked for. `exe` is this program, or one with its hidden subcommands.
///
/// # Errors
/// A server does not start, an operation failed, or a file can't be written.
pub async fn run(args: &Args, exe: &Path) -> Result<Report> {
    let cases = args.cases()?;
    let arena = Arena::start(args.scale(), exe).await?;
    let report = report(&cases, &arena).await?;
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.docs {
        docs::write(&report, &sweep::all(&arena).await?, Path::new("docs"))?;
    }
    Ok(report)
}

/// Measures these cases as small as possible: whether each of them runs.
///
/// # Errors
/// One of them does not.
pub async fn smoke(exe: &Path) -> Result<Report> {
    let arena = Arena::start(Scale::Smoke, exe).await?;
    report(&Args::default().cases()?, &arena).await
}

async fn report(cases: &[Box<dyn Case>], arena: &Arena) -> Result<Report> {
    let begun = Instant::now();
    let machine = Machine::look(&arena.place().await?).await?;
    let mut measured = Vec::new();
    for case in cases {
        let one = measure(case.as_ref(), arena).await?;
        eprintln!("{:6.1} s  {}: {} {}", begun.elapsed().as_secs_f64(), one.name, one.ratio_text(), one.verdict.text());
        measured.push(one);
    }
    Ok(Report { scale: arena.scale, machine, cases: measured, seconds: begun.elapsed().as_secs_f64() })
}
