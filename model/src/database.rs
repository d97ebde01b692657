//! The identity of the database server behind a connection.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// The identity of a database server's process. It changes with each restart and each failover.
///
/// A server that does not flush at each commit, or that replicates asynchronously, can lose
/// commits. So the next process may lack a commit that this one acknowledged (H33).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub u64);

impl DatabaseId {
    /// The identity of the process that these words describe.
    #[must_use]
    pub fn of(words: &str) -> Self {
        Self(xxh3_64(words.as_bytes()))
    }

    /// Parses the text that [`fmt::Display`] wrote. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(u64::from_str_radix(text, 16).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_from_its_text_and_nothing_else_does() {
        for id in [
            DatabaseId(0),
            DatabaseId(u64::MAX),
            DatabaseId::of("host:3306"),
        ] {
            assert_eq!(DatabaseId::parse(&id.to_string()), Some(id));
        }
        for text in [
            "",
            "1",
            "00000000000000g0",
            "+000000000000001",
            "00000000000000AB",
        ] {
            assert_eq!(DatabaseId::parse(text), None, "{text:?}");
        }
    }
}
