//! Marks: which fields of which owner are to be landed.

use bytes::Bytes;
use storage_model::{Field, Owner};

use crate::key;

/// An entry of a dirty map: one write's owner and the fields it changed. A later write of the same fields has the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// Whose fields.
    pub owner: Owner,
    /// The changed fields, by name, each once.
    pub fields: Vec<Field>,
}

/// Stands before each field. No name holds it, since names hold no control characters.
const SEPARATOR: char = '\u{1f}';

/// The name of a mark in a dirty map, a snapshot or an error map: the owner's part of its keys, then each field by name.
pub(crate) fn encode<'a>(owner: &Owner, fields: impl IntoIterator<Item = &'a Field>) -> String {
    append(key::owner_part(owner), fields)
}

/// As [`encode`], from the owner's part.
pub(crate) fn append<'a>(part: String, fields: impl IntoIterator<Item = &'a Field>) -> String {
    let mut name = part;
    for field in fields {
        name.push(SEPARATOR);
        name.push_str(&key::stored(field));
    }
    name
}

/// The mark of a name; none for a name that [`encode`] did not make.
pub(crate) fn decode(name: &Bytes) -> Option<Mark> {
    let mut parts = std::str::from_utf8(name).ok()?.split(SEPARATOR);
    let owner = key::owner_of(parts.next()?)?;
    let fields = parts.map(key::field_of).collect::<Option<Vec<_>>>()?;
    let sorted = fields.windows(2).all(|pair| pair.first() < pair.last());
    (sorted && !fields.is_empty()).then_some(Mark { owner, fields })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn field(name: &str) -> Field {
        Field::new(name).unwrap()
    }

    #[test]
    fn a_mark_comes_back_from_its_name_and_no_two_share_one() {
        let owners = [("a:b", "c"), ("a", "b:c"), ("a", "b"), ("%3A", ":")].map(|(x, y)| Owner::new("app", "eu", x, y).unwrap());
        let sets = [vec!["gold"], vec![":v"], vec!["%:v"], vec!["a", "b"], vec!["a"], vec![":d:a", "a"]];
        let mut seen = BTreeSet::new();
        for owner in &owners {
            for set in &sets {
                let mark = Mark { owner: owner.clone(), fields: set.iter().map(|name| field(name)).collect() };
                let name = encode(owner, &mark.fields);
                assert_eq!(decode(&Bytes::from(name.clone())), Some(mark));
                assert!(seen.insert(name));
            }
        }
    }

    #[test]
    fn names_that_somebody_else_wrote_are_no_marks() {
        for name in ["", "a:b:c:d", "a:b:c:d\u{1f}", "a:b:c\u{1f}f", "a:b:c:d\u{1f}b\u{1f}a", "a:b:c:d\u{1f}a\u{1f}a"] {
            assert_eq!(decode(&Bytes::copy_from_slice(name.as_bytes())), None, "{name:?}");
        }
        assert_eq!(decode(&Bytes::from_static(b"\xff\xfe")), None);
    }
}
