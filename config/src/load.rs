//! The one place that reads files and the environment.

use std::path::Path;

use crate::draft::{Draft, VARIABLES};
use crate::error::{ConfigError, Place};
use crate::settings::Settings;

impl Settings {
    /// Reads a TOML file, then the variables `STORAGE__SECTION__KEY`, which override it.
    ///
    /// # Errors
    /// The file can't be read or is not TOML. A key, section or variable is unknown or holds a bad
    /// value. A URL is missing.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let name = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|source| ConfigError::Read {
            file: name.clone(),
            source,
        })?;
        let mut draft = Draft::default();
        draft.toml(&text, &name)?;
        draft.variables(environment()?)?;
        draft.finish()
    }

    /// Reads the variables `STORAGE__SECTION__KEY` alone. `STORAGE__REDIS__URL` and
    /// `STORAGE__SQL__URL` are enough.
    ///
    /// # Errors
    /// A variable is unknown or holds a bad value. A URL is missing.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut draft = Draft::default();
        draft.variables(environment()?)?;
        draft.finish()
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
