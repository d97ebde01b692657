//! The `landing-worker` program, built with the tests so that it is never stale.

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    landing_worker::main(landing_worker::Cli::parse())
}
