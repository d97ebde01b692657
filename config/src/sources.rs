//! Settings while they are read: the values of all sources, and where each was set.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::check;
use crate::error::{ConfigError, Place, other, refused};
use crate::keys::{self, SECTIONS, SINKS};
use crate::rule::Rule;
use crate::settings::Settings;

/// The values of all sources. Later sources override earlier ones.
#[derive(Default)]
pub(crate) struct Sources {
    /// The values of each section, such as `redis` and `sinks.audit`.
    sections: BTreeMap<String, Table>,
    /// The place where each key was set last.
    origins: BTreeMap<String, Place>,
}

impl Sources {
    /// Adds the settings of a file.
    pub(crate) fn file(&mut self, text: &str, name: &str) -> Result<(), ConfigError> {
        let line = |offset| Place::File {
            name: name.to_owned(),
            line: 1 + text.get(..offset).unwrap_or_default().matches('\n').count(),
        };
        // The parser's own `Display` quotes the line, which may hold a password. Its message does
        // not quote it.
        let root = DeTable::parse(text).map_err(|error| {
            let place = line(error.span().map_or(0, |span| span.start));
            other(place, format!("not TOML: {}", error.message()))
        })?;
        self.tables("", root.into_inner(), &line)
    }

    /// Adds all sections of a file, or those of its sinks.
    fn tables(
        &mut self,
        within: &str,
        sections: DeTable<'_>,
        line: &dyn Fn(usize) -> Place,
    ) -> Result<(), ConfigError> {
        for (name, values) in sections {
            let place = line(name.span().start);
            let section = format!("{within}{}", name.get_ref());
            if !keys::is_section(&section) {
                return Err(keys::unknown_section(&section, place));
            }
            match values.into_inner() {
                DeValue::Table(sinks) if section == SINKS => self.tables("sinks.", sinks, line)?,
                DeValue::Table(values) => self.table(&section, values, line)?,
                other => {
                    let header = if section == SINKS {
                        "sinks.NAME"
                    } else {
                        &section
                    };
                    let (value, expected) = (other.type_str(), format!("a section: [{header}]"));
                    return Err(refused(place, &section, format!("({value})"), expected));
                }
            }
        }
        Ok(())
    }

    /// Adds a section of a file.
    fn table(
        &mut self,
        section: &str,
        values: DeTable<'_>,
        line: &dyn Fn(usize) -> Place,
    ) -> Result<(), ConfigError> {
        self.sections.entry(section.to_owned()).or_default();
        for (name, value) in values {
            let (place, name) = (line(name.span().start), name.get_ref());
            let Some(rule) = keys::rule(section, name) else {
                return Err(keys::unknown_key(section, name, place));
            };
            // An integer that no type holds stays text.
            let digits = value.get_ref().as_integer().map(ToString::to_string);
            let value = Value::deserialize(value.into_deserializer())
                .unwrap_or_else(|_| Value::String(digits.unwrap_or_default()));
            self.set(section, name, rule, value, place);
        }
        Ok(())
    }

    /// Adds the value of the variable `name`, which the variable `origin` gave.
    pub(crate) fn variable(
        &mut self,
        name: &str,
        text: &str,
        origin: &str,
    ) -> Result<(), ConfigError> {
        let known = keys::of_variable(name);
        let (section, key, rule) = known.ok_or_else(|| keys::unknown_variable(origin))?;
        let place = Place::Variable(origin.to_owned());
        self.set(&section, &key, rule, rule.typed(text), place);
        Ok(())
    }

    fn set(&mut self, section: &str, name: &str, rule: &Rule, value: Value, place: Place) {
        self.origins.insert(format!("{section}.{name}"), place);
        let values = self.sections.entry(section.to_owned()).or_default();
        if rule.is_open(&value) {
            values.remove(name);
        } else {
            values.insert(name.to_owned(), value);
        }
    }

    /// The settings, once they are complete and valid.
    pub(crate) fn settings(mut self) -> Result<Settings, ConfigError> {
        for (section, _) in SECTIONS {
            self.sections.entry(section.to_owned()).or_default();
        }
        self.checked().map_err(|error| error.placed(&self.origins))
    }

    fn checked(&self) -> Result<Settings, ConfigError> {
        let (mut all, mut sinks) = (Table::new(), Table::new());
        for (section, values) in &self.sections {
            check::values(section, values)?;
            check::required(section, values)?;
            match section.strip_prefix("sinks.") {
                Some(name) => sinks.insert(name.to_owned(), values.clone().into()),
                None => all.insert(section.clone(), values.clone().into()),
            };
        }
        all.insert(SINKS.to_owned(), sinks.into());
        // The rules allow only what the fields take.
        let settings: Settings = all.try_into().map_err(|error: toml::de::Error| {
            let expected = error.message().to_owned();
            refused(Place::Program, "settings", "(table)".to_owned(), expected)
        })?;
        settings.validate()?;
        Ok(settings)
    }
}
