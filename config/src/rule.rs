//! The allowed values of a key: how they are described, read and checked.

use std::str::FromStr;
use std::time::Duration;

use toml::{Table, Value};

use crate::secret::HIDDEN;
use crate::url::{UrlError, redact, without_password};

/// The allowed values of a key, for files, variables, programs and messages.
pub(crate) enum Rule {
    /// An integer between two bounds. The bounds are allowed.
    Number(i64, i64),
    /// A duration between two bounds. The bounds are allowed.
    Time(&'static str, &'static str),
    /// `true` or `false`.
    Switch,
    /// Text: its description, and whether a text is allowed.
    Text(&'static str, fn(&str) -> bool),
    /// The same, but no message shows the text.
    Secret(&'static str, fn(&str) -> bool),
    /// A URL: its forms, and the fault of a text.
    Url(&'static str, fn(&str) -> Option<UrlError>),
    /// A table or an array: its description, and whether it is allowed. A variable has it as text.
    Nested(&'static str, fn(&Value) -> bool),
    /// A key that may be open. In files and variables, an empty text leaves it open.
    Optional(&'static Rule),
}

/// The keys of a section and their rules.
pub(crate) type Rules = &'static [(&'static str, Rule)];

/// A login's password.
pub(crate) const PASSWORD: Rule = Rule::Optional(&Rule::Secret("text", |_| true));
/// A file with certificates or a key.
pub(crate) const PEM_FILE: Rule = Rule::Optional(&Rule::Text(
    "the path of a PEM file, or \"\" for none",
    |_| true,
));
/// The name of a process.
pub(crate) const PROCESS: Rule = Rule::Optional(&Rule::Text(
    "1 to 64 bytes without control characters, or \"\" for host and process id",
    is_name,
));

impl Rule {
    /// The allowed values, for messages.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Number(min, max) => format!("an integer from {min} to {max}"),
            Self::Time(min, max) => format!(
                "a duration such as \"500ms\", \"10s\", \"5min\" or \"1h\", from {min:?} to {max:?}"
            ),
            Self::Switch => "true or false".to_owned(),
            Self::Text(text, _)
            | Self::Secret(text, _)
            | Self::Url(text, _)
            | Self::Nested(text, _) => (*text).to_owned(),
            Self::Optional(rule) => rule.expected(),
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The expected values.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let text = value.as_str();
        let holds = match self {
            Self::Number(min, max) => value
                .as_integer()
                .is_some_and(|n| (*min..=*max).contains(&n)),
            Self::Time(min, max) => text.and_then(time).is_some_and(|value| {
                time(min).is_some_and(|min| min <= value)
                    && time(max).is_some_and(|max| value <= max)
            }),
            Self::Switch => value.is_bool(),
            Self::Text(_, allows) | Self::Secret(_, allows) => text.is_some_and(allows),
            Self::Url(_, fault) => match text.map(fault) {
                Some(Some(fault)) => return Err(fault.expected),
                fault => fault.is_some(),
            },
            Self::Nested(_, allows) => allows(value),
            Self::Optional(rule) => return rule.check(value),
        };
        holds.then_some(()).ok_or_else(|| self.expected())
    }

    /// The value of a variable. Its key gives the type. Text that is not of this type stays text.
    pub(crate) fn typed(&self, text: &str) -> Value {
        let typed = match self {
            Self::Number(..) => text.parse().ok().map(Value::Integer),
            Self::Switch => text.parse().ok().map(Value::Boolean),
            Self::Nested(..) => nested(text),
            _ => None,
        };
        typed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Whether this value leaves the key open.
    pub(crate) fn is_open(&self, value: &Value) -> bool {
        matches!(self, Self::Optional(_)) && value.as_str() == Some("")
    }

    /// A value in the syntax of a file, without its secrets.
    pub(crate) fn shown(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Optional(rule), _) => rule.shown(value),
            (Self::Secret(..), _) => format!("{HIDDEN:?}"),
            (Self::Url(..), Value::String(text)) => format!("{:?}", redact(text)),
            (Self::Nested(..), Value::Table(table)) => {
                let pair = |(key, value): (&String, &Value)| format!("{key:?} = {}", shown(value));
                let pairs: Vec<_> = table.iter().map(pair).collect();
                format!("{{ {} }}", pairs.join(", "))
            }
            _ => shown(value),
        }
    }
}

/// A value in the syntax of a file. A URL may stand under any key by mistake, so it lacks its
/// password.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", without_password(text)),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(switch) => switch.to_string(),
        // A table may hold a secret.
        Value::Table(_) | Value::Array(_) | Value::Datetime(_) => format!("({})", value.type_str()),
    }
}

/// A table or an array in the syntax of a file.
fn nested(text: &str) -> Option<Value> {
    let mut table: Table = format!("value = {text}").parse().ok()?;
    let value = table.remove("value")?;
    table.is_empty().then_some(value)
}

/// A duration such as `5min`.
pub(crate) fn time(text: &str) -> Option<Duration> {
    storage_model::parse_duration(text).ok()
}

/// The fault of a text that is no URL of this type.
pub(crate) fn fault<T: FromStr<Err = UrlError>>(text: &str) -> Option<UrlError> {
    text.parse::<T>().err()
}

/// Whether a text is 1 to 64 bytes without control characters.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && !text.chars().any(char::is_control)
}
