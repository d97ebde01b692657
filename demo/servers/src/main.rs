//! The `demo-servers` program: the demo on real servers.
//!
//! | module | concept |
//! | --- | --- |
//! | [`stage`] | the servers, the play on them, and the result |
//! | [`worker`] | landing workers in their own processes, and the kill of one of them |
//! | [`rows`] | the rows by plain SQL |

mod rows;
mod stage;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use landing_worker::exit::{self, Exit};
use landing_worker::limit::{self, Deadline};
use landing_worker::{program, progress};
use storage_demo::args::Args;

/// Shows the storage at work on a Redis and a MariaDB or MySQL that it starts, with two landing
/// workers of which one is killed, and checks it three ways
///
/// A snapshot must take several batches, so 100 players or more are needed.
#[derive(Debug, Parser)]
#[command(name = "demo-servers", version, after_help = exit::TABLE)]
struct Cli {
    #[command(flatten)]
    args: Args,
    /// Give up after this long
    #[arg(long, default_value = "2h")]
    deadline: Deadline,
}

fn main() -> ExitCode {
    // The landing workers are processes of this program, too.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments
        .next_if(|first| first == worker::ARGUMENT)
        .is_some()
    {
        let name = std::iter::once("landing-worker".into());
        return landing_worker::main(landing_worker::Cli::parse_from(name.chain(arguments)));
    }
    let Cli { args, deadline } = Cli::parse();
    program(limit::within(deadline, play(args)))
}

/// Plays, compares and prints the table. The exit code tells whether there is a difference.
async fn play(args: Args) -> anyhow::Result<Exit> {
    let bar = progress::phases(u64::try_from(args.time().as_millis())?);
    let ended = stage::run(args.plan(), args.time(), &bar).await;
    bar.finish_and_clear();
    let table = ended?;
    write!(std::io::stdout(), "{table}")?;
    Ok(if table.agrees() {
        Exit::Fine
    } else {
        Exit::Found
    })
}
