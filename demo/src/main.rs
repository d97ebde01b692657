//! The `demo` program.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use landing_worker::{exit, program, run};

/// Shows the whole system at work, and checks it three ways
#[derive(Debug, Parser)]
#[command(name = "demo", version, after_help = exit::TABLE, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    demo: storage_demo::Args,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts of the demo that run in processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Land as `landing-worker run` does
    #[command(hide = true)]
    Worker(run::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    program(async {
        match cli.part {
            Some(Part::Worker(args)) => Box::pin(run::run(args)).await,
            None => Box::pin(storage_demo::run(cli.demo)).await,
        }
    })
}
