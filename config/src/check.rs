//! The checks of values by the rules of their keys, and of values that depend on each other.

use serde::Serialize;
use toml::Table;

use crate::error::{ConfigError, Place, other, refused};
use crate::keys::{self, SECTIONS};
use crate::rule::{Rules, shown};
use crate::sinks::SinkSettings;

/// The keys without a default, in each section that has them.
const REQUIRED: [&str; 2] = ["dir", "url"];

/// Checks each value of a section of settings.
pub(crate) fn section(section: &str, settings: &impl Serialize) -> Result<(), ConfigError> {
    let mut written = written(section, settings)?;
    // The URL of a tier is right by its type. Shown, it may be none, such as a path with a "?".
    if keys::sink_of(section).is_none() {
        written.remove("url");
    }
    values(section, &written)
}

/// Checks each value of a section as a file has it.
pub(crate) fn values(section: &str, values: &Table) -> Result<(), ConfigError> {
    let rules = rules(section, values)?;
    for (name, value) in values {
        let checked = match rules.iter().find(|(own, _)| own == name) {
            Some((_, rule)) => rule.check(value),
            None => {
                let kind = values.get("kind").map(shown).unwrap_or_default();
                Err(format!("no such key, since {section}.kind is {kind}"))
            }
        };
        // A key of another kind of sink may be a secret, too.
        let value = || keys::rule(section, name).map_or_else(String::new, |rule| rule.shown(value));
        let key = format!("{section}.{name}");
        checked.map_err(|expected| refused(Place::Program, &key, value(), expected))?;
    }
    Ok(())
}

/// Checks that a section as a file has it lacks no value.
pub(crate) fn required(section: &str, values: &Table) -> Result<(), ConfigError> {
    let mut names = rules(section, values)?.iter().map(|(name, _)| *name);
    match names.find(|name| REQUIRED.contains(name) && !values.contains_key(*name)) {
        Some(name) => Err(missing(&format!("{section}.{name}"))),
        None => Ok(()),
    }
}

/// A setting without default that no source sets.
fn missing(key: &str) -> ConfigError {
    let variable = keys::variable(key);
    let text = format!("{key} is missing; set it in the settings file or as {variable}");
    other(Place::Program, text)
}

/// The rules of a section. Those of a sink follow from its kind.
fn rules(section: &str, values: &Table) -> Result<Rules, ConfigError> {
    if keys::sink_of(section).is_none() {
        let own = SECTIONS.iter().find(|(name, _)| *name == section);
        return Ok(own.map_or(&[], |(_, rules)| rules));
    }
    let key = format!("{section}.kind");
    let Some(kind) = values.get("kind") else {
        return Err(missing(&key));
    };
    let mut kinds = SinkSettings::KINDS.iter();
    let own = kinds.find(|(name, _)| kind.as_str() == Some(name));
    let expected = || "\"file\", \"stream\" or \"webhook\"".to_owned();
    own.map(|(_, rules)| *rules)
        .ok_or_else(|| refused(Place::Program, &key, shown(kind), expected()))
}

/// Checks a rule between two values of a section. `key` is the one to change.
pub(crate) fn ensure(
    holds: bool,
    settings: &impl Serialize,
    key: &str,
    expected: &str,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let written = written(section, settings)?;
    let value = match (keys::rule(section, name), written.get(name)) {
        (Some(rule), Some(value)) => rule.shown(value),
        // An open key has no value.
        _ => "\"\"".to_owned(),
    };
    Err(refused(Place::Program, key, value, expected.to_owned()))
}

/// A section as a file has it, passwords hidden.
fn written(section: &str, settings: &impl Serialize) -> Result<Table, ConfigError> {
    Table::try_from(settings).map_err(|_| {
        let expected = format!("numbers up to {}, and paths in UTF-8", i64::MAX);
        refused(Place::Program, section, "(table)".to_owned(), expected)
    })
}
