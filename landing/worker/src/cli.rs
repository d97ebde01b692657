//! The command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use futures::future::LocalBoxFuture;

use crate::exit::{self, Exit};
use crate::{
    adopt, backup, drain, errors, export, grants, hooks, import, limit, migrate, parked, run,
    status, verify,
};

/// Lands the data of game servers from Redis in a database, and manages it.
///
/// Each command except the service `run` ends by its --deadline.
#[derive(Debug, Parser)]
#[command(name = "landing-worker", version, after_help = exit::TABLE)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Land until a signal (SIGTERM or Ctrl-C), then finish the batch, release the locks and exit
    /// with 0
    ///
    /// This is the service, so it has no deadline. It waits without limit for a tier that is away.
    /// It ends at once if waiting does not help, for example with a wrong password.
    #[command(after_help = exit::TABLE)]
    Run(run::Args),
    /// Land everything that was marked before the start, then exit: 0 if nothing is left, else with
    /// a list of the rest
    ///
    /// Ends with 1 if the database rejected the rest, and with 7 if the deadline passed first.
    #[command(after_help = exit::TABLE)]
    Drain(drain::Args),
    /// Show the waiting marks, their age, the workers that land them, and how far sinks are behind: 1 if a part can't be
    /// reached
    #[command(after_help = exit::TABLE)]
    Status(status::Args),
    /// Compare landed data with Redis, owner by owner of the database: 0 if they agree, else 1 with
    /// a list of conflicts
    ///
    /// The database lists the owners by their live rows. An owner with only lost or removed rows is
    /// skipped, even if Redis holds data of it.
    #[command(after_help = exit::TABLE)]
    Verify(verify::Args),
    /// List the rows that the database rejected, with the reasons. With --retry, try them again: 0
    /// if no row is rejected any more, else 1
    #[command(after_help = exit::TABLE)]
    Errors(errors::Args),
    /// List the events that sinks refused, with the reasons. With --retry, send them again: 0 if no
    /// event is parked any more, else 1. With --drop, give them up
    #[command(after_help = exit::TABLE)]
    Parked(parked::Args),
    /// List the hooks of layers that landings need: 0 if this program has all of them, else 1. With
    /// --switch-off, landings do without one
    #[command(after_help = exit::TABLE)]
    Hooks(hooks::Args),
    /// Create or upgrade the schema
    #[command(after_help = exit::TABLE)]
    Migrate(migrate::Args),
    /// Write owners from JSON lines through the SDK: 0 if all are written, else 1. A bad line is
    /// reported, and the others go on
    ///
    /// Lines of one owner are applied in their order. The import waits while a tier is away, or
    /// while writes are rejected because of a large backlog.
    #[command(after_help = exit::TABLE)]
    Import(import::Args),
    /// Print all owners as JSON lines in key order, hot or cold. Cold owners stay cold
    #[command(after_help = exit::TABLE)]
    Export(export::Args),
    /// Copy the file of an embedded game to a new file, also while the game runs
    ///
    /// The copy has all that has landed. A running game also holds the changes of its last half second
    /// in memory, which Storage::backup waits for. A plain `cp` of a file in use lacks the changes in
    /// its log (-wal), or is damaged.
    #[command(after_help = exit::TABLE)]
    Backup(backup::Args),
    /// Pair this Redis and this database on purpose: an older Redis, or a restored database
    ///
    /// Each of the two knows the other, and rejects any third one. After this command, the earlier
    /// partner is rejected. Nothing is deleted. Cached data is compared with its rows before it is
    /// used, and unlanded data lands.
    #[command(after_help = exit::TABLE)]
    Adopt(adopt::Args),
    /// Print the rights that the users of the database and of Redis need, as statements to paste.
    /// Contacts no server
    #[command(after_help = exit::TABLE)]
    Grants(grants::Args),
}

/// Runs the program.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    program(run(cli))
}

/// Runs a program of this family to its end. Logs go to stderr and results to stdout. `RUST_LOG`
/// sets the level of the logs.
#[must_use]
pub fn program(work: impl Future<Output = anyhow::Result<Exit>>) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A log without a reader is no reason to end.
    let logs = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_ansi(colours)
        .with_writer(crate::progress::writer);
    let _ = logs
        .with_env_filter(filter.unwrap_or_else(|_| {
            "warn,landing_worker=info,storage_landing=info,storage_tiers=info".into()
        }))
        .try_init();
    let runtime = match limit::enough_threads().and_then(|()| runtime()) {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error).into(),
    };
    let exit = runtime
        .block_on(work)
        .unwrap_or_else(|error| failed(&error));
    // Not dropped: a drop waits for a read of a pipe without a writer.
    runtime.shutdown_background();
    exit.into()
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    built.map_err(|error| {
        let hint = storage_model::limit_of(&error.to_string()).unwrap_or_default();
        exit::error(
            Exit::Settings,
            format!("the program can't begin: {error}{hint}"),
        )
    })
}

async fn run(cli: Cli) -> anyhow::Result<Exit> {
    // Boxed, because each future is large and only one is needed.
    let command: LocalBoxFuture<'_, anyhow::Result<Exit>> = match cli.command {
        Command::Run(args) => Box::pin(run::run(args)),
        Command::Drain(args) => Box::pin(drain::run(args)),
        Command::Status(args) => Box::pin(status::run(args)),
        Command::Verify(args) => Box::pin(verify::run(args)),
        Command::Errors(args) => Box::pin(errors::run(args)),
        Command::Parked(args) => Box::pin(parked::run(args)),
        Command::Hooks(args) => Box::pin(hooks::run(args)),
        Command::Migrate(args) => Box::pin(migrate::run(args)),
        Command::Import(args) => Box::pin(import::run(args)),
        Command::Export(args) => Box::pin(export::run(args)),
        Command::Backup(args) => Box::pin(backup::run(args)),
        Command::Adopt(args) => Box::pin(adopt::run(args)),
        Command::Grants(args) => Box::pin(std::future::ready(grants::run(&args))),
    };
    command.await
}

/// Reports the error, unless the output has no reader.
fn failed(error: &anyhow::Error) -> Exit {
    let exit = exit::of(error);
    if exit != Exit::BrokenPipe {
        let _ = writeln!(std::io::stderr(), "error: {}", exit::words(error));
    }
    exit
}
