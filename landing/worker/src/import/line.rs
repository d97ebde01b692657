//! One line of an import: an owner and its fields, or a fault.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use storage_model::{LimitError, Limits, Version};
use storage_sdk::{Bytes, Field, Owner};

use super::json::{self, Json};

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) fields: Vec<(Field, Bytes)>,
    /// Fields that were removed where the owner was exported.
    pub(super) removed: Vec<Field>,
    /// How new the owner was, and how far its partition had landed, where it was exported.
    pub(super) base: Option<Base>,
}

/// The versions of an owner that had not landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) version: Version,
    pub(super) landed: Version,
}

impl Base {
    /// Whether an owner of this version was changed since the export. Changes up to `landed` are part
    /// of the exported owner, too.
    pub(super) fn is_changed(&self, found: Version) -> bool {
        found > self.landed && found != self.version
    }
}

/// The keys of a line of `export --unlanded`.
const VERSIONS: [&str; 2] = ["version", "landed"];

/// The names of an owner, in the order of its parts.
const NAMES: [&str; 4] = ["app", "region", "logic_type", "owner_id"];
const FIELDS: &str = "fields";
/// Can stand at the start of a file, also of one that was appended to another.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";
/// How many characters of a name a message shows.
const SHOWN: usize = 40;

/// Reads a line. `None` for a blank line.
///
/// # Errors
/// The line is bad. The message tells the reason in plain words, and shows no value.
pub(super) fn read(line: &[u8], limits: &Limits) -> Result<Option<Entry>, String> {
    let decoded = std::str::from_utf8(line)
        .map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to() + 1))?;
    let text = decoded
        .strip_prefix(BYTE_ORDER_MARK)
        .unwrap_or(decoded)
        .trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    let Json::Object(pairs) = json::read(text)? else {
        return Err("the line is not an object: it must hold {\"app\", \"region\", \"logic_type\", \"owner_id\", \"fields\"}".to_owned());
    };
    let keys = keys(pairs)?;
    let [app, region, logic_type, id] = NAMES.map(|key| name(key, keys.of(key)));
    let owner =
        Owner::new(&app?, &region?, &logic_type?, &id?).map_err(|error| error.to_string())?;
    let (mut live, mut removed) = (Vec::new(), Vec::new());
    for (field, value) in fields(keys.of(FIELDS), limits)? {
        match value {
            Some(value) => live.push((field, value)),
            None => removed.push(field),
        }
    }
    Ok(Some(Entry {
        owner,
        fields: live,
        removed,
        base: base(&keys)?,
    }))
}

/// The versions of a line that has both.
fn base(keys: &Keys<'_>) -> Result<Option<Base>, String> {
    let [version, landed] = VERSIONS.map(|key| match keys.of(key) {
        "" => Ok(None),
        text => {
            let number = text.parse().ok().and_then(Version::new);
            let wrong = || format!("{key} is not a version: it must be a whole number below 2^53");
            number.ok_or_else(wrong).map(Some)
        }
    });
    match (version?, landed?) {
        (Some(version), Some(landed)) => Ok(Some(Base { version, landed })),
        (None, None) => Ok(None),
        _ => Err("version and landed belong together: one of them is missing".to_owned()),
    }
}

/// The keys of a line with their values. All required keys are present.
struct Keys<'a>(Vec<(String, &'a str)>);

impl<'a> Keys<'a> {
    fn of(&self, key: &str) -> &'a str {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
            .unwrap_or_default()
    }
}

fn keys(pairs: Vec<(String, &str)>) -> Result<Keys<'_>, String> {
    let known = || NAMES.into_iter().chain([FIELDS]);
    if let Some((key, _)) = pairs
        .iter()
        .find(|(key, _)| known().chain(VERSIONS).all(|known| known != key))
    {
        let keys = "app, region, logic_type, owner_id and fields";
        return Err(format!(
            "{} is not a key of a line: the keys are {keys}",
            shown(key)
        ));
    }
    no_name_twice("key", pairs.iter().map(|(key, _)| key))?;
    let missing: Vec<_> = known()
        .filter(|known| pairs.iter().all(|(key, _)| key != known))
        .collect();
    match missing.as_slice() {
        [] => Ok(Keys(pairs)),
        [key] => Err(format!("the key {key} is missing")),
        keys => Err(format!("the keys {} are missing", keys.join(", "))),
    }
}

fn no_name_twice<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!(
                "the {what} {} is there twice: only one value is possible",
                shown(name)
            ));
        }
    }
    Ok(())
}

