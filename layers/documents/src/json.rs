//! JSON whose numbers keep their digits, the removal of nulls, and merge patches.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// A JSON value. Numbers are the text that was parsed, so `0.10` and `1e400` stay as they are. The
/// members of an object keep their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as its text.
    Number(Box<RawNumber>),
    /// A text.
    Text(String),
    /// A list.
    Array(Vec<Json>),
    /// An object. No name occurs twice.
    Object(Vec<(String, Json)>),
}

/// A number's text.
#[derive(Debug, Clone)]
pub struct RawNumber(Box<RawValue>);

impl RawNumber {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for RawNumber {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for RawNumber {}

impl Json {
    /// Parses a text.
    ///
    /// # Errors
    /// The text is no JSON, an object names a member twice, or values lie more than 127 levels deep.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<&RawValue>(text).and_then(|raw| of_raw(raw, 1))
    }

    /// The number of this text. `None` if the text is no JSON number.
    #[must_use]
    pub fn number(text: &str) -> Option<Self> {
        let value = Self::parse(text.as_bytes()).ok()?;
        matches!(value, Self::Number(_)).then_some(value)
    }

    /// The member of an object.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let member = members.iter().find(|(of, _)| of == name);
        member.map(|(_, value)| value)
    }

    /// The object with this member. A new member comes first. `None` if the value is no object.
    #[must_use]
    pub fn with_member(self, name: &str, value: Self) -> Option<Self> {
        let Self::Object(mut members) = self else {
            return None;
        };
        match members.iter_mut().find(|(of, _)| of == name) {
            Some((_, present)) => *present = value,
            None => members.insert(0, (name.to_owned(), value)),
        }
        Some(Self::Object(members))
    }

    /// The merge patch that makes `after` of this object, if no member of `after` is null at any depth.
    /// `None` if one of both is no object, or if
    /// a member of `after` is null, which no merge patch can set.
    #[must_use]
    pub fn difference(&self, after: &Self) -> Option<Self> {
        let (Self::Object(before), Self::Object(members)) = (self, after) else {
            return None;
        };
        // Large objects have many members, so they are found by name.
        let known: HashMap<&str, &Self> = by_name(before);
        let kept: HashMap<&str, &Self> = by_name(members);
        let gone = before
            .iter()
            .filter(|(name, _)| !kept.contains_key(name.as_str()));
        let mut patch: Vec<(String, Self)> =
            gone.map(|(name, _)| (name.clone(), Self::Null)).collect();
        for (name, value) in members {
            let change = match known.get(name.as_str()) {
                Some(present) if *present == value => continue,
                Some(present) => present.difference(value).unwrap_or_else(|| value.clone()),
                None => value.clone(),
            };
            if change == Self::Null {
                return None;
            }
            patch.push((name.clone(), change));
        }
        Some(Self::Object(patch))
    }

    /// The text, without spaces.
    #[must_use]
    pub fn to_text(&self) -> String {
        // A value that was parsed can be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Drops members of objects that are null, at every depth. Nulls in lists stay.
    #[must_use]
    pub fn without_nulls(self) -> Self {
        match self {
            Self::Object(members) => {
                let kept = members
                    .into_iter()
                    .filter(|(_, value)| *value != Self::Null);
                Self::Object(
                    kept.map(|(name, value)| (name, value.without_nulls()))
                        .collect(),
                )
            }
            Self::Array(items) => Self::Array(items.into_iter().map(Self::without_nulls).collect()),
            other => other,
        }
    }

    /// Applies a merge patch (RFC 7396): a null removes a member, an object merges into an object,
    /// and every other value replaces.
    #[must_use]
    pub fn merged(self, patch: Self) -> Self {
        let Self::Object(changes) = patch else {
            return patch;
        };
        let members = match self {
            Self::Object(members) => members,
            _ => Vec::new(),
        };
        // A large object has as many members as a large patch, so they are found by name.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut merged: Vec<(String, Option<Self>)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            places.insert(name.clone(), merged.len());
            merged.push((name, Some(value)));
        }
        for (name, change) in changes {
            let place = places.get(&name).and_then(|place| merged.get_mut(*place));
            match (place, change) {
                (Some((_, value)), Self::Null) => *value = None,
                (Some((_, value)), change) => {
                    *value = Some(value.take().unwrap_or(Self::Null).merged(change));
                }
                (None, Self::Null) => {}
                (None, change) => merged.push((name, Some(Self::Null.merged(change)))),
            }
        }
        let kept = merged
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Self::Object(kept.collect())
    }
}

