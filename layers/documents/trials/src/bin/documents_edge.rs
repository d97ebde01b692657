//! Lets slow, silent and vanishing clients loose on a gateway, and prints whether honest ones are
//! served.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use document_trials::edge::args::Args;
use document_trials::edge::run;
use document_trials::gateway::{GatewayArgs, serve};
use storage_tests::program::{finish, judged};

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    args: Option<Args>,
}

/// The subcommand of the process that this program starts of itself.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true, disable_help_flag = true)]
    Gateway(GatewayArgs),
}

fn main() -> ExitCode {
    let Cli { role, args } = Cli::parse();
    match (role, args) {
        (Some(Role::Gateway(args)), _) => finish(serve(args)),
        (None, Some(args)) => judged(async {
            let report = run(&args, &std::env::current_exe()?).await?;
            println!("{report}");
            Ok(report.is_good())
        }),
        (None, None) => judged(async { anyhow::bail!("--seed is missing; see --help") }),
    }
}
