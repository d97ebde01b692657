//! How a command ends: the table of exit codes, and the code of each error.

use std::process::ExitCode;

use shard_read_server::ServerError;
use storage_sdk::layer::{ColdError, ColdKind};
use storage_sdk::{ConfigError, Kind};

/// The table in `--help`. The numbers mean what they mean for `landing-worker`.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    fine
  1    it did its work and found something: a range without a server, no such plan, a lost claim, calls that were cut off
  2    usage: an argument is impossible, a file of a token or certificate can't be read, or an address is taken
  3    settings: a wrong key, login, token, certificate, name or schema; waiting does not help
  4    the servers do not answer, or not for every key
  5    the database is away
  6    refused for safety: keys would be without a server, or the database is of another storage
  7    the deadline passed; look with status what was done
  130  a second SIGTERM, SIGINT or SIGHUP ended it
  141  nobody reads the output any more";

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All is well.
    Fine = 0,
    /// The work is done, and it found something to look at.
    Found = 1,
    /// A bad argument. The parser of the command line also ends with this code.
    Usage = 2,
    /// An operator must act first.
    Settings = 3,
    /// The servers do not answer.
    ServersAway = 4,
    /// The database is away.
    DatabaseAway = 5,
    /// The command could leave keys without a server.
    Refused = 6,
    /// The deadline passed.
    Late = 7,
    /// A second signal.
    Signal = 130,
    /// The reader of the output, such as `head`, has stopped.
    BrokenPipe = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with its own exit code.
#[derive(Debug)]
struct Ends(Exit, String);

impl std::error::Error for Ends {}

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

/// An error that ends the command with this code.
pub(crate) fn error(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Ends(exit, message.into()).into()
}

/// The exit code of an error. The first cause with a code decides.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Found)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(Ends(exit, _)) = cause.downcast_ref() {
        return Some(*exit);
    }
    let read = cause.downcast_ref().map(of_read);
    let server = || cause.downcast_ref().map(of_server);
    let sdk = || cause.downcast_ref().map(of_sdk);
    let cold = || cause.downcast_ref().map(of_cold);
    let settings = || cause.downcast_ref::<ConfigError>().map(|_| Exit::Settings);
    let file = || cause.downcast_ref().map(of_file);
    read.or_else(server)
        .or_else(sdk)
        .or_else(cold)
        .or_else(settings)
        .or_else(file)
}

fn of_read(error: &storage_shard_read::Error) -> Exit {
    match error.kind() {
        storage_shard_read::Kind::Invalid => Exit::Usage,
        storage_shard_read::Kind::Denied => Exit::Settings,
        _ => Exit::ServersAway,
    }
}

fn of_server(error: &ServerError) -> Exit {
    match error {
        ServerError::Claims(error) => of_sdk(error),
        ServerError::Listen { .. } => Exit::Usage,
        _ => Exit::Settings,
    }
}

fn of_sdk(error: &storage_sdk::Error) -> Exit {
    match error.kind() {
        Kind::Invalid | Kind::Denied => Exit::Settings,
        Kind::Unpaired | Kind::TooNew => Exit::Refused,
        Kind::ColdUnavailable | Kind::Timeout => Exit::DatabaseAway,
        _ => Exit::Found,
    }
}

fn of_cold(error: &ColdError) -> Exit {
    match error.kind {
        ColdKind::Operator | ColdKind::Settings => Exit::Settings,
        ColdKind::Schema => Exit::Refused,
        ColdKind::Unreadable => Exit::Found,
        _ => Exit::DatabaseAway,
    }
}

fn of_file(error: &std::io::Error) -> Exit {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        Exit::BrokenPipe
    } else {
        Exit::Usage
    }
}