/// One of an owner's four names.
fn name(key: &str, value: &str) -> Result<String, String> {
    match json::read(value).map_err(|why| format!("{key}: {why}"))? {
        Json::Text(text) => Ok(text),
        Json::Number(number) => Ok(number.to_owned()),
        other => Err(format!(
            "{key} is {}: it must be text in quotes or a number",
            kind(&other)
        )),
    }
}

/// The fields of a line. One without a value is removed.
type Read = (Field, Option<Bytes>);

fn fields(value: &str, limits: &Limits) -> Result<Vec<Read>, String> {
    let pairs = match json::read(value).map_err(|why| format!("fields: {why}"))? {
        Json::Object(pairs) if pairs.is_empty() => {
            return Err("the owner has no fields, so there is nothing to write".to_owned());
        }
        Json::Object(pairs) => pairs,
        other => {
            return Err(format!(
                "fields is {}: it must be an object of names and values",
                kind(&other)
            ));
        }
    };
    no_name_twice("field", pairs.iter().map(|(name, _)| name))?;
    pairs
        .into_iter()
        .map(|(name, value)| field(&name, value, limits))
        .collect()
}

fn field(name: &str, value: &str, limits: &Limits) -> Result<Read, String> {
    let field = Field::new(name).map_err(|error| error.to_string())?;
    let value = bytes(value).map_err(|why| format!("field {}: {why}", shown(name)))?;
    let length = value.as_ref().map_or(0, Bytes::len);
    if length > limits.value_bytes_max {
        let field = shown(name).trim_matches('"').to_owned();
        return Err(LimitError::Value {
            field,
            bytes: length,
            limit: limits.value_bytes_max,
        }
        .to_string());
    }
    Ok((field, value))
}

/// A field's value: text, a number as written, or bytes. None if it was removed.
fn bytes(value: &str) -> Result<Option<Bytes>, String> {
    let advice = match json::read(value)? {
        Json::Text(text) => return Ok(Some(text.into())),
        Json::Number(number) => return Ok(Some(number.to_owned().into())),
        Json::Object(pairs) => match pairs.as_slice() {
            [(key, value)] if key == "base64" => return base64(value).map(Some),
            [(key, value)] if key == "removed" && *value == "true" => return Ok(None),
            pairs if pairs.iter().any(|(key, _)| key == "object") => {
                "an object from export --decode: import only takes files of export without --decode"
            }
            _ => "an object: write it as text in quotes, or its bytes as {\"base64\": …}",
        },
        Json::List => "a list: write it as text in quotes, or its bytes as {\"base64\": …}",
        Json::Word("null") => "null: leave the field out, or write text in quotes",
        Json::Word(word) => {
            return Err(format!(
                "the value is {word}: write it as text in quotes or as a number"
            ));
        }
    };
    Err(format!("the value is {advice}"))
}

fn base64(value: &str) -> Result<Bytes, String> {
    let Json::Text(text) = json::read(value)? else {
        return Err("base64 must be text in quotes".to_owned());
    };
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("not base64 (standard alphabet, padded): {error}"))?;
    Ok(bytes.into())
}

fn kind(value: &Json<'_>) -> String {
    match value {
        Json::Text(_) => "text".to_owned(),
        Json::Number(_) => "a number".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        Json::List => "a list".to_owned(),
        Json::Word(word) => (*word).to_owned(),
    }
}

