//! Settings while they are read: their values, and where each was set.

use std::borrow::Cow;
use std::collections::BTreeMap;

use storage_model::{NoSinkName, SinkName};
use toml::de::{DeTable, DeValue};

use crate::cold_url::ColdUrl;
use crate::entry::Refused;
use crate::error::{ConfigError, Place};
use crate::hot_url::HotUrl;
use crate::settings::{SINKS, Settings};
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
            if section == SINKS {
                for (name, sink) in table_of(section, "NAME", table.get_ref(), at)? {
                    let at = place(name.span().start);
                    let section = self.sink(name.get_ref(), at.clone())?;
                    self.section(&section, sink.get_ref(), at, place)?;
                }
            } else if self.sections().iter().any(|known| known == section) {
                self.section(section, table.get_ref(), at, place)?;
            } else {
                return Err(self.unknown_section(section, at));
            }
        }
        Ok(())
    }

    /// Applies the settings of one section of a file.
    fn section(
        &mut self,
        section: &str,
        table: &DeValue<'_>,
        at: Place,
        place: impl Fn(usize) -> Place,
    ) -> Result<(), ConfigError> {
        for (key, value) in table_of(section, "", table, at)? {
            let at = place(key.span().start);
            let raw = Raw::Toml(value.get_ref());
            self.set(section, key.get_ref().as_ref(), &raw, at)?;
        }
        Ok(())
    }

    /// The section of a sink, which begins with the defaults.
    fn sink(&mut self, name: &str, at: Place) -> Result<String, ConfigError> {
        let known: Result<SinkName, NoSinkName> = name.parse();
        let known = known.map_err(|_| ConfigError::Unknown {
            place: at,
            what: format!("section {SINKS}.{name}"),
            hint: "a sink's name has 1 to 32 of a to z, 0 to 9 and single _, a letter first"
                .to_owned(),
        })?;
        let section = format!("{SINKS}.{known}");
        self.settings.sinks.entry(known).or_default();
        Ok(section)
    }

    /// The section of the sink that a variable names, if it names one.
    fn sink_of_variable(&mut self, name: &str) {
        let rest = name.strip_prefix(VARIABLES);
        let rest = rest.and_then(|rest| rest.strip_prefix("SINKS__"));
        let Some((sink, _)) = rest.and_then(|rest| rest.rsplit_once("__")) else {
            return;
        };
        if sink == sink.to_uppercase()
            && let Ok(sink) = sink.to_lowercase().parse()
        {
            self.settings.sinks.entry(sink).or_default();
        }
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
            if name.starts_with(VARIABLES) {
                self.variable(name, value.as_ref(), name)?;
            }
        }
        Ok(())
    }

    /// Applies the value of the variable `name`, which the variable `origin` gave.
    pub(crate) fn variable(
        &mut self,
        name: &str,
        value: &str,
        origin: &str,
    ) -> Result<(), ConfigError> {
        self.sink_of_variable(name);
        let Some((section, key)) = self.key_of_variable(name) else {
            return Err(self.unknown_variable(origin));
        };
        let place = Place::Variable(origin.to_owned());
        self.set(&section, key, &Raw::Variable(value), place)
    }

    /// The variable whose value stands in a file, if `name` names the file.
    pub(crate) fn variable_of_file(&mut self, name: &str) -> Option<String> {
        let plain = name.strip_suffix("_FILE")?;
        self.sink_of_variable(name);
        if self.key_of_variable(name).is_some() {
            return None;
        }
        self.key_of_variable(plain).map(|_| plain.to_owned())
    }

    fn key_of_variable(&mut self, name: &str) -> Option<(Cow<'static, str>, &'static str)> {
        let mut keys = self.keys().into_iter();
        keys.find(|(section, key)| variable(section, key) == name)
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

    fn sections(&mut self) -> Vec<Cow<'static, str>> {
        let sections = self.settings.sections().into_iter();
        sections.map(|(name, _)| name).collect()
    }

    /// Every section and key.
    fn keys(&mut self) -> Vec<(Cow<'static, str>, &'static str)> {
        let sections = self.settings.sections().into_iter();
        sections
            .flat_map(|(section, entries)| {
                let entries = entries.into_iter();
                entries.map(move |entry| (section.clone(), entry.key))
            })
            .collect()
    }

    fn unknown_section(&mut self, section: &str, place: Place) -> ConfigError {
        let mut known: Vec<String> = self.sections().into_iter().map(Cow::into_owned).collect();
        known.retain(|section| !section.contains('.'));
        known.push(SINKS.to_owned());
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
            .map(|(section, key)| variable(&section, key))
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

/// The keys of a section. `inner` names its own sections.
fn table_of<'a, 'b>(
    section: &str,
    inner: &str,
    value: &'a DeValue<'b>,
    place: Place,
) -> Result<&'a DeTable<'b>, ConfigError> {
    if let DeValue::Table(table) = value {
        return Ok(table);
    }
    let dot = if inner.is_empty() { "" } else { "." };
    Err(ConfigError::Value {
        place,
        key: section.to_owned(),
        value: format!("({})", value.type_str()),
        expected: format!("a section: [{section}{dot}{inner}]"),
    })
}

/// The variable that overrides a key.
fn variable(section: &str, key: &str) -> String {
    format!(
        "{VARIABLES}{}__{}",
        section.to_uppercase().replace('.', "__"),
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
