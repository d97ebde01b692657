//! The one place that reads files and the environment.

use std::path::Path;

use crate::draft::{Draft, VARIABLES};
use crate::error::{ConfigError, Place};
use crate::settings::Settings;

impl Settings {
    /// Reads a TOML file, then the variables `STORAGE__SECTION__KEY`, which override it.
    ///
    /// A variable `STORAGE__SECTION__KEY_FILE` names a file that holds the value, such as a mounted
    /// password. The end of the file's last line is no part of it.
    ///
    /// # Errors
    /// The file can't be read or is not TOML. A key, section or variable is unknown or holds a bad
    /// value, or names a file that can't be read. A URL is missing.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let name = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read {
            file: name.clone(),
            source,
        })?;
        let mut draft = Draft::default();
        draft.toml(&text, &name)?;
        draft.environment()?;
        draft.finish()
    }

    /// Reads the variables `STORAGE__SECTION__KEY` alone. `STORAGE__REDIS__URL` and
    /// `STORAGE__SQL__URL` are enough.
    ///
    /// # Errors
    /// A variable is unknown or holds a bad value. A URL is missing.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut draft = Draft::default();
        draft.environment()?;
        draft.finish()
    }
}

impl Draft {
    /// Applies the variables of this process, and the files that they name.
    fn environment(&mut self) -> Result<(), ConfigError> {
        let variables = environment()?;
        for (name, value) in &variables {
            let Some(plain) = self.variable_of_file(name) else {
                self.variable(name, value, name)?;
                continue;
            };
            if variables.iter().any(|(other, _)| *other == plain) {
                return Err(unfit(
                    name,
                    value,
                    format!("only one of {plain} and {name}"),
                ));
            }
            self.variable(&plain, &content(name, value)?, name)?;
        }
        Ok(())
    }
}

/// The content of the file that a variable names.
fn content(variable: &str, path: &str) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        file: format!("{variable}={path}"),
        source,
    })?;
    let content = text.trim_end_matches(['\r', '\n']);
    if content.is_empty() {
        return Err(unfit(variable, path, "a file that is not empty".to_owned()));
    }
    Ok(content.to_owned())
}

/// The error of a variable that names a file.
fn unfit(variable: &str, path: &str, expected: String) -> ConfigError {
    ConfigError::Value {
        place: Place::Variable(variable.to_owned()),
        key: variable.to_owned(),
        value: path.to_owned(),
        expected,
    }
}

/// The variables of this process that begin with `STORAGE__`.
fn environment() -> Result<Vec<(String, String)>, ConfigError> {
    let ours =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    ours.filter(|(name, _)| name.starts_with(VARIABLES))
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(ConfigError::Value {
                place: Place::Variable(name.clone()),
                key: name,
                value: "(bytes)".to_owned(),
                expected: "UTF-8".to_owned(),
            }),
        })
        .collect()
}

/// The name of this process if the settings give none: host and process id.
#[must_use]
pub fn process_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}
