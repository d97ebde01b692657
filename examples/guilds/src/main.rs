//! The `guilds` program: the game server, the landing worker and the driver.

use std::process::{ExitCode, exit};

use clap::Parser;
use storage_example_guilds::{drive, server};
use tracing_subscriber::filter::LevelFilter;

/// A small game with guilds, on several game servers
#[derive(Debug, Parser)]
#[command(name = "guilds")]
enum Program {
    /// Start everything, let players trade, kill a server, and count: 0 if all counts are right
    Drive(drive::Args),
    /// Serve players on a free port until the standard input ends
    Server(server::Args),
    /// Land the data in the database, as the program landing-worker does
    Worker(landing_worker::Cli),
}

fn main() -> anyhow::Result<ExitCode> {
    match Program::parse() {
        Program::Drive(args) => drive(args),
        Program::Server(args) => serve(args),
        Program::Worker(cli) => {
            server::at_end_of_input(|| exit(0));
            Ok(landing_worker::main(cli))
        }
    }
}

#[tokio::main]
async fn drive(args: drive::Args) -> anyhow::Result<ExitCode> {
    log();
    let is_right = drive::run(args).await?;
    Ok(ExitCode::from(u8::from(!is_right)))
}

#[tokio::main]
async fn serve(args: server::Args) -> anyhow::Result<ExitCode> {
    log();
    server::run(args).await?;
    Ok(ExitCode::SUCCESS)
}

/// The SDK reports its warnings to the subscriber of the program.
fn log() {
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    logs.with_ansi(colours).with_writer(std::io::stderr).init();
}
