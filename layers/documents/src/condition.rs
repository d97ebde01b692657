//! Entity tags and conditional requests (RFC 9110, section 13).

use std::fmt;

use storage_sdk::Version;

use crate::{Error, Kind, Result};

/// The entity tag of a document: its version, which no other content of the path ever had.
///
/// A revision would not do. After Redis came back older, other content can get the same revision.
///
/// ```
/// use storage_documents::Tag;
/// use storage_sdk::Version;
/// let tag = Tag::of(Version::new(1_700_000_000_000_000).unwrap());
/// assert_eq!(tag.to_string(), "\"gqll7vatq8\"");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(Version);

/// The form of a list, which is a part of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Documents, and lists as arrays.
    Plain,
    /// Lists with links.
    Links,
}

const DIGITS: u64 = 36;
/// What the tag of a list with links ends in.
const WITH_LINKS: &str = "-hal";

impl Tag {
    /// The tag of a version.
    #[must_use]
    pub fn of(version: Version) -> Self {
        Self(version)
    }

    /// The tag of a form, in quotes.
    #[must_use]
    pub fn in_form(self, form: Form) -> String {
        let tag = self.to_string();
        match form {
            Form::Plain => tag,
            Form::Links => format!("\"{}{WITH_LINKS}\"", tag.trim_matches('"')),
        }
    }

    /// Reads an opaque tag, without quotes. `None` if no document ever has this tag.
    fn parse(text: &str) -> Option<(Self, Form)> {
        // A proxy that compresses marks the tag.
        let text = text.strip_suffix("-gzip").unwrap_or(text);
        let (text, form) = match text.strip_suffix(WITH_LINKS) {
            Some(text) => (text, Form::Links),
            None => (text, Form::Plain),
        };
        let digits = text
            .bytes()
            .all(|c| c.is_ascii_digit() || c.is_ascii_lowercase());
        let number = digits.then(|| u64::from_str_radix(text, 36).ok())??;
        Version::new(number).map(|version| (Self(version), form))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut digits) = (self.0.get(), Vec::new());
        while rest > 0 || digits.is_empty() {
            let digit = u32::try_from(rest % DIGITS).unwrap_or_default();
            digits.extend(char::from_digit(digit, 36));
            rest /= DIGITS;
        }
        write!(f, "\"{}\"", digits.iter().rev().collect::<String>())
    }
}

/// The tags of one header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any document.
    Any,
    /// One of these, each of a form. Tags that no document has are left out.
    Some(Vec<(Tag, Form)>),
}

impl Tags {
    /// Reads the value of `If-Match` or `If-None-Match`: `*`, or quoted tags with commas between
    /// them. A weak tag counts as a strong one, since proxies weaken tags on their way.
    ///
    /// # Errors
    /// `Tags`: the text is neither.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        let (mut tags, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (tag, behind) = quoted(rest).ok_or_else(|| malformed(text))?;
            tags.extend(Tag::parse(tag));
            rest = behind;
        }
        if text.is_empty() {
            return Err(malformed(text));
        }
        Ok(Self::Some(tags))
    }

    /// The tags of one form alone. A writer takes those of each form, since all of them name the
    /// same state.
    #[must_use]
    pub fn of_form(self, form: Form) -> Self {
        match self {
            Self::Any => Self::Any,
            Self::Some(mut tags) => {
                tags.retain(|(_, of)| *of == form);
                Self::Some(tags)
            }
        }
    }

    fn matches(&self, present: Option<Tag>) -> bool {
        match (self, present) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Some(tags), Some(present)) => tags.iter().any(|(tag, _)| *tag == present),
        }
    }
}

/// The first tag of a list, and the rest of the list.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix("W/").unwrap_or(text);
    let (tag, rest) = text.strip_prefix('"')?.split_once('"')?;
    let rest = rest.trim_start();
    match rest.strip_prefix(',') {
        Some(next) if !next.trim_start().is_empty() => Some((tag, next.trim_start())),
        None if rest.is_empty() => Some((tag, "")),
        _ => None,
    }
}

fn malformed(text: &str) -> Error {
    let message =
        format!("{text:?} is no list of entity tags; send * or tags in quotes, such as \"abc\"");
    Error::new(Kind::Tags, message)
}

/// The conditions of a call. They are checked against the very state that the call changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`: the document has one of these tags.
    pub if_match: Option<Tags>,
    /// `If-None-Match`: the document has none of these tags. For a read this is [`Conditions::is_unchanged`].
    pub if_none_match: Option<Tags>,
}

impl Conditions {
    /// Fails unless a write may change the present document.
    ///
    /// # Errors
    /// `Condition`, with the present tag.
    pub fn check(&self, present: Option<Tag>) -> Result<()> {
        if self
            .if_match
            .as_ref()
            .is_some_and(|tags| !tags.matches(present))
        {
            return Err(failed("If-Match", present));
        }
        if self.is_unchanged(present) {
            return Err(failed("If-None-Match", present));
        }
        Ok(())
    }

    /// Whether a reader has the present document already.
    #[must_use]
    pub fn is_unchanged(&self, present: Option<Tag>) -> bool {
        self.if_none_match
            .as_ref()
            .is_some_and(|tags| tags.matches(present))
    }
}

fn failed(header: &str, present: Option<Tag>) -> Error {
    let state = match present {
        Some(tag) => format!("the document has the tag {tag}"),
        None => "there is no document".to_owned(),
    };
    let message = format!("{header} does not hold: {state}; read it and decide again");
    Error::new(Kind::Condition(present), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(version: u64) -> Tag {
        Tag::of(Version::new(version).unwrap())
    }

    #[test]
    fn tags_are_read_as_they_are_written() {
        for version in [0, 1, 35, 36, 1_700_000_000_000_000, Version::MAX.get()] {
            let text = tag(version).to_string();
            assert_eq!(
                Tags::parse(&text),
                Ok(Tags::Some(vec![(tag(version), Form::Plain)])),
                "{text}"
            );
        }
    }

    #[test]
    fn lists_weak_tags_and_tags_of_proxies() {
        let plain = |version| (tag(version), Form::Plain);
        let expected = Tags::Some(vec![plain(36), plain(1)]);
        for text in [
            r#""10","1""#,
            r#" W/"10" , "1-gzip" "#,
            r#""10", "unknown!", "1""#,
        ] {
            assert_eq!(Tags::parse(text), Ok(expected.clone()), "{text}");
        }
        assert_eq!(Tags::parse(" * "), Ok(Tags::Any));
        for wrong in ["", "abc", r#""abc"#, r#""a" "b""#, r#""a","#, r#"*,"a""#] {
            assert!(Tags::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_of_writes() {
        let one = Tags::Some(vec![(tag(1), Form::Plain)]);
        let (any, one) = (Some(Tags::Any), Some(one));
        let conditions = |if_match: &Option<Tags>, if_none_match: &Option<Tags>| Conditions {
            if_match: if_match.clone(),
            if_none_match: if_none_match.clone(),
        };
        // If-Match, If-None-Match, and whether a write passes: without a document, at version 1, and
        // at version 2.
        for (if_match, if_none_match, passes) in [
            (&None, &None, [true, true, true]),
            (&any, &None, [false, true, true]),
            (&one, &None, [false, true, false]),
            (&None, &any, [true, false, false]),
            (&None, &one, [true, false, true]),
            (&any, &one, [false, false, true]),
        ] {
            let conditions = conditions(if_match, if_none_match);
            let found =
                [None, Some(tag(1)), Some(tag(2))].map(|present| conditions.check(present).is_ok());
            assert_eq!(found, passes, "{conditions:?}");
        }
    }
}
