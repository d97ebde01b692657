//! The meaning of failed commands: one table from the server's codes to kinds and outcomes.

use redis::{ErrorKind, RedisError, ServerError};
use storage_model::{Outcome, Partition};

use crate::redis::connections::rights::Forbidden;
use crate::{HotError, HotKind};

/// Why a command has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server, or one of our scripts, rejected the command with this code.
    Server {
        /// The first word of the error.
        code: String,
        /// The rest of it.
        text: String,
    },
    /// The user lacks a right that one of our scripts needs.
    Forbidden(Forbidden),
    /// The server was reached, but only an operator can remove the cause. Nothing was sent.
    Operator(String),
    /// There is no connection, so nothing was sent.
    NoConnection(String),
    /// The connection broke after the command may have been sent.
    Lost(String),
    /// No answer came in time.
    TimedOut,
    /// The server may evict unlanded data. Nothing was sent.
    Policy(String),
    /// The server can't give a write the requested durability. Nothing was sent.
    Durability(String),
    /// The command was executed, but is not known to have the requested durability.
    NotReached(String),
    /// Settings that can't work.
    Settings(String),
    /// Another incarnation answers than the one that the command was meant for. Nothing was sent.
    Unverified,
    /// The answer makes no sense.
    Nonsense(String),
}

impl Failure {
    /// A rejection with this code.
    pub(crate) fn server(code: &str, text: &str) -> Self {
        Self::Server {
            code: code.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The server's error, without the place in a script that it names.
    pub(crate) fn answered(code: &str, text: &str) -> Self {
        // Said at once to a new connection, before anything is sent on it.
        if code == "ERR" && text.starts_with("max number of clients") {
            return Self::NoConnection(format!("{code} {text}"));
        }
        let forbidden = Forbidden::of(text).map(Self::Forbidden);
        forbidden.unwrap_or_else(|| {
            Self::server(code, text.split(" script: ").next().unwrap_or_default())
        })
    }

    /// The rejection of one of several writes by a script: a code and a text.
    pub(crate) fn of_script(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (code, text) = text.split_once(' ').unwrap_or((&text, ""));
        Self::answered(code, text)
    }

    /// The error as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Server { code, text } => format!("{code} {text}"),
            Self::Forbidden(forbidden) => forbidden.text.clone(),
            Self::Operator(text)
            | Self::NoConnection(text)
            | Self::Lost(text)
            | Self::Policy(text)
            | Self::Durability(text)
            | Self::NotReached(text)
            | Self::Settings(text)
            | Self::Nonsense(text) => text.clone(),
            Self::TimedOut => "no answer came in time".to_owned(),
            Self::Unverified => "the record was made under another incarnation".to_owned(),
        }
    }

    /// The meaning of this failure for a call of which nothing was sent yet.
    pub(crate) fn before_sending(self, what: &str) -> Self {
        match self {
            Self::Lost(text) => Self::NoConnection(format!("{what}: {text}")),
            Self::TimedOut => Self::NoConnection(format!("{what} did not answer in time")),
            other => other,
        }
    }

    /// Whether the stored data makes no sense, so that a retry gets the same answer.
    pub(crate) fn is_of_stored_data(&self) -> bool {
        match self {
            Self::Server { code, .. } => code == "WRONGTYPE",
            Self::Nonsense(_) => true,
            _ => false,
        }
    }
}

impl From<&ServerError> for Failure {
    fn from(error: &ServerError) -> Self {
        Self::answered(error.code(), error.details().unwrap_or_default())
    }
}

/// The meaning of an error of an established connection.
impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        if error.is_timeout() {
            return Self::TimedOut;
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                Self::server("WRONGPASS", "the server refused user or password")
            }
            ErrorKind::InvalidClientConfig => Self::Settings(error.to_string()),
            ErrorKind::Io => Self::Lost(error.to_string()),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
                Self::Lost(format!("unreadable answer: {error}"))
            }
            _ => match error.code() {
                Some(code) => Self::answered(code, error.detail().unwrap_or_default()),
                None => Self::Lost(error.to_string()),
            },
        }
    }
}

