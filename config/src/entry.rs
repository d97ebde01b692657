//! The table of a section: its keys, their targets and their rules.
//!
//! One table serves the file, the environment, the validation and the hints of messages. So they
//! can't differ.

use std::fmt::Display;

use crate::error::{ConfigError, Place};
use crate::value::{Raw, Unread, Value};

/// A section lists its keys. Every public field is listed. A test compares the list with the
/// commented settings file.
pub(crate) trait Section {
    /// The keys in the order of the fields.
    fn entries(&mut self) -> Vec<Entry<'_>>;
}

/// One key.
pub(crate) struct Entry<'a> {
    /// Its name inside the section.
    pub(crate) key: &'static str,
    /// Its value.
    pub(crate) slot: Box<dyn Slot + 'a>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new<T: Value>(key: &'static str, target: &'a mut T, rule: Rule<T>) -> Self {
        Self {
            key,
            slot: Box::new(Checked { target, rule }),
        }
    }
}

/// A rejected value.
pub(crate) struct Refused {
    /// The value as it was written, passwords hidden.
    pub(crate) value: String,
    /// The allowed values.
    pub(crate) expected: String,
}

/// Checks each value of a section alone.
pub(crate) fn check(section: &str, entries: Vec<Entry<'_>>) -> Result<(), ConfigError> {
    for entry in entries {
        entry.slot.check().map_err(|refused| ConfigError::Value {
            place: Place::Program,
            key: format!("{section}.{}", entry.key),
            value: refused.value,
            expected: refused.expected,
        })?;
    }
    Ok(())
}

/// Checks a rule between two values.
pub(crate) fn ensure(
    holds: bool,
    key: &str,
    value: &impl Display,
    expected: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value {
        place: Place::Program,
        key: key.to_owned(),
        value: value.to_string(),
        expected: expected(),
    })
}

/// A place for a value of any type.
pub(crate) trait Slot {
    /// Reads a value and keeps it if it is allowed.
    fn put(&mut self, raw: &Raw<'_>) -> Result<(), Refused>;

    /// Checks the value that is there.
    fn check(&self) -> Result<(), Refused>;
}

/// The allowed values of a setting.
pub(crate) struct Rule<T> {
    allows: Box<dyn Fn(&T) -> bool>,
    expected: String,
}

/// Values from `min` to `max`, both included.
pub(crate) fn between<T: Value + PartialOrd + 'static>(min: T, max: T) -> Rule<T> {
    let expected = format!("{} from {} to {}", T::KIND, min.show(), max.show());
    Rule {
        allows: Box::new(move |value| (&min..=&max).contains(&value)),
        expected,
    }
}

/// Any value of the type.
pub(crate) fn any<T: Value + 'static>(expected: &str) -> Rule<T> {
    matching(expected, |_| true)
}

/// Values that `allows` accepts.
pub(crate) fn matching<T: 'static>(expected: &str, allows: fn(&T) -> bool) -> Rule<T> {
    Rule {
        allows: Box::new(allows),
        expected: expected.to_owned(),
    }
}

struct Checked<'a, T> {
    target: &'a mut T,
    rule: Rule<T>,
}

impl<T: Value> Slot for Checked<'_, T> {
    fn put(&mut self, raw: &Raw<'_>) -> Result<(), Refused> {
        let refused = |expected: &str| Refused {
            value: raw.show(T::redact),
            expected: expected.to_owned(),
        };
        match T::read(raw) {
            Ok(value) if (self.rule.allows)(&value) => {
                *self.target = value;
                Ok(())
            }
            Ok(_) | Err(Unread::Other) => Err(refused(&self.rule.expected)),
            Err(Unread::Because(expected)) => Err(refused(&expected)),
        }
    }

    fn check(&self) -> Result<(), Refused> {
        if (self.rule.allows)(self.target) {
            return Ok(());
        }
        Err(Refused {
            value: self.target.show(),
            expected: self.rule.expected.clone(),
        })
    }
}