fn by_name(members: &[(String, Json)]) -> HashMap<&str, &Json> {
    members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

/// The most levels of a value.
pub(crate) const DEPTH_MAX: usize = 127;

/// Parses one value, and those within it, one level at a time. So a number keeps its text.
// The parser counts no levels of a value that it keeps as text, so they are counted here.
fn of_raw(raw: &RawValue, depth: usize) -> Result<Json, serde_json::Error> {
    let text = raw.get();
    let first = text.as_bytes().first();
    if depth > DEPTH_MAX && matches!(first, Some(b'{' | b'[')) {
        let message = format!("values lie more than {DEPTH_MAX} levels deep");
        return Err(de::Error::custom(message));
    }
    Ok(match first {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text)?;
            let values = members
                .into_iter()
                .map(|(name, value)| Ok((name, of_raw(value, depth + 1)?)));
            Json::Object(values.collect::<Result<_, serde_json::Error>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let values = items.into_iter().map(|item| of_raw(item, depth + 1));
            Json::Array(values.collect::<Result<_, _>>()?)
        }
        Some(b'"') => Json::Text(serde_json::from_str(text)?),
        Some(b't' | b'f') => Json::Bool(serde_json::from_str(text)?),
        Some(b'n') => Json::Null,
        _ => Json::Number(Box::new(RawNumber(raw.to_owned()))),
    })
}

/// The members of one object.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Collect)
    }
}

/// Collects members in their order, and rejects a name that occurs twice.
struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members: Vec<(String, &RawValue)> = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        let mut names = HashSet::with_capacity(members.len());
        let twice = members.iter().find(|(name, _)| !names.insert(name));
        if let Some((name, _)) = twice {
            let message = format!("the member {name:?} occurs twice");
            return Err(de::Error::custom(message));
        }
        Ok(Members(members))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Number(number) => number.0.serialize(to),
            Self::Text(text) => to.serialize_str(text),
            Self::Array(items) => to.collect_seq(items),
            Self::Object(members) => {
                let mut map = to.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// RFC 7396, appendix A.
    const VECTORS: [(&str, &str, &str); 15] = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            r#"{"a":{"b":"d"}}"#,
        ),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ];

    #[test]
    fn merge_patches_keep_the_vectors_of_the_standard() {
        for (target, patch, expected) in VECTORS {
            let merged = json(target).merged(json(patch));
            assert_eq!(merged.to_text(), expected, "{target} with {patch}");
        }
    }

    #[test]
    fn nulls_go_from_objects_at_every_depth_and_stay_in_lists() {
        let text = r#"{"a":null,"b":{"c":null,"d":[null,{"e":null}]}}"#;
        assert_eq!(
            json(text).without_nulls().to_text(),
            r#"{"b":{"d":[null,{}]}}"#
        );
    }

    #[test]
    fn numbers_keep_their_digits() {
        let text = r#"[9007199254740993,0.10,1e400,-0,123456789012345678901234567890]"#;
        assert_eq!(json(text).to_text(), text);
    }

    #[test]
    fn a_member_that_occurs_twice_and_nesting_without_end_are_refused() {
        let twice = Json::parse(br#"{"x":{"a":1,"a":2}}"#).unwrap_err();
        assert!(twice.to_string().contains(r#""a" occurs twice"#), "{twice}");
        let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        assert!(Json::parse(&nested(127)).is_ok());
        for depth in [128, 100_000] {
            assert!(Json::parse(&nested(depth)).is_err(), "{depth}");
        }
        for wrong in ["", "{", "nul", "01", "1 2", r#"{"a":}"#, "\u{feff}1"] {
            assert!(Json::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(value) = Json::parse(&bytes) {
                prop_assert_eq!(json(&value.to_text()), value);
            }
        }
    }
}