/// The error of an operation, with its partition, if it has one.
pub(crate) fn hot_error(
    failure: Failure,
    operation: &'static str,
    writes: bool,
    partition: Option<Partition>,
) -> HotError {
    let lost = if writes {
        Outcome::Unknown
    } else {
        Outcome::NotApplied
    };
    let message = failure.text();
    let (kind, outcome) = match failure {
        Failure::Server { code, .. } => {
            meaning(&code, partition).unwrap_or((HotKind::Corrupt, lost))
        }
        // A command that is denied in the middle of a script leaves the earlier writes of the
        // script.
        Failure::Forbidden(forbidden) if forbidden.changed_nothing() => {
            (HotKind::Denied, Outcome::NotApplied)
        }
        Failure::Forbidden(_) => (HotKind::Denied, lost),
        Failure::Operator(_) => (HotKind::Denied, Outcome::NotApplied),
        Failure::NoConnection(_) => (HotKind::Unavailable, Outcome::NotApplied),
        Failure::Lost(_) | Failure::TimedOut => (HotKind::Interrupted, lost),
        Failure::Policy(_) => (HotKind::Policy, Outcome::NotApplied),
        Failure::Durability(_) => (HotKind::Durability, Outcome::NotApplied),
        Failure::NotReached(_) => (HotKind::NotReached, Outcome::Applied),
        Failure::Settings(_) => (HotKind::Settings, Outcome::NotApplied),
        Failure::Unverified => (
            partition.map_or(HotKind::Unavailable, HotKind::Unprepared),
            Outcome::NotApplied,
        ),
        Failure::Nonsense(_) => (HotKind::Corrupt, lost),
    };
    HotError {
        kind,
        outcome,
        operation,
        message: one_line(&message),
    }
}

/// The meaning of a code. All of these codes come before anything is written: from the server
/// before it runs a script, or from our scripts, which validate first. `None` for any other code.
/// Such a code is unexpected, and may come from the middle of a script.
fn meaning(code: &str, partition: Option<Partition>) -> Option<(HotKind, Outcome)> {
    let kind = match code {
        "UNPREPARED" => partition.map_or(HotKind::Corrupt, HotKind::Unprepared),
        "EPOCH" => HotKind::EpochMoved,
        "LOCKLOST" => HotKind::LockLost,
        "DEADLINE" => HotKind::Settings,
        "BACKLOG" => HotKind::Backlog,
        "CORRUPT" | "BADCALL" => HotKind::Corrupt,
        _ => {
            let known = PREFIXES.iter().find(|(_, codes)| codes.contains(&code));
            known.map(|(kind, _)| kind.clone())?
        }
    };
    Some((kind, Outcome::NotApplied))
}

