//! The paths of documents.

use std::fmt;

use crate::prefixes::is_below;
use crate::{Error, Kind, Result};

/// The most bytes of a path. With braces, the number of a collection's generation or that of an
/// idempotency key, it fits in an owner's id.
pub const PATH_BYTES_MAX: usize = 240;

/// The characters of a path beside letters and digits.
const MARKS: &str = "-._~:/[]@!$&'()*+,;=";

/// The path of a resource, such as `guilds/red`: segments with slashes between them.
///
/// A segment has letters and digits of ASCII, and the marks `-._~:[]@!$&'()*+,;=`. No segment is
/// empty, `.`, `..` or `~`. The last two segments say what the path names: [`Place`].
///
/// ```
/// use storage_documents::{Path, Place};
/// let place = |path| Path::new(path).unwrap().place();
/// assert_eq!(place("guilds/red"), Place::Document);
/// assert_eq!(place("guilds/red/members~"), Place::Collection);
/// assert_eq!(place("members~/ann"), Place::Item { collection: "members~".into(), id: "ann".into() });
/// for wrong in ["", "/guilds", "guilds//red", "guilds/..", "gu ilds", "a~/b~"] {
///     assert!(Path::new(wrong).is_err(), "{wrong}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(String);

/// The resource that a path names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A document.
    Document,
    /// A collection: the last segment ends in `~`.
    Collection,
    /// An item of a collection: the last segment but one ends in `~`.
    Item {
        /// The path of the collection.
        collection: String,
        /// The item's id: the last segment.
        id: String,
    },
}

impl Path {
    /// Checks a path.
    ///
    /// # Errors
    /// `Path` names the character or the segment that is not allowed. `PathTooLong`: the path has
    /// more than [`PATH_BYTES_MAX`] bytes.
    pub fn new(path: &str) -> Result<Self> {
        if path.len() > PATH_BYTES_MAX {
            return Err(too_long(path, PATH_BYTES_MAX));
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
        let path = Self(path.to_owned());
        path.check_place()?;
        Ok(path)
    }

    /// Checks that an item is no collection.
    fn check_place(&self) -> Result<()> {
        let path = &self.0;
        let mut last = path.rsplit('/').take(2);
        if last.all(|segment| segment.ends_with('~')) && path.contains('/') {
            return Err(refused(
                path,
                "names an item whose id ends in ~; choose another id",
            ));
        }
        Ok(())
    }

    /// The resource that the path names.
    #[must_use]
    pub fn place(&self) -> Place {
        if self.0.ends_with('~') {
            return Place::Collection;
        }
        match self.0.rsplit_once('/') {
            Some((collection, id)) if collection.ends_with('~') => Place::Item {
                collection: collection.to_owned(),
                id: id.to_owned(),
            },
            _ => Place::Document,
        }
    }

    /// The path of an item of a collection.
    ///
    /// # Errors
    /// As [`Path::new`].
    pub fn item(collection: &str, id: &str) -> Result<Self> {
        Self::new(&format!("{collection}/{id}"))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the path is a collection that a prefix lies in.
    #[must_use]
    pub fn holds(&self, prefix: &str) -> bool {
        let rest = prefix.strip_prefix(self.0.as_str());
        self.place() == Place::Collection && rest.is_some_and(|rest| rest.starts_with('/'))
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
        is_below(&self.0, prefix)
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
        "." | ".." | "~" => Err(refused(
            path,
            &format!("has the segment {segment:?}; choose another name"),
        )),
        _ => Ok(()),
    }
}

fn too_long(path: &str, limit: usize) -> Error {
    let message = format!(
        "the path has {} bytes; the limit is {limit}, so shorten it",
        path.len()
    );
    Error::new(Kind::PathTooLong, message)
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
            "a?b", "a#b", "a\\b", "~", "~/b", "a~/b~", "x/a~/b~",
        ] {
            assert_eq!(
                Path::new(wrong).unwrap_err().kind(),
                &Kind::Path,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn the_last_two_segments_say_what_a_path_names() {
        let place = |path: &str| Path::new(path).unwrap().place();
        let item = |collection: &str, id: &str| Place::Item {
            collection: collection.into(),
            id: id.into(),
        };
        for (path, expected) in [
            ("a", Place::Document),
            ("a/b/c", Place::Document),
            ("a~/b/c", Place::Document),
            ("a~", Place::Collection),
            ("a/b~", Place::Collection),
            ("a~/i", item("a~", "i")),
            ("a/b~/i", item("a/b~", "i")),
            ("a~/b/c~/i", item("a~/b/c~", "i")),
        ] {
            assert_eq!(place(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_of_240_bytes_is_the_longest() {
        assert!(Path::new(&"a".repeat(PATH_BYTES_MAX)).is_ok());
        let error = Path::new(&"a".repeat(PATH_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(error.kind(), &Kind::PathTooLong);
        assert!(error.to_string().contains("241") && error.to_string().contains("240"));
    }
}
