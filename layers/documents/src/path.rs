//! The paths of documents.

use std::fmt;

use crate::{Error, Kind, Result};

/// The most bytes of a path. With a tag in braces, an item's path still fits in an owner's id.
pub const PATH_BYTES_MAX: usize = 253;

/// The characters of a path beside letters and digits.
const MARKS: &str = "-._~:/[]@!$&'()*+,;=";

/// The path of a document, such as `guilds/red`: segments with slashes between them.
///
/// A segment has letters and digits of ASCII, and the marks `-._~:[]@!$&'()*+,;=`. No segment is
/// empty, `.` or `..`. A segment that ends in `~` names a collection, so it can be neither the last
/// nor the last but one.
///
/// ```
/// use storage_documents::Path;
/// assert!(Path::new("guilds/red").is_ok());
/// for wrong in ["", "/guilds", "guilds//red", "guilds/..", "gu ilds", "guilds~", "guilds~/red"] {
///     assert!(Path::new(wrong).is_err(), "{wrong}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// Checks a path.
    ///
    /// # Errors
    /// `Path` names the character or the segment that is not allowed. `PathTooLong`: the path has
    /// more than [`PATH_BYTES_MAX`] bytes.
    pub fn new(path: &str) -> Result<Self> {
        if path.len() > PATH_BYTES_MAX {
            let message = format!(
                "the path has {} bytes; the limit is {PATH_BYTES_MAX}, so shorten it",
                path.len()
            );
            return Err(Error::new(Kind::PathTooLong, message));
        }
        let is_allowed = |c: &char| c.is_ascii_alphanumeric() || MARKS.contains(*c);
        if let Some(wrong) = path.chars().find(|c| !is_allowed(c)) {
            return Err(refused(
                path,
                &format!("holds the character {wrong:?}; letters, digits and {MARKS} are allowed"),
            ));
        }
        let segments: Vec<&str> = path.split('/').collect();
        for segment in &segments {
            check_segment(path, segment)?;
        }
        let mut last_two = segments.iter().rev().take(2);
        if last_two.any(|segment| segment.ends_with('~')) {
            return Err(refused(
                path,
                "names a collection or an item; only documents are served",
            ));
        }
        Ok(Self(path.to_owned()))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the path is `prefix`, or lies below it. The empty prefix covers all paths.
    ///
    /// ```
    /// use storage_documents::Path;
    /// let path = Path::new("guilds/red/seats").unwrap();
    /// assert!(path.is_below("") && path.is_below("guilds/red") && path.is_below("guilds/"));
    /// assert!(!path.is_below("guilds/r"));
    /// ```
    #[must_use]
    pub fn is_below(&self, prefix: &str) -> bool {
        match self.0.strip_prefix(prefix) {
            None => false,
            Some(rest) => {
                prefix.is_empty()
                    || prefix.ends_with('/')
                    || rest.is_empty()
                    || rest.starts_with('/')
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_segment(path: &str, segment: &str) -> Result<()> {
    match segment {
        "" => Err(refused(
            path,
            "has an empty segment; remove the slash too many",
        )),
        "." | ".." => Err(refused(
            path,
            &format!("has the segment {segment:?}; choose another name"),
        )),
        _ => Ok(()),
    }
}

fn refused(path: &str, why: &str) -> Error {
    Error::new(Kind::Path, format!("the path {path:?} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_documents() {
        for right in [
            "a",
            "a/b/c",
            "a~/b/c",
            "A-z_0.9~x/[1]@!$&'()*+,;=:",
            "x/...",
            "a~b",
        ] {
            assert_eq!(Path::new(right).unwrap().as_str(), right);
        }
        for wrong in [
            "", " ", "\t", "/", "//", "/a", "a/", "a//b", "a/./b", "..", "a%2Fb", "{a}", "ä",
            "a?b", "a#b", "a\\b", "a~", "x/a~", "a~/b",
        ] {
            assert_eq!(
                Path::new(wrong).unwrap_err().kind(),
                &Kind::Path,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_path_of_253_bytes_is_the_longest() {
        assert!(Path::new(&"a".repeat(PATH_BYTES_MAX)).is_ok());
        let error = Path::new(&"a".repeat(PATH_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(error.kind(), &Kind::PathTooLong);
        assert!(error.to_string().contains("254") && error.to_string().contains("253"));
    }
}
