//! The one place that reads files and the environment.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{ConfigError, Fault, Place, refused};
use crate::keys::{self, VARIABLES};
use crate::settings::Settings;
use crate::sources::Sources;
use crate::url::without_password;

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
        let text = content(path.as_ref(), &name)?;
        let mut sources = Sources::default();
        sources.file(&text, &name)?;
        sources.environment()?;
        sources.settings()
    }

    /// Reads the variables `STORAGE__SECTION__KEY` alone. `STORAGE__REDIS__URL` and
    /// `STORAGE__SQL__URL` are enough.
    ///
    /// # Errors
    /// A variable is unknown or holds a bad value. A URL is missing.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        sources.environment()?;
        sources.settings()
    }
}

impl Sources {
    /// Adds the variables of this process, and the files that they name.
    fn environment(&mut self) -> Result<(), ConfigError> {
        let variables = environment()?;
        for (name, value) in &variables {
            let Some(plain) = keys::of_file_variable(name) else {
                self.variable(name, value, name)?;
                continue;
            };
            if variables.contains_key(plain) {
                let expected = format!("only one of {plain} and {name}");
                return Err(unfit(name, value, &expected));
            }
            let text = content(value.as_ref(), &format!("{name}={value}"))?;
            match text.trim_end_matches(['\r', '\n']) {
                "" => return Err(unfit(name, value, "a file that is not empty")),
                text => self.variable(plain, text, name)?,
            }
        }
        Ok(())
    }
}

/// The content of a file, which messages call `name`.
fn content(path: &Path, name: &str) -> Result<String, ConfigError> {
    let file = name.to_owned();
    std::fs::read_to_string(path).map_err(|source| Fault::Read { file, source }.into())
}

/// The error of a variable, whichever its key is.
fn unfit(name: &str, value: &str, expected: &str) -> ConfigError {
    let place = Place::Variable(name.to_owned());
    refused(
        place,
        name,
        without_password(value).into_owned(),
        expected.to_owned(),
    )
}

/// The variables of this process that begin with `STORAGE__`.
fn environment() -> Result<BTreeMap<String, String>, ConfigError> {
    let mut ours = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        if let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLES)) {
            let value = value.into_string();
            let value = value.map_err(|_| unfit(name, "(bytes)", "UTF-8"))?;
            ours.insert(name.to_owned(), value);
        }
    }
    Ok(ours)
}

/// The name of this process if the settings give none: host and process id.
#[must_use]
pub fn process_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}
