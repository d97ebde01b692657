//! A landing worker in a process of a test program.

use std::io::Read as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Runs the program `landing-worker` with these arguments in this process. It also ends when its
/// parent has died, because its standard input ends then.
#[must_use]
pub fn work(args: Vec<String>) -> ExitCode {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let name = std::iter::once("landing-worker".to_owned());
    landing_worker::main(landing_worker::Cli::parse_from(name.chain(args)))
}
