//! Measures the sharded read service beside bare servers of gRPC, and prints whether the goals are met.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use shard_read_trials::bench::SHARD_READ;
use shard_read_trials::bench::servers::{ServerRole, play};
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
    #[command(flatten)]
    Server(ServerRole),
}

fn main() -> ExitCode {
    let Cli { role, args } = Cli::parse();
    match role {
        Some(Role::Worker { args }) => storage_tests::worker::work(args),
        Some(Role::Server(role)) => finish(play(role)),
        None => finish(measure(&SHARD_READ, &args)),
    }
}
