//! The ends of test programs: statuses by verdicts, and failures as text.

use std::process::ExitCode;

use anyhow::Result;

/// Runs a task on all cores. A good verdict ends with 0, a bad one with 1, and a failure with 2 and
/// its text.
pub fn judged(task: impl Future<Output = Result<bool>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(task))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a task that has no verdict, as [`judged`].
pub fn finish<T>(task: impl Future<Output = Result<T>>) -> ExitCode {
    judged(async { task.await.map(|_| true) })
}
