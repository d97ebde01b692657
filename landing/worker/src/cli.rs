//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use futures::future::LocalBoxFuture;

use crate::{demo, drain, errors, export, import, migrate, run, status, verify};

/// Lands what game servers wrote into Redis in a database, and looks after it.
#[derive(Debug, Parser)]
#[command(name = "landing-worker", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Land until told to stop (SIGTERM or Ctrl-C): finishes its batch, gives its locks back, exits 0
    Run(run::Args),
    /// Land everything that was marked before the start, then exit: 0 if nothing is left, else 1 with a list
    Drain(drain::Args),
    /// Show what waits to be landed, for how long, and who lands it
    Status(status::Args),
    /// Compare what has landed with what Redis holds, owner by owner of the database: 0 if they agree, else 1 with a list of conflicts
    ///
    /// Owners are listed by the database, by their live rows. One whose rows are all lost or removed is not looked at, whatever Redis
    /// holds of it.
    Verify(verify::Args),
    /// List what the database refused, with its reasons; with --retry try it again: 0 if nothing is refused any more, else 1
    Errors(errors::Args),
    /// Create or upgrade the schema
    Migrate(migrate::Args),
    /// Write owners, given as JSON lines, through the SDK: 0 if all are written, else 1; a bad line is named, and the others go on
    Import(import::Args),
    /// Print all owners as JSON lines in key order, hot or cold; what is cold stays cold
    Export(export::Args),
    /// Show the whole system at work, and check it three ways
    Demo(demo::Args),
}

/// Where the settings come from.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// The settings file; without it the environment alone counts (`STORAGE__REDIS__URL` and `STORAGE__SQL__URL` are enough)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Runs the program: logs go to stderr, results to stdout. `RUST_LOG` sets what is logged.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let logs = tracing_subscriber::fmt().with_ansi(colours).with_writer(crate::progress::writer);
    let _ = logs.with_env_filter(filter.unwrap_or_else(|_| "warn,landing_worker=info,storage_landing=info".into())).try_init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(run(cli)) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    // Each is large, and only one of them is needed.
    let command: LocalBoxFuture<'_, anyhow::Result<ExitCode>> = match cli.command {
        Command::Run(args) => Box::pin(run::run(args)),
        Command::Drain(args) => Box::pin(drain::run(args)),
        Command::Status(args) => Box::pin(status::run(args)),
        Command::Verify(args) => Box::pin(verify::run(args)),
        Command::Errors(args) => Box::pin(errors::run(args)),
        Command::Migrate(args) => Box::pin(migrate::run(args)),
        Command::Import(args) => Box::pin(import::run(args)),
        Command::Export(args) => Box::pin(export::run(args)),
        Command::Demo(args) => Box::pin(demo::run(args)),
    };
    command.await
}

fn failed(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // Whoever reads the output, such as `head`, has seen enough: as a shell says of a program that ended so.
        return ExitCode::from(128 + 13);
    }
    // One line, root cause included: `{:#}` joins the chain.
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = match (error.downcast_ref::<std::io::Error>(), error.downcast_ref::<serde_json::Error>()) {
        (Some(error), _) => Some(error.kind()),
        (None, error) => error.and_then(serde_json::Error::io_error_kind),
    };
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
