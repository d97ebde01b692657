//! The `landing-worker` program.

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    landing_worker::main(landing_worker::Cli::parse())
}
