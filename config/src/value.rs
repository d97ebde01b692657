//! How a setting of each type is read from a file or a variable, and how it is shown.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use crate::secret::{HIDDEN, Secret};
use crate::url;

/// A value as it was written.
pub(crate) enum Raw<'a> {
    /// In a file, with its type.
    Toml(&'a DeValue<'a>),
    /// In a variable, as text.
    Variable(&'a str),
}

impl Raw<'_> {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Variable(text) => Some(text),
        }
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Self::Toml(value) => value
                .as_integer()
                .and_then(|i| i64::from_str_radix(i.as_str(), i.radix()).ok()),
            Self::Variable(text) => text.parse().ok(),
        }
    }

    fn switch(&self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Variable(text) => text.parse().ok(),
        }
    }

    /// The value for a message. `redact` hides secrets.
    pub(crate) fn show(&self, redact: fn(&str) -> String) -> String {
        let redact = |text: &str| redact(&url::without_password(text));
        match self {
            Self::Variable(text) => redact(text),
            Self::Toml(DeValue::String(text)) => format!("{:?}", redact(text)),
            Self::Toml(DeValue::Integer(number)) => redact(number.as_str()),
            Self::Toml(DeValue::Float(number)) => redact(number.as_str()),
            Self::Toml(DeValue::Boolean(switch)) => redact(&switch.to_string()),
            Self::Toml(other) => format!("({})", other.type_str()),
        }
    }
}

/// Why a value was not read.
pub(crate) enum Unread {
    /// It is none of the values that its rule names.
    Other,
    /// It is wrong in a particular way. The text names the expected form.
    Because(String),
}

/// A type of settings.
pub(crate) trait Value: Sized {
    /// The name of its values, such as "an integer".
    const KIND: &'static str;

    /// Reads a value.
    fn read(raw: &Raw<'_>) -> Result<Self, Unread>;

    /// Shows a value as a settings file would have it, passwords hidden.
    fn show(&self) -> String;

    /// Hides the secret part of an invalid text.
    fn redact(text: &str) -> String;
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const KIND: &'static str = "an integer";

            fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
                raw.integer().and_then(|number| Self::try_from(number).ok()).ok_or(Unread::Other)
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn redact(text: &str) -> String {
                text.to_owned()
            }
        }
    )+};
}
integers!(u32, usize);

impl Value for bool {
    const KIND: &'static str = "true or false";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        raw.switch().ok_or(Unread::Other)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

impl Value for Duration {
    const KIND: &'static str = "a duration such as \"500ms\", \"10s\", \"5min\" or \"1h\",";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        raw.text()
            .and_then(|text| humantime::parse_duration(text).ok())
            .ok_or(Unread::Other)
    }

    fn show(&self) -> String {
        format!("\"{}\"", humantime::format_duration(*self))
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

impl Value for String {
    const KIND: &'static str = "text";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        raw.text().map(str::to_owned).ok_or(Unread::Other)
    }

    fn show(&self) -> String {
        format!("{:?}", url::without_password(self))
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "a path";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        String::read(raw).map(Self::from)
    }

    fn show(&self) -> String {
        format!("{:?}", url::without_password(&self.to_string_lossy()))
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

impl Value for Secret {
    const KIND: &'static str = "text";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        String::read(raw).map(Self::new)
    }

    fn show(&self) -> String {
        format!("{HIDDEN:?}")
    }

    fn redact(_: &str) -> String {
        HIDDEN.to_owned()
    }
}

/// An optional setting. An empty text means none.
impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        match raw.text() {
            Some("") => Ok(None),
            _ => T::read(raw).map(Some),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "\"\"".to_owned(), T::show)
    }

    fn redact(text: &str) -> String {
        T::redact(text)
    }
}
