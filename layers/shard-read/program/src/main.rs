//! Serves owners of a storage from shards, and manages plans of any sharded read service.
//!
//! | module | content |
//! | --- | --- |
//! | `plan`, `retire`, `serve`, `get`, `status` | the commands |
//! | `args` | options of several commands |
//! | `survey` | what the claims say, and what their holders say |
//! | `figures` | `serve --http`: metrics |
//! | `exit` | exit codes |

mod args;
mod exit;
mod figures;
mod get;
mod plan;
mod retire;
mod serve;
mod status;
mod survey;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

/// Serves owners of a storage from shards, and manages plans of any sharded read service.
///
/// A plan divides all keys of a service in one data centre into ranges. A server claims a range and answers for it.
#[derive(Debug, Parser)]
#[command(name = "shard-read", version, after_help = exit::TABLE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a plan to a data centre. Servers claim ranges of the newest one. Prints its number
    #[command(after_help = exit::TABLE)]
    Plan(plan::Args),
    /// Drop a plan. Its servers leave, and claim ranges of the newest one
    ///
    /// Refuses what would leave keys of the data centre without a server: every range of its newest plan needs a
    /// server that serves. With --in-place, all ranges of another data centre do. Run one such command at a time.
    #[command(after_help = exit::TABLE)]
    Retire(retire::Args),
    /// Serve owners until a signal (SIGTERM or Ctrl-C), then leave the range in order and exit with 0
    ///
    /// It waits without limit for a database that is away, or that no game has used. Prints its name once it listens.
    #[command(after_help = exit::TABLE)]
    Serve(serve::Args),
    /// Print owners as they have landed
    #[command(after_help = exit::TABLE)]
    Get(get::Args),
    /// Show each range with its claim, and what its server says: 1 if a range of the newest plans is without a server
    #[command(after_help = exit::TABLE)]
    Status(status::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env();
    // A log without a reader is no reason to end.
    let logs = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .with_env_filter(
            filter.unwrap_or_else(|_| "warn,shard_read=info,storage_shard_read=error".into()),
        );
    logs.init();
    let exit = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let exit = runtime.block_on(run(cli.command));
            // Not dropped: a drop waits for names that are looked up.
            runtime.shutdown_background();
            exit
        }
        Err(error) => Err(error.into()),
    };
    let exit = exit.unwrap_or_else(|error| {
        let exit = exit::of(&error);
        if exit != Exit::BrokenPipe {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
        }
        exit
    });
    exit.into()
}

async fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Plan(args) => plan::run(args).await,
        Command::Retire(args) => retire::run(args).await,
        Command::Serve(args) => serve::run(args).await,
        Command::Get(args) => get::run(args).await,
        Command::Status(args) => status::run(args).await,
    }
}
