//! JSON exactly as in the file: names in their order, numbers with their digits, and faults in
//! plain words.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A value with unparsed parts.
#[derive(Debug)]
pub(super) enum Json<'a> {
    /// Text, with its escapes resolved.
    Text(String),
    /// A number as written.
    Number(&'a str),
    /// Names and values in their order. A name can occur twice.
    Object(Vec<(String, &'a str)>),
    /// A list.
    List,
    /// `true`, `false` or `null`.
    Word(&'a str),
}

/// Reads exactly one value.
///
/// # Errors
/// The text is not JSON. The message tells the place and the reason.
pub(super) fn read(text: &str) -> Result<Json<'_>, String> {
    let text = text.trim_ascii();
    match text.bytes().next() {
        Some(b'{') => {
            let Pairs(pairs) = serde_json::from_str(text).map_err(|error| words(&error))?;
            Ok(Json::Object(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name, value.get()))
                    .collect(),
            ))
        }
        Some(b'"') => serde_json::from_str(text)
            .map(Json::Text)
            .map_err(|error| words(&error)),
        first => {
            let raw: &RawValue = serde_json::from_str(text).map_err(|error| words(&error))?;
            Ok(match first {
                Some(b'[') => Json::List,
                Some(b't' | b'f' | b'n') => Json::Word(raw.get()),
                _ => Json::Number(raw.get()),
            })
        }
    }
}

/// The pairs of an object, in their order.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<'de>, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

/// A parser's fault in plain words, without its line count.
fn words(error: &serde_json::Error) -> String {
    if error.classify() == Category::Eof {
        return "it ends before it is complete: one line holds one whole object".to_owned();
    }
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let why = match message.strip_suffix(&place).unwrap_or(&message) {
        "expected value" => "a value is expected: text in quotes, a number or an object",
        "expected ident" => "a word that is not JSON",
        "key must be a string" => "a name in quotes is expected",
        "trailing characters" => "something follows the end of the object",
        "trailing comma" => "a comma before the end",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "half of a surrogate pair"
        }
        other => other,
    };
    format!("not JSON at character {}: {why}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are_written() {
        for number in [
            "10",
            "-0",
            "1e400",
            "0.10",
            "123456789012345678901234567890",
            "1E+2",
        ] {
            assert!(
                matches!(read(number), Ok(Json::Number(text)) if text == number),
                "{number}"
            );
        }
    }

    #[test]
    fn names_come_in_their_order_and_twice_if_they_are() {
        let Ok(Json::Object(pairs)) = read(r#" {"b": 1, "a\n": [2, {"x": 3}], "b": "é"} "#) else {
            panic!("no object")
        };
        let named: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(
            named,
            [("b", "1"), ("a\n", r#"[2, {"x": 3}]"#), ("b", "\"é\"")]
        );
    }

    #[test]
    fn what_is_no_json_is_told_in_plain_words_and_never_by_a_line_of_its_own() {
        let faults = [
            ("{", "ends before it is complete"),
            (r#"{"a""#, "ends before it is complete"),
            (r#"{"a": }"#, "character 7: a value is expected"),
            (r#"{"a": nil}"#, "a word that is not JSON"),
            (r#"{"a": NaN}"#, "a value is expected"),
            ("{a: 1}", "character 2: a name in quotes is expected"),
            (r#"{"a": 1},"#, "character 9: something follows"),
            (r#"{"a": 1,}"#, "a comma before the end"),
            (r#"{"a": 01}"#, "invalid number"),
            (r#""\ud800""#, "half of a surrogate pair"),
            (r#""\ud800\u0020""#, "half of a surrogate pair"),
            ("", "ends before"),
        ];
        for (text, why) in faults {
            let said = read(text).unwrap_err();
            assert!(
                said.contains(why) && !said.contains("line 1") && !said.contains("EOF"),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn nesting_without_end_is_an_error_or_a_list_and_no_crash() {
        assert!(read(&"[".repeat(200_000)).is_err());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(read(&deep), Ok(Json::Object(_))));
    }
}