/// The prefixes of the errors of Redis 7 and 8 and of Valkey, which come before anything is
/// written. The chapter on errors has the same rows.
const PREFIXES: &[(HotKind, &[&str])] = &[
    // The server loads its data, has lost its primary, or runs a long script.
    (HotKind::Unavailable, &["LOADING", "MASTERDOWN", "BUSY"]),
    // Slots move, or the cluster is not whole.
    (
        HotKind::Unavailable,
        &["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "REDIRECT"],
    ),
    // Another server is the primary now, or becomes it.
    (
        HotKind::Unavailable,
        &[
            "READONLY",
            "NOSCRIPT",
            "UNBLOCKED",
            "INPROG",
            "NOMASTERLINK",
            "NOGOODSLAVE",
            "NOQUORUM",
            "IOERR",
        ],
    ),
    // The server can't save to its disk, or has too few replicas.
    (HotKind::NoWrites, &["MISCONF", "NOREPLICAS"]),
    // The server is at maxmemory.
    (HotKind::OutOfMemory, &["OOM"]),
    // The server rejects user or password.
    (HotKind::Denied, &["NOAUTH", "WRONGPASS"]),
    // The user lacks a right.
    (HotKind::Denied, &["NOPERM"]),
    // The server is in protected mode, and takes only clients of its own machine.
    (HotKind::Denied, &["DENIED"]),
    // Another program has written a key under redis.prefix.
    (
        HotKind::Corrupt,
        &["WRONGTYPE", "INVALIDOBJ", "BUSYKEY", "BUSYGROUP", "NOGROUP"],
    ),
    // A proxy or a server that does not speak Redis as this program does.
    (
        HotKind::Corrupt,
        &["CROSSSLOT", "EXECABORT", "NOTBUSY", "UNKILLABLE", "NOPROTO"],
    ),
];

fn one_line(message: &str) -> String {
    message.trim().replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str, writes: bool) -> (HotKind, Outcome) {
        let error = hot_error(
            Failure::server(code, "text\nmore"),
            "mutate",
            writes,
            Some(Partition(3)),
        );
        assert_eq!(error.message, format!("{code} text more"));
        (error.kind, error.outcome)
    }

    #[test]
    fn each_code_has_a_kind_and_says_whether_the_call_took_place() {
        use HotKind::*;
        let table = [
            (
                Unavailable,
                "NOSCRIPT MOVED ASK TRYAGAIN CLUSTERDOWN LOADING MASTERDOWN READONLY BUSY REDIRECT",
            ),
            (NoWrites, "NOREPLICAS MISCONF"),
            (OutOfMemory, "OOM"),
            (Denied, "NOAUTH WRONGPASS NOPERM DENIED"),
            (Corrupt, "WRONGTYPE CORRUPT BADCALL CROSSSLOT EXECABORT"),
            (Unprepared(Partition(3)), "UNPREPARED"),
            (EpochMoved, "EPOCH"),
            (LockLost, "LOCKLOST"),
            (Settings, "DEADLINE"),
        ];
        for (kind, codes) in table {
            for code in codes.split(' ') {
                assert_eq!(
                    of(code, true),
                    (kind.clone(), Outcome::NotApplied),
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn the_chapter_on_errors_has_the_prefixes_of_the_table_and_no_others() {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/errors.md");
        let chapter = std::fs::read_to_string(chapter).unwrap();
        let section = chapter.split_once("## Redis\n").unwrap().1;
        let rows: Vec<Vec<&str>> = section
            .lines()
            .skip_while(|line| !line.starts_with("| ---"))
            .skip(1)
            .take_while(|line| line.starts_with("| "))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        assert_eq!(rows.len(), PREFIXES.len());
        for ((kind, codes), row) in PREFIXES.iter().zip(rows) {
            assert_eq!(codes.join(", "), row[1]);
            let expected = match kind {
                HotKind::Unavailable => ("unavailable", "4"),
                HotKind::NoWrites => ("no writes", "4"),
                HotKind::OutOfMemory => ("out of memory", "4"),
                HotKind::Denied => ("denied", "3"),
                _ => ("corrupt", "1"),
            };
            assert_eq!((row[3], row[4]), expected, "{codes:?}");
        }
    }

    #[test]
    fn a_server_without_a_place_for_a_client_is_away_and_its_text_is_told() {
        let full = Failure::answered("ERR", "max number of clients reached");
        let error = hot_error(full, "mutate", true, None);
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unavailable, Outcome::NotApplied)
        );
        assert_eq!(error.message, "ERR max number of clients reached");
    }

    #[test]
    fn a_right_that_is_missing_in_a_script_is_denied_and_says_honestly_what_was_written() {
        let of = |command: &str, writes| {
            let text = format!(
                "ACL failure in script: User g has no permissions to run the '{command}' command script: f00, on @user_script:1."
            );
            let error = hot_error(Failure::answered("ERR", &text), "mutate", writes, None);
            assert!(
                !error.message.contains("f00") && error.message.contains(&command.to_uppercase()),
                "{error}"
            );
            (error.kind, error.outcome)
        };
        assert_eq!(of("hset", true), (HotKind::Denied, Outcome::NotApplied));
        assert_eq!(of("persist", true), (HotKind::Denied, Outcome::Unknown));
        assert_eq!(of("persist", false), (HotKind::Denied, Outcome::NotApplied));
        let wrong = Failure::answered(
            "WRONGTYPE",
            "Operation against a key script: f00, on @user_script:1.",
        );
        assert_eq!(wrong.text(), "WRONGTYPE Operation against a key");
    }

    #[test]
    fn a_write_whose_answer_is_missing_or_unknown_may_have_happened_and_a_read_never_did() {
        for (writes, outcome) in [(true, Outcome::Unknown), (false, Outcome::NotApplied)] {
            assert_eq!(of("ERR", writes), (HotKind::Corrupt, outcome));
            for failure in [Failure::TimedOut, Failure::Lost("broken pipe".into())] {
                let error = hot_error(failure, "mutate", writes, None);
                assert_eq!((error.kind, error.outcome), (HotKind::Interrupted, outcome));
            }
        }
        let error = hot_error(
            Failure::NoConnection("refused".into()),
            "mutate",
            true,
            None,
        );
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unavailable, Outcome::NotApplied)
        );
        let error = hot_error(Failure::Unverified, "mutate", true, Some(Partition(9)));
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unprepared(Partition(9)), Outcome::NotApplied)
        );
    }
}
