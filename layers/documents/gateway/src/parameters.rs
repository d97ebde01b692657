//! The parameters of a request: the path of its resource, and `?name=value&…`.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use storage_documents::Prefixes;
use storage_sdk::feed::{Cursor, Position};

use crate::problem::{self, Problem};

/// The most parameters of a query. No resource knows as many, and a feed takes 32 prefixes.
const PARAMETERS_MAX: usize = 64;
/// The name of a prefix of paths.
const PREFIX: &str = "prefix";

/// The part of a URL that names a resource.
#[derive(Debug)]
pub struct PathText(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathText {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let refused = |_| Problem::new(problem::PATH, "the path is no UTF-8");
        path.map(|Path(text)| Self(text)).map_err(refused)
    }
}

/// The parameters that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the query part of a URL. A plus sign is a space.
    ///
    /// # Errors
    /// `request`: a name or a value is no UTF-8, or a name occurs twice.
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        Self::parse_but(query, None)
    }

    /// As [`Parameters::parse`], of a feed: the name `prefix` may occur several times.
    pub(crate) fn with_prefixes(query: Option<&str>) -> Result<Self, Problem> {
        Self::parse_but(query, Some(PREFIX))
    }

    fn parse_but(query: Option<&str>, repeated: Option<&str>) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        let pairs = query.unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            if parameters.len() >= PARAMETERS_MAX {
                let message = format!("the query has more than {PARAMETERS_MAX} parameters");
                return Err(Problem::new(problem::REQUEST, message));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            let is_known = parameters.iter().any(|(known, _)| *known == name);
            if is_known && repeated != Some(name.as_str()) {
                let message = format!("the parameter {name:?} occurs twice; send it once");
                return Err(Problem::new(problem::REQUEST, message));
            }
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// Takes the first of these names that is there. The others are older names of the parameter.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<String> {
        let place = self
            .0
            .iter()
            .position(|(name, _)| names.contains(&name.as_str()))?;
        Some(self.0.remove(place).1)
    }

    /// Takes all prefixes. Without any, all paths are meant.
    ///
    /// # Errors
    /// `query`: there are too many.
    pub(crate) fn prefixes(&mut self) -> Result<Prefixes, Problem> {
        let all = std::mem::take(&mut self.0).into_iter();
        let (given, rest) = all.partition(|(name, _)| name == PREFIX);
        self.0 = rest;
        let given: Vec<(String, String)> = given;
        Ok(Prefixes::new(given.into_iter().map(|(_, value)| value))?)
    }

    /// Takes a number.
    ///
    /// # Errors
    /// `request`: the value is no number.
    pub(crate) fn number(&mut self, names: &[&str]) -> Result<Option<usize>, Problem> {
        let Some(value) = self.take(names) else {
            return Ok(None);
        };
        let number = value.parse();
        let name = names.first().copied().unwrap_or_default();
        let refused = |_| {
            let message = format!("the parameter {name} is {value:?}; send a whole number");
            Problem::new(problem::REQUEST, message)
        };
        number.map(Some).map_err(refused)
    }

    /// No parameter may be left.
    ///
    /// # Errors
    /// `request` names the first one that is left, and those that can be used.
    pub(crate) fn finish(self, known: &str) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("the parameter {name:?} is not known: {known}");
                Err(Problem::new(problem::REQUEST, message))
            }
        }
    }
}

/// The greatest epoch and the greatest number of a place in the feed: numbers of Redis are exact up
/// to it.
const PLACE_MAX: u64 = (1 << 53) - 1;

/// Whether the feed can ever have this place.
pub(crate) fn is_place(place: Position) -> bool {
    place.epoch.0 <= PLACE_MAX && place.number <= PLACE_MAX
}

/// A cursor as the feed gave it, and in no other spelling.
pub(crate) fn cursor(text: &str) -> Option<Cursor> {
    let cursor: Cursor = text.parse().ok()?;
    let mut places = cursor.positions();
    let is_given = cursor.to_string() == text && places.all(|(_, place)| is_place(place));
    is_given.then(|| cursor.clone())
}

fn decoded(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded =
        decoded.map_err(|_| Problem::new(problem::REQUEST, format!("{text:?} is no UTF-8")))?;
    Ok(decoded.into_owned())
}
