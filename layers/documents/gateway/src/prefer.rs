//! The preferences of a request (RFC 7240).

use axum::http::{HeaderMap, HeaderName};

use crate::problem::{self, Problem};

/// The header of preferences.
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The header of preferences that were followed.
pub(crate) const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The preferences of a request, with their values. Those that nobody knows say nothing.
#[derive(Debug, Default)]
pub(crate) struct Preferences(Vec<(String, String)>);

/// What a write answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Return {
    /// No body.
    Minimal,
    /// The document as the write left it.
    Representation,
}

impl Preferences {
    /// Reads all lines of the header.
    ///
    /// # Errors
    /// `request`: a line is no text.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut preferences = Vec::new();
        for line in headers.get_all(PREFER) {
            let no_text = |_| Problem::new(problem::REQUEST, format!("{PREFER} is no text"));
            let line = line.to_str().map_err(no_text)?;
            preferences.extend(line.split([',', ';']).map(of_text));
        }
        Ok(Self(preferences))
    }

    /// The value of a preference. The first one counts.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut known = self.0.iter();
        let found = known.find(|(of, _)| of.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// What a write answers with, if the caller prefers something.
    pub(crate) fn answer(&self) -> Option<Return> {
        match self.get("return")? {
            "minimal" => Some(Return::Minimal),
            "representation" => Some(Return::Representation),
            _ => None,
        }
    }
}

/// A name and its value.
fn of_text(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let value = value.trim().trim_matches('"');
    (name.trim().to_owned(), value.to_owned())
}
