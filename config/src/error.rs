//! Errors of settings: the rejected value, its place and the allowed values.

use std::fmt;
use std::io;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a settings file.
    File {
        /// The file's name.
        name: String,
        /// The line, counted from 1.
        line: usize,
    },
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

/// Invalid settings. Nothing was started. No message holds a password.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{file}: cannot read the settings: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{place}not TOML: {message}")]
    Syntax {
        /// The line.
        place: Place,
        /// The message of the parser.
        message: String,
    },
    /// There is no such section, key or variable.
    #[error("{place}unknown {what}; {hint}")]
    Unknown {
        /// Its place.
        place: Place,
        /// "key redis.urll", "section rediss" or "variable STORAGE__REDIS__URLL".
        what: String,
        /// The name that was probably meant, or the known names.
        hint: String,
    },
    /// The value has the wrong type, is out of range, or does not fit another value.
    #[error("{place}{}: expected {expected}", Assignment(place, key, value))]
    Value {
        /// Its place.
        place: Place,
        /// The key, such as "redis.partitions".
        key: String,
        /// The value, passwords hidden.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// A setting without default is missing.
    #[error("{key} is missing; set it in the settings file or as {variable}")]
    Missing {
        /// The key, such as "redis.url".
        key: String,
        /// The variable that can hold it.
        variable: String,
    },
}

/// For people, because a program whose `main` returns an error prints this.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ConfigError {
    /// The same error at the place where its key was set.
    pub(crate) fn placed(mut self, origin: impl FnOnce(&str) -> Option<Place>) -> Self {
        if let Self::Value { place, key, .. } = &mut self
            && let Some(known) = origin(key)
        {
            *place = known;
        }
        self
    }
}

/// A key and its value, in the syntax of their place.
struct Assignment<'a>(&'a Place, &'a str, &'a str);

impl fmt::Display for Assignment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(place, key, value) = self;
        match place {
            Place::Variable(name) => write!(f, "{name}={value}"),
            Place::File { .. } | Place::Program => write!(f, "{key} = {value}"),
        }
    }
}
