//! Settings while they are read: their values, and where each was set.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use crate::cold_url::ColdUrl;
use crate::entry::Refused;
use crate::error::{ConfigError, Place};
use crate::hot_url::HotUrl;
use crate::settings::Settings;
use crate::value::Raw;

/// The prefix of all variables of the storage.
pub(crate) const VARIABLES: &str = "STORAGE__";

/// The settings that have no default.
const REQUIRED: [(&str, &str); 2] = [("redis", "url"), ("sql", "url")];

/// Settings while they are read. Later sources override earlier ones.
pub(crate) struct Draft {
    settings: Settings,
    /// The place where each key was set last.
    origins: BTreeMap<String, Place>,
    /// Whether the URLs must still be set.
    needs_urls: bool,
}

/// Starts with placeholders for the URLs. [`Draft::finish`] checks that both URLs were set.
impl Default for Draft {
    fn default() -> Self {
        let settings = Settings::new(HotUrl::Memory, ColdUrl::SqliteMemory);
        Self {
            settings,
            origins: BTreeMap::new(),
            needs_urls: true,
        }
    }
}

impl From<Settings> for Draft {
    fn from(settings: Settings) -> Self {
        Self {
            settings,
            origins: BTreeMap::new(),
            needs_urls: false,
        }
    }
}

impl Draft {
    /// Applies the settings of a file.
    pub(crate) fn toml(&mut self, text: &str, name: &str) -> Result<(), ConfigError> {
        let place = |offset: usize| {
            let before = text.bytes().take(offset);
            Place::File {
                name: name.to_owned(),
                line: 1 + before.filter(|byte| *byte == b'\n').count(),
            }
        };
        // The parser's own `Display` quotes the line, which may hold a password. Its message does
        // not quote it.
        let root = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: place(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        for (section, table) in root.get_ref() {
            let at = place(section.span().start);
            let section = section.get_ref().as_ref();
            if !self.sections().any(|known| known == section) {
                return Err(self.unknown_section(section, at));
            }
            let DeValue::Table(table) = table.get_ref() else {
                let value = format!("({})", table.get_ref().type_str());
                let expected = format!("a section: [{section}]");
                return Err(ConfigError::Value {
                    place: at,
                    key: section.to_owned(),
                    value,
                    expected,
                });
            };
            for (key, value) in table {
                let at = place(key.span().start);
                self.set(
                    section,
                    key.get_ref().as_ref(),
                    &Raw::Toml(value.get_ref()),
                    at,
                )?;
            }
        }
        Ok(())
    }

    /// Applies the settings of variables.
    pub(crate) fn variables<K, V>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), ConfigError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        for (name, value) in variables {
            let name = name.as_ref();
            if !name.starts_with(VARIABLES) {
                continue;
            }
            let known = self
                .keys()
                .into_iter()
                .find(|(section, key)| variable(section, key) == name);
            let Some((section, key)) = known else {
                return Err(self.unknown_variable(name));
            };
            self.set(
                section,
                key,
                &Raw::Variable(value.as_ref()),
                Place::Variable(name.to_owned()),
            )?;
        }
        Ok(())
    }

    /// The settings, once they are complete and valid.
    pub(crate) fn finish(self) -> Result<Settings, ConfigError> {
        for (section, name) in REQUIRED {
            let key = format!("{section}.{name}");
            if self.needs_urls && !self.origins.contains_key(&key) {
                return Err(ConfigError::Missing {
                    key,
                    variable: variable(section, name),
                });
            }
        }
        self.settings
            .validate()
            .map_err(|error| error.placed(|key| self.origins.get(key).cloned()))?;
        Ok(self.settings)
    }

    fn set(
        &mut self,
        section: &str,
        key: &str,
        raw: &Raw<'_>,
        place: Place,
    ) -> Result<(), ConfigError> {
        let path = format!("{section}.{key}");
        let entries = self
            .settings
            .sections()
            .into_iter()
            .filter(|(name, _)| *name == section)
            .flat_map(|(_, entries)| entries);
        let put = entries
            .filter(|entry| entry.key == key)
            .map(|mut entry| entry.slot.put(raw))
            .next();
        match put {
            Some(Ok(())) => {
                self.origins.insert(path, place);
                Ok(())
            }
            Some(Err(Refused { value, expected })) => Err(ConfigError::Value {
                place,
                key: path,
                value,
                expected,
            }),
            None => Err(self.unknown_key(section, key, place)),
        }
    }

    fn sections(&mut self) -> impl Iterator<Item = &'static str> {
        self.settings.sections().map(|(name, _)| name).into_iter()
    }

    /// Every section and key.
    fn keys(&mut self) -> Vec<(&'static str, &'static str)> {
        let sections = self.settings.sections().into_iter();
        sections
            .flat_map(|(section, entries)| {
                entries.into_iter().map(move |entry| (section, entry.key))
            })
            .collect()
    }

    fn unknown_section(&mut self, section: &str, place: Place) -> ConfigError {
        let known: Vec<_> = self.sections().map(str::to_owned).collect();
        let hint = did_you_mean(section, &known)
            .unwrap_or_else(|| format!("there are {}", known.join(", ")));
        ConfigError::Unknown {
            place,
            what: format!("section {section}"),
            hint,
        }
    }

    fn unknown_key(&mut self, section: &str, key: &str, place: Place) -> ConfigError {
        let keys = self.keys();
        let all: Vec<_> = keys
            .iter()
            .map(|(section, key)| format!("{section}.{key}"))
            .collect();
        let elsewhere = keys
            .iter()
            .find(|known| known.1 == key)
            .map(|(section, key)| format!("did you mean {section}.{key}?"));
        let hint = elsewhere
            .or_else(|| did_you_mean(&format!("{section}.{key}"), &all))
            .unwrap_or_else(|| {
                let own: Vec<_> = keys
                    .iter()
                    .filter(|known| known.0 == section)
                    .map(|known| known.1)
                    .collect();
                format!("{section} has {}", own.join(", "))
            });
        ConfigError::Unknown {
            place,
            what: format!("key {section}.{key}"),
            hint,
        }
    }

    fn unknown_variable(&mut self, name: &str) -> ConfigError {
        let all: Vec<_> = self
            .keys()
            .into_iter()
            .map(|(section, key)| variable(section, key))
            .collect();
        let hint = did_you_mean(name, &all).unwrap_or_else(|| {
            "the name is STORAGE__SECTION__KEY, such as STORAGE__REDIS__URL".to_owned()
        });
        ConfigError::Unknown {
            place: Place::Variable(name.to_owned()),
            what: format!("variable {name}"),
            hint,
        }
    }
}

/// The variable that overrides a key.
fn variable(section: &str, key: &str) -> String {
    format!(
        "{VARIABLES}{}__{}",
        section.to_uppercase(),
        key.to_uppercase()
    )
}

/// A hint at the nearest known name, unless none is near.
fn did_you_mean(name: &str, known: &[String]) -> Option<String> {
    const FAR: usize = 4;
    let distance = |known: &String| strsim::osa_distance(name, known);
    let nearest = known
        .iter()
        .min_by_key(|known| distance(known))
        .filter(|known| distance(known) < FAR)?;
    Some(format!("did you mean {nearest}?"))
}
