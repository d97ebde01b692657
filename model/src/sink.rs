//! The names of sinks.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The most bytes of a sink's name.
const BYTES_MAX: usize = 32;

/// The name of a sink: 1 to 32 of a to z, 0 to 9 and single `_`, a letter first.
///
/// The name is in the settings, in variables, in the database and in logs. So each of them can
/// spell it, and no two names differ by case alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct SinkName(String);

impl SinkName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that is no name of a sink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a sink; a name has 1 to 32 of a to z, 0 to 9 and single _, a letter first"
)]
pub struct NoSinkName(String);

impl TryFrom<String> for SinkName {
    type Error = NoSinkName;

    fn try_from(text: String) -> Result<Self, NoSinkName> {
        text.parse()
    }
}

impl FromStr for SinkName {
    type Err = NoSinkName;

    fn from_str(text: &str) -> Result<Self, NoSinkName> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = text.starts_with(|letter: char| letter.is_ascii_lowercase());
        let is_name = begins
            && text.len() <= BYTES_MAX
            && text.bytes().all(is_plain)
            && !text.contains("__")
            && !text.ends_with('_');
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoSinkName(text.chars().take(40).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_lower_case_and_plain() {
        for text in ["a", "audit_log", "s3", &"x".repeat(32)] {
            assert_eq!(text.parse::<SinkName>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "A",
            "3s",
            "_a",
            "a_",
            "a__b",
            "a-b",
            "ä",
            &"x".repeat(33),
        ] {
            assert!(text.parse::<SinkName>().is_err(), "{text:?}");
        }
    }
}
