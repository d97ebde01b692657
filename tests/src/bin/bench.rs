//! Measures every path beside its limit or its alternative, and prints whether the goals are met.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use storage_tests::bench::program::measure;
use storage_tests::bench::reader::{ReaderArgs, read};
use storage_tests::bench::server::{ServerArgs, serve};
use storage_tests::bench::{Args, STORAGE};
use storage_tests::holder::{HolderArgs, hold};
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
    #[command(hide = true)]
    Reader(ReaderArgs),
    #[command(hide = true)]
    Server(ServerArgs),
    #[command(hide = true)]
    Holder(HolderArgs),
}

fn main() -> ExitCode {
    let Cli { role, args } = Cli::parse();
    match role {
        Some(Role::Worker { args }) => storage_tests::worker::work(args),
        Some(Role::Reader(args)) => finish(read(args)),
        Some(Role::Server(args)) => finish(serve(args)),
        Some(Role::Holder(args)) => finish(hold(args)),
        None => finish(measure(&STORAGE, &args)),
    }
}
