//! How a command ends: the table of exit codes, and the code of each error.

use std::fmt;
use std::process::ExitCode;

use storage_dirty::{HotError, HotKind};
use storage_sdk::Kind;
use storage_sql::{ColdError, ColdKind};
use storage_tiers::TierError;

/// The table in `--help`.
pub const TABLE: &str = "\
Exit codes:
  0    fine
  1    it did its work and found something: a conflict, a refused row, a bad line, bytes that nobody can read
  2    usage: an argument is impossible, or a file that it names can't be read or written
  3    settings: a wrong key, login, right, certificate or name, or a full disk; waiting does not help
  4    the hot tier is away, or can't take it now
  5    the cold tier is away
  6    refused for safety: eviction policy, number of partitions, version of the schema, tiers that do not belong together
  7    the deadline passed; what was done until then stays done
  130  ended by SIGTERM, SIGINT or SIGHUP; only run ends with 0 then, and with 130 at the second signal
  141  nobody reads the output any more";

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Fine = 0,
    /// The work is done, and it found something to look at.
    Found = 1,
    /// A bad argument, or a bad file in an argument. The parser of the command line also ends with
    /// this code.
    Usage = 2,
    /// An operator must act first.
    Settings = 3,
    /// The hot tier is away, or can't take the work now.
    HotAway = 4,
    /// The cold tier is away.
    ColdAway = 5,
    /// The command could lose data.
    Refused = 6,
    /// The deadline passed.
    Late = 7,
    /// A signal.
    Signal = 130,
    /// The code of a shell for a program that SIGPIPE ended: the reader of the output, such as
    /// `head`, has stopped.
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

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

/// An error that ends the command with this code.
pub fn error(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Ends(exit, message.into()).into()
}

/// The exit code of an error. The first cause with a code decides.
#[must_use]
pub fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Found)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(Ends(exit, _)) = cause.downcast_ref() {
        return Some(*exit);
    }
    if let Some(error) = cause.downcast_ref::<TierError>() {
        return of_tier(error);
    }
    let hot = || {
        cause
            .downcast_ref::<HotError>()
            .map(|error| of_hot(&error.kind))
    };
    let cold = || {
        cause
            .downcast_ref::<ColdError>()
            .map(|error| of_cold(error.kind))
    };
    let sdk = || {
        cause
            .downcast_ref::<storage_sdk::Error>()
            .map(|error| of_sdk(error.kind()))
    };
    let settings = || {
        cause
            .downcast_ref::<storage_config::ConfigError>()
            .map(|_| Exit::Settings)
    };
    let file = || {
        cause
            .downcast_ref::<std::io::Error>()
            .map(|error| of_file(error.kind()))
    };
    let json = || {
        cause
            .downcast_ref::<serde_json::Error>()?
            .io_error_kind()
            .map(of_file)
    };
    hot()
        .or_else(cold)
        .or_else(sdk)
        .or_else(settings)
        .or_else(file)
        .or_else(json)
}

fn of_tier(error: &TierError) -> Option<Exit> {
    match error {
        TierError::Hot(error) => Some(of_hot(&error.kind)),
        TierError::Cold(error) => Some(of_cold(error.kind)),
        TierError::Unpaired(_) => Some(Exit::Refused),
        // Nothing was done, and a repeat of the command may succeed.
        TierError::Contended { .. } | TierError::Behind(_) => Some(Exit::HotAway),
        _ => None,
    }
}

fn of_hot(kind: &HotKind) -> Exit {
    match kind {
        HotKind::Denied | HotKind::Settings => Exit::Settings,
        HotKind::Policy => Exit::Refused,
        HotKind::Corrupt => Exit::Found,
        _ => Exit::HotAway,
    }
}

fn of_cold(kind: ColdKind) -> Exit {
    match kind {
        ColdKind::Operator | ColdKind::Settings => Exit::Settings,
        ColdKind::Schema => Exit::Refused,
        ColdKind::Unreadable => Exit::Found,
        _ => Exit::ColdAway,
    }
}

/// Follows the SDK's kinds, which cover both tiers.
fn of_sdk(kind: Kind) -> Exit {
    match kind {
        Kind::Invalid | Kind::Denied => Exit::Settings,
        Kind::UnsafeEviction | Kind::Unpaired | Kind::TooNew => Exit::Refused,
        Kind::HotUnavailable
        | Kind::Timeout
        | Kind::OutOfMemory
        | Kind::Overloaded
        | Kind::Durability => Exit::HotAway,
        Kind::ColdUnavailable => Exit::ColdAway,
        _ => Exit::Found,
    }
}

fn of_file(kind: std::io::ErrorKind) -> Exit {
    if kind == std::io::ErrorKind::BrokenPipe {
        Exit::BrokenPipe
    } else {
        Exit::Usage
    }
}

/// An error in one line, with its root cause. A cause is left out if its text is already there.
#[must_use]
pub fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(if words.is_empty() { "" } else { ": " });
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_table_names_every_code_once() {
        use Exit::*;
        let all = [
            Fine, Found, Usage, Settings, HotAway, ColdAway, Refused, Late, Signal, BrokenPipe,
        ];
        let named: Vec<&str> = TABLE
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(named, all.map(|exit| (exit as u8).to_string()));
    }

    #[test]
    fn a_kind_decides_whatever_was_said_around_it() {
        let hot = |kind| {
            anyhow::Error::from(HotError::not_applied(kind, "mutate", "text"))
                .context("the hot tier")
                .context("more")
        };
        let cold = |kind| {
            let error = ColdError {
                kind,
                operation: "load",
                message: "text".into(),
            };
            Err::<(), _>(error).context("the cold tier").unwrap_err()
        };
        assert_eq!(of(&hot(HotKind::Interrupted)), Exit::HotAway);
        assert_eq!(of(&hot(HotKind::Denied)), Exit::Settings);
        assert_eq!(of(&hot(HotKind::Policy)), Exit::Refused);
        assert_eq!(of(&hot(HotKind::Corrupt)), Exit::Found);
        assert_eq!(of(&cold(ColdKind::Unwell)), Exit::ColdAway);
        assert_eq!(of(&cold(ColdKind::Operator)), Exit::Settings);
        assert_eq!(of(&cold(ColdKind::Schema)), Exit::Refused);
        let tier = TierError::Cold(ColdError {
            kind: ColdKind::Unwell,
            operation: "load",
            message: "text".into(),
        });
        assert_eq!(of(&tier.into()), Exit::ColdAway);
        let file = |kind| anyhow::Error::from(std::io::Error::from(kind)).context("the export");
        assert_eq!(of(&file(std::io::ErrorKind::BrokenPipe)), Exit::BrokenPipe);
        assert_eq!(of(&file(std::io::ErrorKind::StorageFull)), Exit::Usage);
        assert_eq!(of(&anyhow::anyhow!("something else")), Exit::Found);
    }

    #[test]
    fn a_cause_is_said_once_though_the_error_above_it_said_it() {
        let missing = storage_config::Settings::load("no/such/file").unwrap_err();
        let said = words(&anyhow::Error::from(missing).context("the settings"));
        assert_eq!(
            said,
            "the settings: no/such/file: cannot read the settings: No such file or directory (os error 2)"
        );
        let different = anyhow::anyhow!("root").context("middle").context("top");
        assert_eq!(words(&different), "top: middle: root");
    }
}
