//! Stored objects of any type as JSON.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use storage_sdk::codec;

/// The content of a stored object: `{"object": …, "schema_version": …}`.
///
/// Import rejects this form, because JSON does not hold everything that an object can hold. Bytes
/// become `{"base64": …}`. Keys that are not text become text. If two keys of a map look the same
/// as text, the map becomes a list of pairs. A number that is not finite becomes text such as
/// `"NaN"`.
#[derive(Debug, Serialize, PartialEq)]
pub struct Decoded {
    object: Value,
    schema_version: u32,
}

impl Decoded {
    /// The content of these bytes. `None` if they are not a whole, unaltered object.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let Json(object) = codec::decode(bytes, u32::MAX).ok()?;
        let (schema_version, _) = bytes.get(14..)?.split_first_chunk()?;
        Some(Self {
            object,
            schema_version: u32::from_be_bytes(*schema_version),
        })
    }
}

/// Any MessagePack value.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}

fn base64(bytes: &[u8]) -> Value {
    Value::Object(Map::from_iter([(
        "base64".to_owned(),
        Value::String(STANDARD.encode(bytes)),
    )]))
}

/// A key as text. A key that is not text becomes its JSON.
fn key(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Json::deserialize(deserializer).map(|Json(value)| value)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f32<E>(self, value: f32) -> Result<Value, E> {
        // Printed with its own digits. As `f64`, 0.1 would be 0.10000000149011612.
        Ok(value
            .to_string()
            .parse()
            .map_or_else(|_| float(value.into()), float))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(base64(value))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Value, S::Error> {
        let mut list = Vec::new();
        while let Some(Json(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut items: M) -> Result<Value, M::Error> {
        let mut pairs = Vec::new();
        while let Some((Json(name), Json(value))) = items.next_entry()? {
            pairs.push((name, value));
        }
        let names: BTreeSet<String> = pairs.iter().map(|(name, _)| key(name)).collect();
        // Keys that are the same as text, such as 1 and "1", would hide each other.
        if names.len() < pairs.len() {
            return Ok(Value::Array(
                pairs
                    .into_iter()
                    .map(|(name, value)| Value::Array(vec![name, value]))
                    .collect(),
            ));
        }
        Ok(Value::Object(
            pairs
                .into_iter()
                .map(|(name, value)| (key(&name), value))
                .collect(),
        ))
    }

    /// A MessagePack extension: a number and bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        Json::deserialize(deserializer).map(|Json(value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    enum Slot {
        Empty,
        Sword { power: u8 },
    }

    #[derive(Serialize)]
    struct Hero {
        name: String,
        hp: f32,
        x: f64,
        guild: Option<String>,
        bag: Vec<Slot>,
        places: BTreeMap<(u8, i64), bool>,
        #[serde(serialize_with = "bytes")]
        raw: Vec<u8>,
    }

    #[expect(clippy::ptr_arg, reason = "serde hands a field over as it is")]
    fn bytes<S: serde::Serializer>(bytes: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    #[test]
    fn an_object_is_readable_whatever_its_type_holds() {
        let hero = Hero {
            name: "Änn".into(),
            hp: 0.1,
            x: f64::NAN,
            guild: None,
            bag: vec![Slot::Empty, Slot::Sword { power: 7 }],
            places: BTreeMap::from([((1, -5), true)]),
            raw: vec![0xff, 0],
        };
        let decoded = Decoded::new(&codec::encode(&hero, 3).unwrap()).unwrap();
        let object = json!({
            "name": "Änn", "hp": 0.1, "x": "NaN", "guild": null, "bag": ["Empty", {"Sword": {"power": 7}}],
            "places": {"[1,-5]": true}, "raw": {"base64": "/wA="}
        });
        assert_eq!(
            decoded,
            Decoded {
                object,
                schema_version: 3
            }
        );
    }

    /// An object whose payload is these bytes.
    fn object(payload: &[u8]) -> Vec<u8> {
        let mut object = codec::encode(&(), 1).unwrap()[..18].to_vec();
        object.extend_from_slice(payload);
        let sum = xxhash_rust::xxh3::xxh3_64(&object[12..]);
        object[4..12].copy_from_slice(&sum.to_be_bytes());
        object
    }

    #[test]
    fn any_bytes_are_decoded_or_none() {
        let of = |payload: &[u8]| Decoded::new(&object(payload)).map(|decoded| decoded.object);
        assert_eq!(
            of(&[0xd4, 5, 0xff]),
            Some(json!([5, {"base64": "/w=="}])),
            "an extension"
        );
        assert_eq!(
            of(&[0xa1, 0xff]),
            Some(json!({"base64": "/w=="})),
            "text that is not UTF-8"
        );
        assert_eq!(
            of(&[0x82, 1, 2, 0xa1, b'1', 3]),
            Some(json!([[1, 2], ["1", 3]])),
            "keys that are the same as text"
        );
        assert_eq!(of(&[0xcf; 9]), Some(json!(0xcfcf_cfcf_cfcf_cfcf_u64)));
        for broken in [
            &[0xc1][..],
            &[0x91],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0xc0, 0xc0],
            &[],
        ] {
            assert_eq!(of(broken), None, "{broken:?}");
        }
        assert_eq!(
            of(&[vec![0x91; 1 << 20], vec![0xc0]].concat()),
            None,
            "too deep"
        );
        let mut altered = object(&[0xc0]);
        altered[18] = 0xc2;
        assert_eq!(Decoded::new(&altered), None);
        assert!((0..18).all(|cut| Decoded::new(&object(&[0xc0])[..cut]).is_none()));
    }
}
