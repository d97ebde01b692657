//! The `demo` program.

use std::process::ExitCode;

use clap::Parser;
use landing_worker::{exit, program};

/// Shows the whole system at work, and checks it three ways
#[derive(Debug, Parser)]
#[command(name = "demo", version, after_help = exit::TABLE)]
struct Cli {
    #[command(flatten)]
    demo: storage_demo::Args,
}

fn main() -> ExitCode {
    // The demo's landing workers are processes of this program, too.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments
        .next_if(|first| first == storage_demo::WORKER)
        .is_some()
    {
        let name = std::iter::once("landing-worker".into());
        return landing_worker::main(landing_worker::Cli::parse_from(name.chain(arguments)));
    }
    program(storage_demo::run(Cli::parse().demo))
}