/// The first characters of a name, in quotes.
fn shown(name: &str) -> String {
    let start: String = name.chars().take(SHOWN).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Option<Entry>, String> {
        let mut limits = Limits::default();
        limits.value_bytes_max = 40;
        read(line.as_bytes(), &limits)
    }

    fn line(fields: &str) -> String {
        format!(r#"{{"app":"a","region":"r","logic_type":"t","owner_id":"1","fields":{fields}}}"#)
    }

    fn values(fields: &str) -> Vec<(String, Vec<u8>)> {
        let entry = of(&line(fields)).unwrap().unwrap();
        entry
            .fields
            .iter()
            .map(|(field, value)| (field.to_string(), value.to_vec()))
            .collect()
    }

    #[test]
    fn text_numbers_and_base64_are_values_as_they_are_written() {
        let fields = r#"{"t":"x\u00e9","n":10,"f":-1.50,"e":1e400,"big":12345678901234567890123,"b":{"base64":"/wA="},"none":""}"#;
        let wanted: [(&str, &[u8]); 7] = [
            ("t", "xé".as_bytes()),
            ("n", b"10"),
            ("f", b"-1.50"),
            ("e", b"1e400"),
            ("big", b"12345678901234567890123"),
            ("b", b"\xff\0"),
            ("none", b""),
        ];
        assert_eq!(
            values(fields),
            wanted.map(|(name, value)| (name.to_owned(), value.to_vec()))
        );
        let numbered = line("{\"x\":1}").replace("\"owner_id\":\"1\"", "\"owner_id\":42");
        assert_eq!(
            of(&numbered).unwrap().unwrap().owner.to_string(),
            "a/r/t/42"
        );
    }

    #[test]
    fn a_removed_field_is_told_from_a_value() {
        let entry = of(&line(r#"{"x":1,"gone":{"removed":true}}"#))
            .unwrap()
            .unwrap();
        assert_eq!(entry.fields.len(), 1);
        assert_eq!(entry.removed, [Field::new("gone").unwrap()]);
        let error = of(&line(r#"{"gone":{"removed":false}}"#)).unwrap_err();
        assert!(error.contains("the value is an object"), "{error}");
    }

    #[test]
    fn a_line_has_both_versions_or_none() {
        let with = |versions: &str| of(&line("{\"x\":1}").replace("\"fields\"", versions));
        assert_eq!(of(&line("{\"x\":1}")).unwrap().unwrap().base, None);
        let both = with(r#""version":7,"landed":5,"fields""#).unwrap().unwrap();
        let version = |number| Version::new(number).unwrap();
        assert_eq!(
            both.base,
            Some(Base {
                version: version(7),
                landed: version(5)
            })
        );
        for (versions, said) in [
            (r#""version":7,"fields""#, "belong together"),
            (r#""landed":7,"fields""#, "belong together"),
            (
                r#""version":-1,"landed":5,"fields""#,
                "version is not a version",
            ),
            (
                r#""version":7,"landed":"5","fields""#,
                "landed is not a version",
            ),
            (
                r#""version":9007199254740992,"landed":5,"fields""#,
                "below 2^53",
            ),
        ] {
            let error = with(versions).unwrap_err();
            assert!(error.contains(said), "{versions}: {error}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_blanks_around_a_line_are_passed_over() {
        assert!(
            of(&format!("\u{feff}{}\r", line("{\"x\":1}")))
                .unwrap()
                .is_some()
        );
        for blank in ["", "\r", " \t ", "\u{feff}", "\u{feff}\r"] {
            assert_eq!(of(blank), Ok(None), "{blank:?}");
        }
    }

    #[test]
    fn a_bad_line_is_told_by_name_and_by_what_is_expected_instead() {
        let good = line("{\"x\":1}");
        let faults = [
            (
                good.replace("fields", "feilds"),
                "\"feilds\" is not a key of a line: the keys are app, region,",
            ),
            (
                good.replace("\"region\":\"r\",", ""),
                "the key region is missing",
            ),
            (
                "{}".to_owned(),
                "the keys app, region, logic_type, owner_id, fields are missing",
            ),
            (
                good.replace("\"app\":\"a\"", "\"app\":\"a\",\"app\":\"b\""),
                "the key \"app\" is there twice",
            ),
            (
                good.replace("\"a\"", "null"),
                "app is null: it must be text in quotes or a number",
            ),
            (good.replace("\"t\"", "\"\""), "logic type is empty"),
            (
                line("{\"gold\":1,\"gold\":2}"),
                "the field \"gold\" is there twice",
            ),
            (line("{}"), "the owner has no fields"),
            (line("[]"), "fields is a list: it must be an object"),
            (line("{\"\":1}"), "field name is empty"),
            (
                line("{\"on\":true}"),
                "field \"on\": the value is true: write it as text",
            ),
            (
                line("{\"on\":null}"),
                "field \"on\": the value is null: leave the field out",
            ),
            (line("{\"on\":[1]}"), "field \"on\": the value is a list"),
            (
                line("{\"on\":{\"a\":1}}"),
                "field \"on\": the value is an object",
            ),
            (
                line("{\"on\":{\"base64\":\"!\"}}"),
                "field \"on\": not base64",
            ),
            (
                line("{\"on\":{\"base64\":7}}"),
                "field \"on\": base64 must be text",
            ),
            (
                line("{\"on\":{\"object\":{\"hp\":1},\"schema_version\":1}}"),
                "without --decode",
            ),
            (
                line(&format!("{{\"on\":\"{}\"}}", "x".repeat(41))),
                "limits.value_bytes_max is 40",
            ),
            ("[]".to_owned(), "the line is not an object"),
            ("\"text\"".to_owned(), "the line is not an object"),
            ("not json".to_owned(), "a word that is not JSON"),
        ];
        for (line, why) in faults {
            let said = of(&line).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
            assert!(
                ["variant", "untagged", "line 1", "invalid type"]
                    .iter()
                    .all(|jargon| !said.contains(jargon)),
                "{said}"
            );
        }
        assert_eq!(
            read(b"{\"a\xff", &Limits::default()),
            Err("byte 4 is not UTF-8".to_owned())
        );
    }
}
