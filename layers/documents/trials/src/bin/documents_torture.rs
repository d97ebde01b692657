//! Tries to make documents lose, double or misreport changes, and prints whether it did.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use document_trials::gateway::{GatewayArgs, serve};
use document_trials::torture::args::Args;
use document_trials::torture::run;
use storage_tests::program::{finish, judged};

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
    #[command(hide = true, disable_help_flag = true)]
    Gateway(GatewayArgs),
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
            role: Some(Role::Gateway(args)),
            ..
        } => finish(serve(args)),
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
