//! The `demo` program.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use storage_demo::args::Args;
use storage_demo::{embedded, progress};
use tracing_subscriber::filter::LevelFilter;

/// Exit codes, for `--help`.
const EXITS: &str = "\
Exit codes:
  0  the players' log, the rows and the loaded players agree
  1  a field differs, or the storage failed
  2  an argument is impossible";

/// Shows the storage at work in one process, and checks it three ways
#[derive(Debug, Parser)]
#[command(name = "demo", version, after_help = EXITS)]
struct Cli {
    #[command(flatten)]
    args: Args,
    /// The database file to create. Default: a file in a new temporary folder
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .init();
    match play(Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays, compares and prints the table. Returns whether all sources agree.
async fn play(Cli { args, database }: Cli) -> anyhow::Result<bool> {
    let file = embedded::database_file(database)?;
    let bar = progress::bar(args.time());
    let ended = embedded::run(args.plan(), args.time(), &file, &bar).await;
    bar.finish_and_clear();
    let table = ended?;
    write!(std::io::stdout(), "{table}")?;
    Ok(table.agrees())
}
