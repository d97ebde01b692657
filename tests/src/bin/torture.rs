//! Tries to make the storage lose or regress data, and prints whether it did.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use storage_tests::program::{finish, judged};
use storage_tests::torture::args::Args;
use storage_tests::torture::play::GameArgs;
use storage_tests::torture::total::{Run, Totals};
use storage_tests::torture::{play, run};

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    args: Option<Args>,
}

/// The subcommands of the processes that this program starts of itself.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true)]
    Game(GameArgs),
    /// Prints the total of many runs, from the files that they wrote with --json.
    Total { files: Vec<PathBuf> },
    #[command(hide = true, disable_help_flag = true)]
    Worker {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Cli::parse() {
        Cli {
            role: Some(Role::Worker { args }),
            ..
        } => storage_tests::worker::work(args),
        Cli {
            role: Some(Role::Total { files }),
            ..
        } => finish(async { total(&files) }),
        Cli {
            role: Some(Role::Game(args)),
            ..
        } => finish(play::play(args)),
        Cli {
            args: Some(args), ..
        } => judged(async {
            let report = run(&args, &std::env::current_exe()?).await?;
            println!("{report}");
            Ok(report.is_good())
        }),
        Cli { args: None, .. } => judged(async { anyhow::bail!("--seed is missing; see --help") }),
    }
}

fn total(files: &[PathBuf]) -> anyhow::Result<()> {
    let runs = files
        .iter()
        .map(|file| Run::read(file))
        .collect::<anyhow::Result<_>>()?;
    print!("{}", Totals(runs));
    Ok(())
}
