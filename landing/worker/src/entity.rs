//! Owners as JSON lines, in the format of `export`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use storage_model::Cell;
use storage_sdk::{Bytes, Field, Owner};

use crate::decoded::Decoded;

/// One owner: `{"app","region","logic_type","owner_id","fields":{name: text, or {"base64": …}}}`.
#[derive(Debug, Serialize)]
pub struct Entity {
    app: String,
    region: String,
    logic_type: String,
    owner_id: String,
    fields: BTreeMap<String, Value>,
    #[serde(flatten)]
    base: Option<Base>,
}

/// How new an owner is that has not landed. Import compares it with the owner that it finds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Base {
    /// The version of the owner.
    pub version: u64,
    /// How far the landings of its partition reach. Another hot tier can have changed the owner
    /// beyond it.
    pub landed: u64,
}

/// A field's bytes: as text if they are UTF-8, else in base64 (RFC 4648, standard alphabet,
/// padded), or the content of an object. The bodies of events have the same form.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Object(Decoded),
    Base64 {
        base64: String,
    },
    /// The field was removed. Only lines of owners that have not landed tell so.
    Removed {
        removed: bool,
    },
}

impl Value {
    /// The bytes. With `decode`, an object becomes readable.
    pub(crate) fn new(bytes: &[u8], decode: bool) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Self::Text(text.to_owned());
        }
        let decoded = if decode { Decoded::new(bytes) } else { None };
        decoded.map_or_else(
            || Self::Base64 {
                base64: STANDARD.encode(bytes),
            },
            Self::Object,
        )
    }
}

impl Entity {
    /// The entity of an owner and its live fields. `None` without fields. With `decode`, objects
    /// become readable.
    #[must_use]
    pub fn new<'a>(
        owner: &Owner,
        fields: impl Iterator<Item = (&'a Field, &'a Bytes)>,
        decode: bool,
    ) -> Option<Self> {
        let fields: BTreeMap<_, _> = fields
            .map(|(field, value)| (field.as_str().to_owned(), Value::new(value, decode)))
            .collect();
        Self::of(owner, fields, None)
    }

    /// The entity of an owner that has not landed, with the versions that import compares. It names
    /// removed fields, too.
    #[must_use]
    pub fn unlanded<'a>(
        owner: &Owner,
        cells: impl Iterator<Item = (&'a Field, &'a Cell)>,
        base: Base,
        decode: bool,
    ) -> Option<Self> {
        let value = |cell: &Cell| match cell.live() {
            Some(value) => Value::new(value, decode),
            None => Value::Removed { removed: true },
        };
        let fields = cells.map(|(field, cell)| (field.as_str().to_owned(), value(cell)));
        Self::of(owner, fields.collect(), Some(base))
    }

    fn of(owner: &Owner, fields: BTreeMap<String, Value>, base: Option<Base>) -> Option<Self> {
        (!fields.is_empty()).then(|| Self {
            app: owner.app().to_owned(),
            region: owner.region().to_owned(),
            logic_type: owner.logic_type().to_owned(),
            owner_id: owner.id().to_owned(),
            fields,
            base,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(value: &'static [u8], decode: bool) -> String {
        let (owner, field) = (
            Owner::new("a", "r", "t", "1").unwrap(),
            Field::new("f").unwrap(),
        );
        let value = Bytes::from_static(value);
        let fields = [(&field, &value)].into_iter();
        serde_json::to_string(&Entity::new(&owner, fields, decode).unwrap()).unwrap()
    }

    #[test]
    fn text_stays_text_and_other_bytes_become_base64() {
        let of = |value: &str| {
            format!(
                r#"{{"app":"a","region":"r","logic_type":"t","owner_id":"1","fields":{{"f":{value}}}}}"#
            )
        };
        assert_eq!(line(b"x\"", false), of(r#""x\"""#));
        assert_eq!(line(b"\xff\0", false), of(r#"{"base64":"/wA="}"#));
        assert_eq!(
            line(b"\xff\0", true),
            of(r#"{"base64":"/wA="}"#),
            "no object"
        );
    }

    #[test]
    fn a_line_of_an_unlanded_owner_names_removed_fields() {
        let (owner, field) = (
            Owner::new("a", "r", "t", "1").unwrap(),
            Field::new("f").unwrap(),
        );
        let base = Base {
            version: 7,
            landed: 5,
        };
        for cell in [Cell::Removed(Bytes::from_static(b"1")), Cell::Purged] {
            let cells = [(&field, &cell)].into_iter();
            let line = serde_json::to_string(&Entity::unlanded(&owner, cells, base, false));
            let wanted = r#"{"app":"a","region":"r","logic_type":"t","owner_id":"1","fields":{"f":{"removed":true}},"version":7,"landed":5}"#;
            assert_eq!(line.unwrap(), wanted);
        }
    }

    #[test]
    fn an_owner_without_fields_has_no_line() {
        assert!(
            Entity::new(
                &Owner::new("a", "r", "t", "1").unwrap(),
                std::iter::empty(),
                false
            )
            .is_none()
        );
    }
}
