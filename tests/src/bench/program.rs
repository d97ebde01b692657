//! The common part of the programs that measure.

use anyhow::{Result, ensure};

use super::args::Args;
use super::run::run;
use super::suite::Suite;

/// Measures a suite and prints the table, or prints the names of its cases.
///
/// # Errors
/// The servers do not start, a file can't be written, or a case could not be measured.
pub async fn measure(suite: &Suite, args: &Args) -> Result<()> {
    if args.list {
        for case in args.cases(suite)? {
            let plan = case.plan();
            println!(
                "{:<22} {}\n{:22} : {}",
                plan.name, plan.ours, "", plan.baseline
            );
        }
        return Ok(());
    }
    let report = run(suite, args, &std::env::current_exe()?).await?;
    println!("{report}");
    ensure!(
        report.failed.is_empty(),
        "{} could not be measured",
        report.failed.len()
    );
    Ok(())
}
