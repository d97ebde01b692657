//! Owners as JSON lines.

use std::collections::BTreeMap;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use storage_sdk::{Bytes, Field, Owner};

/// One owner: `{"app","region","logic_type","owner_id","fields":{name: text, or {"base64": …}}}`.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    app: String,
    region: String,
    logic_type: String,
    owner_id: String,
    fields: BTreeMap<String, Value>,
}

/// A field's bytes: as text if they are UTF-8, else in base64 (RFC 4648, standard alphabet, padded).
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(untagged, deny_unknown_fields)]
enum Value {
    Text(String),
    Base64 { base64: String },
}

impl Value {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64 { base64: STANDARD.encode(bytes) },
        }
    }

    fn bytes(self) -> anyhow::Result<Bytes> {
        Ok(match self {
            Self::Text(text) => text.into(),
            Self::Base64 { base64 } => STANDARD.decode(base64)?.into(),
        })
    }
}

impl Entity {
    /// The entity of an owner and its live fields.
    #[must_use]
    pub fn new<'a>(owner: &Owner, fields: impl Iterator<Item = (&'a Field, &'a Bytes)>) -> Self {
        Self {
            app: owner.app().to_owned(),
            region: owner.region().to_owned(),
            logic_type: owner.logic_type().to_owned(),
            owner_id: owner.id().to_owned(),
            fields: fields.map(|(field, value)| (field.as_str().to_owned(), Value::new(value))).collect(),
        }
    }

    /// The owner and its fields.
    ///
    /// # Errors
    /// A name is impossible, or base64 can't be read; the message names the field.
    pub fn parts(self) -> anyhow::Result<(Owner, Vec<(String, Bytes)>)> {
        let owner = Owner::new(&self.app, &self.region, &self.logic_type, &self.owner_id)?;
        let bytes = |(name, value): (String, Value)| {
            let bytes = value.bytes().with_context(|| format!("field {name:?}: base64"))?;
            Ok((name, bytes))
        };
        Ok((owner, self.fields.into_iter().map(bytes).collect::<anyhow::Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_other_bytes_become_base64() {
        let line = r#"{"app":"a","region":"r","logic_type":"t","owner_id":"1","fields":{"b":{"base64":"/wA="},"t":"x"}}"#;
        let entity: Entity = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&entity).unwrap(), line);
        let (owner, fields) = entity.parts().unwrap();
        assert_eq!(owner.to_string(), "a/r/t/1");
        assert_eq!(fields, [("b".to_owned(), Bytes::from_static(b"\xff\0")), ("t".to_owned(), Bytes::from_static(b"x"))]);
        assert_eq!(Value::new(b"\xff\0"), Value::Base64 { base64: "/wA=".into() });
        assert!(serde_json::from_str::<Entity>(&line.replace("fields", "feilds")).is_err());
        let bad = line.replace("/wA=", "!");
        assert!(serde_json::from_str::<Entity>(&bad).unwrap().parts().unwrap_err().to_string().contains("field \"b\""));
    }
}
