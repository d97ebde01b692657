//! Marks: the fields of an owner that must land.

use storage_model::{Field, Owner};

use crate::key;

/// An entry of a dirty map: an owner and the fields that have changed since the map was begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// The owner of the fields.
    pub owner: Owner,
    /// The changed fields, by name, each once.
    pub fields: Vec<Field>,
}

/// Stands between fields. It also stands behind the owner's part in the name of a mark that was put
/// aside. No name holds it, since names hold no control characters.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// Stands before the name of a partner: an owner that must land together with the mark's owner (G1).
/// A mark names its partners beside its fields.
pub(crate) const PARTNER: char = '\u{1e}';

/// The fields of a mark as they stand in its value behind the version.
pub(crate) fn fields_text<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    let mut text = String::new();
    for (at, field) in fields.into_iter().enumerate() {
        if at > 0 {
            text.push(SEPARATOR);
        }
        text.push_str(&key::stored(field));
    }
    text
}

/// The owner in an entry's name. `None` for a name that this program did not make. In the name of a
/// mark that was put aside, a version follows the owner.
pub(crate) fn owner_of(name: &[u8]) -> Option<Owner> {
    key::owner_of(std::str::from_utf8(name).ok()?.split(SEPARATOR).next()?)
}

/// Whether a mark was put aside, because its owner's hash was lost.
pub(crate) fn is_aside(name: &[u8]) -> bool {
    u8::try_from(SEPARATOR).is_ok_and(|separator| name.contains(&separator))
}

/// The mark of an entry, from its name and its value without the version. `None` if this program
/// did not make the entry.
pub(crate) fn decode(name: &[u8], fields: &[u8]) -> Option<Mark> {
    let owner = owner_of(name)?;
    let mut fields = std::str::from_utf8(fields)
        .ok()?
        .split(SEPARATOR)
        .filter(|name| !name.starts_with(PARTNER))
        .map(key::field_of)
        .collect::<Option<Vec<_>>>()?;
    fields.sort_unstable();
    fields.dedup();
    (!fields.is_empty()).then_some(Mark { owner, fields })
}

/// The names of a mark, which stand behind its version: stored names of fields, and partners.
pub(crate) fn names_in(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names
        .split(|byte| char::from(*byte) == SEPARATOR)
        .filter(|name| !name.is_empty())
}

/// Whether a name of a mark is that of a partner.
pub(crate) fn is_partner(name: &[u8]) -> bool {
    name.first()
        .is_some_and(|byte| char::from(*byte) == PARTNER)
}

/// Whether the names of a mark, which stand behind its version, hold a field that is not among
/// these. Names that this program did not write hold none.
pub(crate) fn names_more(names: Option<&[u8]>, fields: &[Field]) -> bool {
    let names = std::str::from_utf8(names.unwrap_or_default()).unwrap_or_default();
    let mut stored = names
        .split(SEPARATOR)
        .filter(|name| !name.starts_with(PARTNER) && !name.is_empty());
    stored.any(|name| {
        let is_asked = |field: &Field| key::stored(field) == name;
        !fields.iter().any(is_asked) && key::field_of(name).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Field {
        Field::new(name).unwrap()
    }

    #[test]
    fn a_mark_comes_back_from_its_name_and_its_fields() {
        let owners = [("a:b", "c"), ("a", "b:c"), ("a", "b"), ("%3A", ":")]
            .map(|(x, y)| Owner::new("app", "eu", x, y).unwrap());
        let sets = [
            vec!["gold"],
            vec![":v"],
            vec!["%:v"],
            vec!["a", "b"],
            vec![":d:a", "a"],
        ];
        for owner in &owners {
            for set in &sets {
                let mark = Mark {
                    owner: owner.clone(),
                    fields: set.iter().map(|name| field(name)).collect(),
                };
                let name = key::owner_part(owner);
                let fields = fields_text(&mark.fields);
                assert_eq!(
                    decode(name.as_bytes(), fields.as_bytes()),
                    Some(mark.clone())
                );
                let aside = format!("{name}{SEPARATOR}0000000000000a");
                assert_eq!(decode(aside.as_bytes(), fields.as_bytes()), Some(mark));
            }
        }
    }

    #[test]
    fn fields_in_any_order_and_twice_are_one_mark() {
        let mark = decode(b"a:b:c:d", b"b\x1fa\x1fb").unwrap();
        assert_eq!(mark.fields, [field("a"), field("b")]);
    }

    #[test]
    fn partners_are_no_fields_of_a_mark() {
        let mark = decode(b"a:b:c:d", b"gold\x1f\x1ea:b:c:e\x1fhp").unwrap();
        assert_eq!(mark.fields, [field("gold"), field("hp")]);
        assert_eq!(decode(b"a:b:c:d", b"\x1ea:b:c:e"), None);
    }

    #[test]
    fn what_somebody_else_wrote_is_no_mark() {
        for (name, fields) in [
            ("", "f"),
            ("a:b:c", "f"),
            ("a:b:c:d", ""),
            ("a:b:c:d", "f\u{1f}"),
            ("a:b:c:d:e", "f"),
        ] {
            assert_eq!(
                decode(name.as_bytes(), fields.as_bytes()),
                None,
                "{name:?} {fields:?}"
            );
        }
        assert_eq!(decode(b"\xff\xfe", b"f"), None);
        assert_eq!(decode(b"a:b:c:d", b"\xff"), None);
    }
}
