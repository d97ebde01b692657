//! The rights of the user behind a connection. A missing right must be found before anything is
//! written. Redis checks the right for a command when a script calls it, so a missing right would
//! end a script in the middle of its writes.

use std::sync::Mutex;

use redis::{ServerError, Value};

use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts::SCRIPTS;
use storage_coalesce::locked;

/// If the user lacks the right for one of these commands, no script of a write changes anything.
const BEFORE_ALL_WRITES: [&str; 4] = ["TIME", "INFO", "HMGET", "HSET"];

/// A failure of a script because the user lacks a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forbidden {
    /// The command. `None` if neither the server nor the script's line names it.
    pub(crate) command: Option<String>,
    /// Whether the right to a key is missing, and not the right to a command.
    of_keys: bool,
    /// The reason and the way out, as text.
    pub(crate) text: String,
}

impl Forbidden {
    /// Parses the server's words. `None` for any other error.
    pub(crate) fn of(words: &str) -> Option<Self> {
        let of_rights = words.contains("ACL failure in script")
            || words.contains("The user executing the script can't");
        if !of_rights {
            return None;
        }
        let of_keys = words.contains(" access ");
        let command = (!of_keys)
            .then(|| quoted(words).or_else(|| called(words)))
            .flatten()
            .map(str::to_uppercase);
        let what = match &command {
            Some(command) => format!("the user may not run {command} in scripts"),
            None if of_keys => {
                "the user may not use all keys that begin with the prefix".to_owned()
            }
            None => "the user may not run all commands of the scripts".to_owned(),
        };
        Some(Self {
            command,
            of_keys,
            text: told(&what),
        })
    }

    /// Whether the script ended before its first write.
    pub(crate) fn changed_nothing(&self) -> bool {
        self.command
            .as_deref()
            .is_some_and(|command| BEFORE_ALL_WRITES.contains(&command))
    }
}

fn told(what: &str) -> String {
    format!("{what}; `landing-worker grants` prints the rights that are needed")
}

/// The first text between single quotes.
fn quoted(words: &str) -> Option<&str> {
    words
        .split('\'')
        .nth(1)
        .filter(|word| word.chars().all(|letter| letter.is_ascii_alphabetic()))
}

/// The command in the line where the script ended. Redis 7.0 does not name the command itself.
fn called(words: &str) -> Option<&'static str> {
    let (sha, rest) = words
        .split_once(" script: ")?
        .1
        .split_once(", on @user_script:")?;
    let line: usize = rest.trim_end_matches('.').parse().ok()?;
    let line = SCRIPTS.source_of(sha)?.lines().nth(line.checked_sub(1)?)?;
    line.split_once("call('")?.1.split('\'').next()
}

/// The missing rights that `rights.lua` found. `None` if the user has all rights.
fn missing(answer: Value) -> Result<Option<String>, Failure> {
    let found = reply::pairs(answer)?;
    if found.is_empty() {
        return Ok(None);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let of_keys = found
        .iter()
        .filter_map(|(_, words)| Forbidden::of(&text(words)))
        .find(|found| found.of_keys);
    if let Some(of_keys) = of_keys {
        return Ok(Some(of_keys.text));
    }
    let names: Vec<String> = found.iter().map(|(name, _)| text(name)).collect();
    Ok(Some(told(&format!(
        "the user may not run {} in scripts",
        names.join(", ")
    ))))
}

/// The right of the scripts that the user of a server lacks, as far as is known. While a right is
/// missing, no write is sent.
#[derive(Debug, Default)]
pub(crate) struct Rights(Mutex<Option<String>>);

impl Rights {
    /// Why no write may be sent.
    pub(in crate::redis) fn lacks(&self) -> Option<Failure> {
        locked(&self.0)
            .as_ref()
            .map(|why| Failure::server("NOPERM", why))
    }

    /// Notes the answer of `rights.lua`. An answer that does not tell changes nothing.
    pub(in crate::redis) fn learn(&self, node: &str, answer: Value) -> Result<(), Failure> {
        match answer {
            // For example, the script is forgotten or the server is busy. The calls themselves will
            // tell.
            Value::ServerError(error) if error.code() != "NOPERM" => return Ok(()),
            Value::ServerError(error) => return Err(Failure::from(&error)),
            found => self.note(node, missing(found)?),
        }
        self.lacks().map_or(Ok(()), Err)
    }

    /// Notes an error that a command was answered with.
    pub(in crate::redis) fn hear(&self, node: &str, error: &ServerError) {
        if let Some(forbidden) = error.details().and_then(Forbidden::of) {
            self.note(node, Some(forbidden.text));
        }
    }

    fn note(&self, node: &str, missing: Option<String>) {
        let mut lacks = locked(&self.0);
        if *lacks != missing {
            match &missing {
                Some(why) => tracing::error!(node, why, "writes are refused"),
                None => tracing::info!(node, "the user has all rights again"),
            }
            *lacks = missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_words_of_all_servers_name_the_command_and_no_script() {
        let table = [
            (
                "ACL failure in script: User game has no permissions to run the 'hmget' command script: 8f3c, on @user_script:3.",
                Some("HMGET"),
            ),
            (
                "The user executing the script can't run this command or subcommand",
                None,
            ),
            (
                "ACL failure in script: No permissions to access a key script: 8f3c",
                None,
            ),
            (
                "ACL failure in script: User game has no permissions to access the 'slug-meta' key",
                None,
            ),
        ];
        for (words, command) in table {
            let found = Forbidden::of(words).unwrap();
            assert_eq!(found.command.as_deref(), command, "{words}");
            assert!(
                !found.text.contains("8f3c") && found.text.contains("landing-worker grants"),
                "{}",
                found.text
            );
        }
        assert_eq!(
            Forbidden::of("Operation against a key holding the wrong kind of value"),
            None
        );
    }

    #[test]
    fn a_command_that_the_server_does_not_name_is_found_in_the_scripts_line() {
        let script = SCRIPTS
            .all()
            .into_iter()
            .find(|script| script.name == "update")
            .unwrap();
        let at = 1 + script
            .source()
            .lines()
            .position(|line| line.contains("call('PERSIST'"))
            .unwrap();
        let words = format!(
            "The user executing the script can't run this command or subcommand script: {}, on @user_script:{at}.",
            script.sha()
        );
        assert_eq!(
            Forbidden::of(&words).unwrap().command.as_deref(),
            Some("PERSIST")
        );
        let keys = "The user executing the script can't access at least one of the keys mentioned in the command arguments";
        assert!(Forbidden::of(keys).unwrap().of_keys);
    }

    #[test]
    fn every_command_of_every_script_is_asked_about() {
        let quoted_words = |source: &str| -> BTreeSet<String> {
            let words = source.split('\'').skip(1).step_by(2);
            words
                .filter(|word| {
                    word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase())
                })
                .map(str::to_owned)
                .collect()
        };
        let (rights, others): (Vec<_>, Vec<_>) = SCRIPTS
            .all()
            .into_iter()
            .partition(|script| script.name == "rights");
        let asked = quoted_words(&rights[0].source().replace("COUNT", "count"));
        let code = |source: &str| {
            source
                .lines()
                .filter(|line| !line.trim_start().starts_with("--"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        for script in others {
            for called in ["call('", "each_chunk('"] {
                for rest in code(script.source()).split(called).skip(1) {
                    let command = rest.split('\'').next().unwrap_or_default();
                    assert!(asked.contains(command), "{}: {command}", script.name);
                }
            }
        }
    }
}
