//! Errors of settings: the rejected value, its place and the allowed values.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// Invalid settings. Nothing was started.
///
/// The message names the file and the line or the variable, the key, the value and the allowed
/// values, or the nearest known key. It holds no password. `Debug` shows the same message, since a
/// program whose `main` returns an error prints that.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct ConfigError(#[from] Fault);

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The source of a value.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A line of a settings file, counted from 1.
    File { name: String, line: usize },
    /// An environment variable.
    Variable(String),
    /// The program itself: a field that it set, or a default.
    Program,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}: "),
            Self::Variable(_) | Self::Program => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{file}: cannot read the settings: {source}{}", storage_model::limit_of(&source.to_string()).unwrap_or_default())]
    Read { file: String, source: io::Error },
    /// The value has the wrong type, is out of range, or does not fit another value.
    #[error("{}: expected {expected}", assignment(place, key, value))]
    Value {
        place: Place,
        key: String,
        value: String,
        expected: String,
    },
    /// The place, and what is wrong there.
    #[error("{0}{1}")]
    Other(Place, String),
}

/// A key and its value in the syntax of their place. A variable has text without quotes.
fn assignment(place: &Place, key: &str, value: &str) -> String {
    match place {
        Place::Variable(name) => format!("{name}={}", value.trim_matches('"')),
        Place::File { .. } | Place::Program => format!("{place}{key} = {value}"),
    }
}

/// A value that is not allowed.
pub(crate) fn refused(place: Place, key: &str, value: String, expected: String) -> ConfigError {
    let key = key.to_owned();
    Fault::Value {
        place,
        key,
        value,
        expected,
    }
    .into()
}

/// A fault that is not in one value.
pub(crate) fn other(place: Place, text: String) -> ConfigError {
    Fault::Other(place, text).into()
}

impl ConfigError {
    /// The same error with the place where its key was set.
    pub(crate) fn placed(mut self, origins: &BTreeMap<String, Place>) -> Self {
        if let Fault::Value { place, key, .. } = &mut self.0
            && let Some(origin) = origins.get(key)
        {
            *place = origin.clone();
        }
        self
    }
}
