//! Fields on which two ways of reading disagree.

use std::fmt;

use storage_model::Cell;

use crate::log::Key;

/// A field that differs from its player's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The owner and the field.
    pub key: Key,
    /// The state in the player's log.
    pub log: Option<Cell>,
    /// The states found instead, each with its source: "rows by SQL", "hot-load", "login" or
    /// "acknowledgement".
    pub found: Vec<(&'static str, Option<Cell>)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, field) = &self.key;
        write!(
            f,
            "{owner} field {:?}: log {}",
            field.as_str(),
            Shown(self.log.as_ref())
        )?;
        self.found
            .iter()
            .try_for_each(|(place, cell)| write!(f, ", {place} {}", Shown(cell.as_ref())))
    }
}

/// The number of bytes of a value that are shown.
const SHOWN_MAX: usize = 32;

struct Shown<'a>(Option<&'a Cell>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |value: &[u8]| {
            let start = value.get(..SHOWN_MAX);
            format!(
                "\"{}\"{}",
                start.unwrap_or(value).escape_ascii(),
                if start.is_some() { "…" } else { "" }
            )
        };
        match self.0 {
            None => f.write_str("nothing"),
            Some(Cell::Live(value)) => f.write_str(&bytes(value)),
            Some(Cell::Removed(value)) => write!(f, "removed, last {}", bytes(value)),
            Some(Cell::Purged) => f.write_str("purged"),
        }
    }
}

#[cfg(test)]
mod tests {
    use storage_model::{Field, Owner};

    use super::*;

    #[test]
    fn a_difference_names_the_field_and_what_each_way_found() {
        let difference = Difference {
            key: (
                Owner::new("demo", "eu", "player", "7").unwrap(),
                Field::new("gold").unwrap(),
            ),
            log: Some(Cell::Live("12".into())),
            found: vec![
                ("rows by SQL", Some(Cell::Removed(vec![b'x'; 40].into()))),
                ("hot-load", None),
            ],
        };
        let text = format!(
            r#"demo/eu/player/7 field "gold": log "12", rows by SQL removed, last "{}"…, hot-load nothing"#,
            "x".repeat(32)
        );
        assert_eq!(difference.to_string(), text);
    }
}
