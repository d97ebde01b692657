//! Measures documents over HTTP beside bare handlers, and prints whether the goals are met.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use document_trials::bench::bare::BareArgs;
use document_trials::bench::{DOCUMENTS, bare};
use document_trials::gateway::{self, GatewayArgs};
use storage_tests::bench::Args;
use storage_tests::bench::program::measure;
use storage_tests::program::finish;

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    args: Args,
}

/// The subcommands of the processes that this program starts of itself.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true, disable_help_flag = true)]
    Worker {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    #[command(hide = true, disable_help_flag = true)]
    Gateway(GatewayArgs),
    #[command(hide = true)]
    Bare(BareArgs),
}

fn main() -> ExitCode {
    let Cli { role, args } = Cli::parse();
    match role {
        Some(Role::Worker { args }) => storage_tests::worker::work(args),
        Some(Role::Gateway(args)) => finish(gateway::serve(args)),
        Some(Role::Bare(args)) => finish(bare::serve(args)),
        None => finish(measure(&DOCUMENTS, &args)),
    }
}
