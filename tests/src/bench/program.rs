//! The common parts of the programs that measure.

use std::process::ExitCode;

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

/// Runs a task on all cores, and prints its failure.
pub fn finish<T>(task: impl Future<Output = Result<T>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(task))
    {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
