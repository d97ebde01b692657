//! JSON Patch (RFC 6902): operations that change a document, all of them or none.
//!
//! The crate `json-patch` works on values whose numbers lose digits, and refuses neither too many
//! operations nor too large copies, so this module has its own operations on [`Json`].

use std::collections::HashMap;
use std::fmt;

use crate::decimal;
use crate::json::{DEPTH_MAX, Json};

/// The most operations of a patch.
pub const OPERATIONS_MAX: usize = 1_000;

/// The reason why a patch was refused. Operations are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchError {
    /// No document could take this patch.
    Malformed {
        /// The operation. `None` if the patch as a whole is wrong.
        operation: Option<usize>,
        /// Its pointer, as far as it has one.
        pointer: String,
        /// The fault.
        reason: String,
    },
    /// The document is not as the patch expects. A test that failed is one case.
    Unfit {
        /// The operation.
        operation: usize,
        /// The pointer to the place that does not fit.
        pointer: String,
        /// The fault.
        reason: String,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, pointer, reason) = match self {
            Self::Malformed {
                operation: None,
                reason,
                ..
            } => return f.write_str(reason),
            Self::Malformed {
                operation: Some(operation),
                pointer,
                reason,
            }
            | Self::Unfit {
                operation,
                pointer,
                reason,
            } => (operation, pointer, reason),
        };
        let start: String = pointer.chars().take(POINTER_SHOWN).collect();
        write!(
            f,
            "operation {operation} with the pointer {start:?}: {reason}"
        )
    }
}

impl std::error::Error for PatchError {}

/// The most characters of a pointer that a message has.
const POINTER_SHOWN: usize = 200;

/// A place that does not fit, and the reason.
type Misfit<'a> = (&'a Pointer, &'static str);

const MISSING: &str = "the document has no such place";

/// A patch that was checked.
///
/// ```
/// use storage_documents::json::Json;
/// use storage_documents::json_patch::JsonPatch;
///
/// let patch = Json::parse(br#"[{"op":"add","path":"/seats/-","value":3}]"#).unwrap();
/// let document = Json::parse(br#"{"seats":[1,2]}"#).unwrap();
/// let after = JsonPatch::parse(&patch).unwrap().apply(document, 1_000).unwrap();
/// assert_eq!(after.to_text(), r#"{"seats":[1,2,3]}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation {
    path: Pointer,
    action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Add(Json),
    Remove,
    Replace(Json),
    Move(Pointer),
    Copy(Pointer),
    Test(Json),
}

impl JsonPatch {
    /// Checks a patch, a list of operations. Unknown members of an operation are ignored.
    ///
    /// # Errors
    /// `Malformed`: there are more than [`OPERATIONS_MAX`] operations, or one of them is unknown,
    /// lacks a member, has a wrong pointer, removes the whole document, or moves a value into
    /// itself.
    pub fn parse(patch: &Json) -> Result<Self, PatchError> {
        let Json::Array(items) = patch else {
            return Err(wrong_patch("the patch is no list of operations".to_owned()));
        };
        if items.len() > OPERATIONS_MAX {
            let count = items.len();
            return Err(wrong_patch(format!(
                "the patch has {count} operations; the limit is {OPERATIONS_MAX}, so split it"
            )));
        }
        let operations = items.iter().enumerate().map(|(index, item)| {
            Operation::parse(item).map_err(|reason| PatchError::Malformed {
                operation: Some(index),
                pointer: text_of(item, "path").unwrap_or_default().to_owned(),
                reason,
            })
        });
        let operations = operations.collect::<Result<_, _>>()?;
        Ok(Self { operations })
    }

    /// Applies all operations in their order. All copies together add at most `limit_bytes` bytes
    /// of text.
    ///
    /// # Errors
    /// `Unfit`: a place is missing, a test failed, the copies are too large, or a value would lie
    /// more than 127 levels deep. The document is dropped then.
    // Copies of copies double a document with each operation. Bytes are counted and not values,
    // since one text can be as large as a document.
    pub fn apply(&self, mut document: Json, limit_bytes: usize) -> Result<Json, PatchError> {
        let mut left_bytes = limit_bytes;
        for (index, operation) in self.operations.iter().enumerate() {
            let applied = operation.apply(&mut document, &mut left_bytes);
            applied.map_err(|(pointer, reason)| PatchError::Unfit {
                operation: index,
                pointer: pointer.text.clone(),
                reason: reason.to_owned(),
            })?;
        }
        Ok(document)
    }
}

impl Operation {
    fn parse(item: &Json) -> Result<Self, String> {
        let path = pointer_of(item, "path")?;
        let action = match text_of(item, "op").ok_or("it has no op that is a text")? {
            "add" => Action::Add(value_of(item)?),
            "remove" if path.names.is_empty() => {
                return Err("the whole document cannot be removed by a patch".to_owned());
            }
            "remove" => Action::Remove,
            "replace" => Action::Replace(value_of(item)?),
            "move" => {
                let from = pointer_of(item, "from")?;
                if path.names.len() > from.names.len() && path.names.starts_with(&from.names) {
                    return Err("a value cannot be moved into itself".to_owned());
                }
                Action::Move(from)
            }
            "copy" => Action::Copy(pointer_of(item, "from")?),
            "test" => Action::Test(value_of(item)?),
            _ => return Err("its op is unknown".to_owned()),
        };
        Ok(Self { path, action })
    }

    fn apply(&self, document: &mut Json, left_bytes: &mut usize) -> Result<(), Misfit<'_>> {
        let path = &self.path;
        match &self.action {
            Action::Add(value) => add(document, path, value.clone()),
            Action::Remove => remove(document, path).map(drop),
            Action::Replace(value) => replace(document, path, value.clone()),
            Action::Test(value) => test(document, path, value),
            Action::Move(from) if from.names == path.names => find(document, from).map(drop),
            Action::Move(from) => {
                let value = remove(document, from)?;
                add(document, path, value)
            }
            Action::Copy(from) => {
                let value = copied(document, from, left_bytes)?;
                add(document, path, value)
            }
        }
    }
}

fn wrong_patch(reason: String) -> PatchError {
    PatchError::Malformed {
        operation: None,
        pointer: String::new(),
        reason,
    }
}

fn text_of<'a>(item: &'a Json, name: &str) -> Option<&'a str> {
    match item.member(name)? {
        Json::Text(text) => Some(text),
        _ => None,
    }
}

fn value_of(item: &Json) -> Result<Json, String> {
    let value = item.member("value").cloned();
    value.ok_or_else(|| "it has no value".to_owned())
}

fn pointer_of(item: &Json, name: &str) -> Result<Pointer, String> {
    let text = text_of(item, name).ok_or_else(|| format!("it has no {name} that is a text"))?;
    Pointer::parse(text).ok_or_else(|| {
        format!("its {name} is no pointer: it begins with no slash, or has ~ without 0 or 1")
    })
}

/// A pointer to a place in a document (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pointer {
    text: String,
    names: Vec<String>,
}

impl Pointer {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let begins_with_slash = parts.next() == Some("");
        let names = parts.map(unescaped).collect::<Option<_>>()?;
        begins_with_slash.then(|| Self {
            text: text.to_owned(),
            names,
        })
    }
}

/// A name whose `~1` and `~0` are `/` and `~` again. `None` if a `~` has another successor.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('~');
    let mut unescaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part.split_at_checked(1)?;
        unescaped.push(match mark {
            "0" => '~',
            "1" => '/',
            _ => return None,
        });
        unescaped.push_str(rest);
    }
    Some(unescaped)
}

/// The place of a name in a list. `None` if it has leading zeros, or other marks than digits.
fn index(name: &str) -> Option<usize> {
    let is_index = name == "0" || !name.starts_with('0');
    let is_digits = name.bytes().all(|digit| digit.is_ascii_digit());
    (is_index && is_digits).then(|| name.parse().ok())?
}

fn find<'a, 'p>(document: &'a Json, at: &'p Pointer) -> Result<&'a Json, Misfit<'p>> {
    let mut names = at.names.iter();
    let found = names.try_fold(document, |value, name| match value {
        Json::Array(items) => items.get(index(name)?),
        _ => value.member(name),
    });
    found.ok_or((at, MISSING))
}

fn find_mut<'a>(document: &'a mut Json, names: &[String]) -> Option<&'a mut Json> {
    names.iter().try_fold(document, |value, name| match value {
        Json::Array(items) => items.get_mut(index(name)?),
        Json::Object(members) => {
            let member = members.iter_mut().find(|(found, _)| found == name);
            member.map(|(_, value)| value)
        }
        _ => None,
    })
}

/// The value that holds the place, and the name of the place in it. `None` for the whole document.
fn parent<'a, 'p>(
    document: &'a mut Json,
    at: &'p Pointer,
) -> Result<Option<(&'a mut Json, &'p str)>, Misfit<'p>> {
    let Some((name, above)) = at.names.split_last() else {
        return Ok(None);
    };
    let parent = find_mut(document, above).ok_or((at, "the document has no place above it"))?;
    Ok(Some((parent, name)))
}

fn add<'p>(document: &mut Json, at: &'p Pointer, value: Json) -> Result<(), Misfit<'p>> {
    check_depth(at, &value)?;
    match parent(document, at)? {
        None => *document = value,
        Some((Json::Array(items), "-")) => items.push(value),
        Some((Json::Array(items), name)) => {
            let place = index(name).ok_or((at, "the place in the list is no number"))?;
            if place > items.len() {
                return Err((at, "the place is beyond the end of the list"));
            }
            items.insert(place, value);
        }
        Some((Json::Object(members), name)) => set(members, name, value),
        Some(_) => return Err((at, "the value above it is neither an object nor a list")),
    }
    Ok(())
}

fn set(members: &mut Vec<(String, Json)>, name: &str, value: Json) {
    match members.iter_mut().find(|(found, _)| found == name) {
        Some((_, old)) => *old = value,
        None => members.push((name.to_owned(), value)),
    }
}

fn remove<'p>(document: &mut Json, at: &'p Pointer) -> Result<Json, Misfit<'p>> {
    match parent(document, at)? {
        Some((Json::Array(items), name)) => {
            let place = index(name).filter(|place| *place < items.len());
            place.map(|place| items.remove(place))
        }
        Some((Json::Object(members), name)) => {
            let place = members.iter().position(|(found, _)| found == name);
            place.map(|place| members.remove(place).1)
        }
        _ => None,
    }
    .ok_or((at, MISSING))
}

fn replace<'p>(document: &mut Json, at: &'p Pointer, value: Json) -> Result<(), Misfit<'p>> {
    check_depth(at, &value)?;
    *find_mut(document, &at.names).ok_or((at, MISSING))? = value;
    Ok(())
}

fn test<'p>(document: &Json, at: &'p Pointer, value: &Json) -> Result<(), Misfit<'p>> {
    match is_equal(find(document, at)?, value) {
        true => Ok(()),
        false => Err((at, "the test failed: the document has another value")),
    }
}

fn copied<'p>(
    document: &Json,
    from: &'p Pointer,
    left_bytes: &mut usize,
) -> Result<Json, Misfit<'p>> {
    let value = find(document, from)?;
    let left = left_bytes.checked_sub(value.to_text().len());
    *left_bytes = left.ok_or((from, "the copies are too large together"))?;
    Ok(value.clone())
}

/// Refuses a value that would lie too deep at a place.
// Each operation is checked, not the result alone. Values between could be so deep that the stack
// overflows.
fn check_depth<'p>(at: &'p Pointer, value: &Json) -> Result<(), Misfit<'p>> {
    let left = DEPTH_MAX.checked_sub(at.names.len());
    match left.is_some_and(|left| fits(value, left)) {
        true => Ok(()),
        false => Err((at, "values would lie more than 127 levels deep")),
    }
}

/// Whether a value has no more levels of objects and lists.
fn fits(value: &Json, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Json::Array(_) | Json::Object(_), None) => false,
        (Json::Array(items), Some(below)) => items.iter().all(|item| fits(item, below)),
        (Json::Object(members), Some(below)) => members.iter().all(|(_, value)| fits(value, below)),
        _ => true,
    }
}

/// Whether two values are equal. Numbers are compared by value, and objects without order.
fn is_equal(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => decimal::is_equal(left, right),
        (Json::Array(left), Json::Array(right)) => {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len() && pairs.all(|(left, right)| is_equal(left, right))
        }
        (Json::Object(left), Json::Object(right)) => {
            left.len() == right.len() && is_same_members(left, right)
        }
        _ => left == right,
    }
}

/// Whether all members of the left are on the right.
fn is_same_members(left: &[(String, Json)], right: &[(String, Json)]) -> bool {
    let right = right.iter().map(|(name, value)| (name.as_str(), value));
    let right: HashMap<&str, &Json> = right.collect();
    left.iter().all(|(name, left)| {
        let right = right.get(name.as_str());
        right.is_some_and(|right| is_equal(left, right))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    const LIMIT: usize = 10_000;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn patched(document: &str, patch: &str) -> Result<String, PatchError> {
        let patch = JsonPatch::parse(&json(patch))?;
        Ok(patch.apply(json(document), LIMIT)?.to_text())
    }

    /// One case of the public suite. Its values are texts, since some of them are no `Json`.
    #[derive(Deserialize)]
    struct Case<'a> {
        #[serde(default)]
        comment: String,
        #[serde(borrow)]
        doc: &'a RawValue,
        patch: &'a RawValue,
        expected: Option<&'a RawValue>,
        error: Option<String>,
        #[serde(default)]
        disabled: bool,
    }

    const TESTS: &str = include_str!("../tests/json-patch/tests.json");
    const SPEC_TESTS: &str = include_str!("../tests/json-patch/spec_tests.json");

    impl Case<'_> {
        /// The document afterwards. `None` if the patch was refused.
        fn run(&self) -> Option<String> {
            let document = Json::parse(self.doc.get().as_bytes()).unwrap();
            let patch = Json::parse(self.patch.get().as_bytes()).ok()?;
            let after = JsonPatch::parse(&patch).ok()?.apply(document, LIMIT).ok()?;
            Some(after.to_text())
        }

        fn is_as_expected(&self) -> bool {
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            match (self.run(), self.expected) {
                (None, _) => self.error.is_some(),
                (Some(after), Some(expected)) => value(&after) == value(expected.get()),
                (Some(_), None) => self.error.is_none(),
            }
        }
    }

    /// The cases whose patch is refused before it is parsed as a patch. They expect an error.
    const REFUSED_BY_THE_PARSER: [(&str, &str); 2] = [
        ("duplicate ops", "no object names a member twice"),
        (
            "A.13 Invalid JSON Patch Document",
            "no object names a member twice",
        ),
    ];

    // The four cases that are disabled in the suite run as well. None is treated otherwise.
    #[test]
    fn all_cases_of_the_public_suite_pass() {
        let mut cases: Vec<Case<'_>> = serde_json::from_str(TESTS).unwrap();
        cases.extend(serde_json::from_str::<Vec<Case<'_>>>(SPEC_TESTS).unwrap());
        let count = |is: fn(&Case<'_>) -> bool| cases.iter().filter(|case| is(case)).count();
        assert_eq!((cases.len(), count(|case| case.disabled)), (95, 4));
        assert_eq!(
            (
                count(|case| case.error.is_some()),
                count(|case| case.expected.is_some())
            ),
            (25, 63)
        );
        for case in &cases {
            let (comment, patch) = (&case.comment, case.patch.get());
            assert!(
                case.is_as_expected(),
                "{comment}: {patch} gives {:?}",
                case.run()
            );
        }
        let refused = cases
            .iter()
            .filter(|case| Json::parse(case.patch.get().as_bytes()).is_err());
        let refused: Vec<&str> = refused.map(|case| case.comment.as_str()).collect();
        assert_eq!(refused, REFUSED_BY_THE_PARSER.map(|(comment, _)| comment));
    }

    #[test]
    fn a_malformed_patch_names_its_operation_and_its_pointer() {
        for (operation, pointer, part) in [
            (r#"7"#, "", "no path"),
            (r#"{"op":"remove"}"#, "", "no path"),
            (r#"{"op":"remove","path":7}"#, "", "no path"),
            (r#"{"op":"remove","path":"a"}"#, "a", "slash"),
            (r#"{"op":"remove","path":"/a~"}"#, "/a~", "slash"),
            (r#"{"op":"remove","path":"/~2"}"#, "/~2", "slash"),
            (r#"{"op":"remove","path":"/~ä"}"#, "/~ä", "slash"),
            (r#"{"op":"remove","path":""}"#, "", "whole document"),
            (r#"{"path":"/a"}"#, "/a", "no op"),
            (r#"{"op":null,"path":"/a"}"#, "/a", "no op"),
            (r#"{"op":"Add","path":"/a","value":1}"#, "/a", "unknown"),
            (r#"{"op":"add","path":"/a"}"#, "/a", "no value"),
            (r#"{"op":"replace","path":"/a"}"#, "/a", "no value"),
            (r#"{"op":"test","path":"/a"}"#, "/a", "no value"),
            (r#"{"op":"move","path":"/a"}"#, "/a", "no from"),
            (r#"{"op":"copy","path":"/a","from":"b"}"#, "/a", "its from"),
            (
                r#"{"op":"move","path":"/a/b","from":"/a"}"#,
                "/a/b",
                "into itself",
            ),
            (
                r#"{"op":"move","path":"/a","from":""}"#,
                "/a",
                "into itself",
            ),
        ] {
            let patch = format!(r#"[{{"op":"test","path":"/x","value":1}},{operation}]"#);
            let error = JsonPatch::parse(&json(&patch)).unwrap_err();
            let PatchError::Malformed {
                operation: at,
                pointer: found,
                reason,
            } = &error
            else {
                panic!("{operation}: {error}");
            };
            assert_eq!((*at, found.as_str()), (Some(1), pointer), "{operation}");
            assert!(reason.contains(part), "{operation}: {error}");
            let shown = format!("operation 1 with the pointer {pointer:?}");
            assert!(error.to_string().starts_with(&shown), "{error}");
        }
        for wrong in ["{}", "null", r#""[]""#] {
            let error = JsonPatch::parse(&json(wrong)).unwrap_err();
            assert!(error.to_string().contains("no list"), "{error}");
        }
    }

    #[test]
    fn a_patch_has_at_most_1000_operations() {
        let operation = r#"{"op":"add","path":"/-","value":0}"#;
        let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
        assert_eq!(
            json(&patched("[]", &patch(1_000)).unwrap()),
            json(&format!("[{}]", ["0"; 1_000].join(",")))
        );
        let error = patched("[]", &patch(1_001)).unwrap_err();
        assert!(matches!(
            error,
            PatchError::Malformed {
                operation: None,
                ..
            }
        ));
        assert!(
            error.to_string().contains("1001") && error.to_string().contains("1000"),
            "{error}"
        );
    }

    #[test]
    fn a_document_that_does_not_fit_is_named_with_its_place() {
        let document = r#"{"a":[1,{"b":null}],"c":"text"}"#;
        for (operation, pointer, part) in [
            (r#"{"op":"remove","path":"/x"}"#, "/x", "no such place"),
            (r#"{"op":"remove","path":"/a/2"}"#, "/a/2", "no such place"),
            (r#"{"op":"remove","path":"/a/-"}"#, "/a/-", "no such place"),
            (
                r#"{"op":"remove","path":"/a/01"}"#,
                "/a/01",
                "no such place",
            ),
            (
                r#"{"op":"remove","path":"/a/+1"}"#,
                "/a/+1",
                "no such place",
            ),
            (r#"{"op":"remove","path":"/c/0"}"#, "/c/0", "no such place"),
            (r#"{"op":"remove","path":"/x/y"}"#, "/x/y", "no place above"),
            (
                r#"{"op":"replace","path":"/x","value":1}"#,
                "/x",
                "no such place",
            ),
            (
                r#"{"op":"replace","path":"/a/-","value":1}"#,
                "/a/-",
                "no such place",
            ),
            (
                r#"{"op":"add","path":"/x/y","value":1}"#,
                "/x/y",
                "no place above",
            ),
            (r#"{"op":"add","path":"/c/0","value":1}"#, "/c/0", "neither"),
            (
                r#"{"op":"add","path":"/a/3","value":1}"#,
                "/a/3",
                "beyond the end",
            ),
            (
                r#"{"op":"add","path":"/a/00","value":1}"#,
                "/a/00",
                "no number",
            ),
            (
                r#"{"op":"add","path":"/a/99999999999999999999","value":1}"#,
                "/a/99999999999999999999",
                "no number",
            ),
            (
                r#"{"op":"add","path":"/a/-/b","value":1}"#,
                "/a/-/b",
                "no place above",
            ),
            (
                r#"{"op":"move","path":"/x","from":"/y"}"#,
                "/y",
                "no such place",
            ),
            (
                r#"{"op":"move","path":"/y","from":"/y"}"#,
                "/y",
                "no such place",
            ),
            (
                r#"{"op":"copy","path":"/x","from":"/a/-"}"#,
                "/a/-",
                "no such place",
            ),
            (
                r#"{"op":"copy","path":"/x/y","from":"/a"}"#,
                "/x/y",
                "no place above",
            ),
            (
                r#"{"op":"test","path":"/x","value":null}"#,
                "/x",
                "no such place",
            ),
            (
                r#"{"op":"test","path":"/a/1/b","value":0}"#,
                "/a/1/b",
                "test failed",
            ),
        ] {
            let patch = format!(r#"[{{"op":"add","path":"/n","value":1}},{operation}]"#);
            let error = patched(document, &patch).unwrap_err();
            let PatchError::Unfit {
                operation: at,
                pointer: found,
                reason,
            } = &error
            else {
                panic!("{operation}: {error}");
            };
            assert_eq!((*at, found.as_str()), (1, pointer), "{operation}");
            assert!(reason.contains(part), "{operation}: {error}");
        }
    }

    #[test]
    fn a_message_holds_the_start_of_a_long_pointer() {
        let patch = format!(r#"[{{"op":"remove","path":"/{}"}}]"#, "n".repeat(100_000));
        let error = patched("{}", &patch).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn members_and_items_keep_their_places() {
        let document = r#"{"a":1.50,"b":[1,2,3],"c":{"d/e":{"~1":true}}}"#;
        for (patch, expected) in [
            (
                r#"[{"op":"add","path":"/a","value":2}]"#,
                r#"{"a":2,"b":[1,2,3],"c":{"d/e":{"~1":true}}}"#,
            ),
            (
                r#"[{"op":"replace","path":"/b/1","value":1e400}]"#,
                r#"{"a":1.50,"b":[1,1e400,3],"c":{"d/e":{"~1":true}}}"#,
            ),
            (
                r#"[{"op":"remove","path":"/c/d~1e/~01"}]"#,
                r#"{"a":1.50,"b":[1,2,3],"c":{"d/e":{}}}"#,
            ),
            (
                r#"[{"op":"move","from":"/b/0","path":"/b/2"}]"#,
                r#"{"a":1.50,"b":[2,3,1],"c":{"d/e":{"~1":true}}}"#,
            ),
            (r#"[{"op":"move","from":"/a","path":"/a"}]"#, document),
            (r#"[{"op":"move","from":"","path":""}]"#, document),
            (
                r#"[{"op":"move","from":"/c/d~1e","path":""}]"#,
                r#"{"~1":true}"#,
            ),
            (
                r#"[{"op":"move","from":"/a","path":"/ab"},{"op":"remove","path":"/c"}]"#,
                r#"{"b":[1,2,3],"ab":1.50}"#,
            ),
            (
                r#"[{"op":"copy","from":"/b","path":"/b/-"},{"op":"remove","path":"/c"}]"#,
                r#"{"a":1.50,"b":[1,2,3,[1,2,3]]}"#,
            ),
            (
                r#"[{"op":"copy","from":"","path":"/a"},{"op":"remove","path":"/c"},{"op":"remove","path":"/b"}]"#,
                r#"{"a":{"a":1.50,"b":[1,2,3],"c":{"d/e":{"~1":true}}}}"#,
            ),
        ] {
            assert_eq!(patched(document, patch).as_deref(), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn a_test_compares_numbers_by_value_and_objects_without_order() {
        for (document, value, is_equal) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            (
                "1e999999999999999999999999",
                "10e999999999999999999999998",
                true,
            ),
            ("0", "-0.0", true),
            ("9007199254740993", "9007199254740992", false),
            ("1", r#""1""#, false),
            ("null", "false", false),
            (r#""a""#, r#""\u0061""#, true),
            (r#""a""#, r#""A""#, false),
            (r#"{"a":1,"b":[2,{}]}"#, r#"{"b":[2.0,{}],"a":1}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, false),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1,2]", "[1]", false),
            ("[]", "{}", false),
        ] {
            let patch = format!(r#"[{{"op":"test","path":"","value":{value}}}]"#);
            assert_eq!(
                patched(document, &patch).is_ok(),
                is_equal,
                "{document} {value}"
            );
        }
    }

    #[test]
    fn copies_of_copies_end_at_the_limit() {
        let copy = r#"{"op":"copy","from":"","path":"/-"}"#;
        let patch = format!("[{}]", [copy; 30].join(","));
        let error = patched(r#"["text"]"#, &patch).unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
        let one = JsonPatch::parse(&json(r#"[{"op":"copy","from":"/0","path":"/-"}]"#)).unwrap();
        assert!(one.apply(json("[123]"), 3).is_ok());
        assert!(one.apply(json("[123]"), 2).is_err());
        let copy = r#"{"op":"copy","from":"/0","path":"/-"}"#;
        let two = JsonPatch::parse(&json(&format!("[{copy},{copy}]"))).unwrap();
        assert!(two.apply(json("[123]"), 6).is_ok());
        assert!(two.apply(json("[123]"), 5).is_err());
    }

    #[test]
    fn values_lie_at_most_127_levels_deep() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let add = |value: &str| format!(r#"{{"op":"add","path":"/0/-","value":{value}}}"#);
        let replace = format!(r#"{{"op":"replace","path":"/0","value":{}}}"#, nested(125));
        let copy = r#"{"op":"copy","from":"","path":"/-"}"#.to_owned();
        let below = |value: &str| {
            let path = "/0".repeat(126);
            format!(r#"{{"op":"add","path":"{path}/-","value":{value}}}"#)
        };
        let mv = r#"{"op":"move","from":"/1","path":"/0/0/0/-"}"#.to_owned();
        let two = |levels: usize| format!("[{},{}]", nested(50), nested(levels));
        for (document, operation, is_right) in [
            (nested(2), add(&nested(125)), true),
            (nested(2), add(&format!("[{}]", nested(124))), true),
            (nested(2), add(&format!(r#"{{"a":{}}}"#, nested(124))), true),
            (
                nested(3),
                add(&nested(125)).replace("/0/-", "/0/0/-"),
                false,
            ),
            (
                nested(3),
                add(&format!(r#"{{"a":{}}}"#, nested(124))).replace("/0/-", "/0/0/-"),
                false,
            ),
            (nested(3), replace.replace("/0", "/0/0"), true),
            (nested(4), replace.replace("/0", "/0/0/0"), false),
            (nested(126), copy.clone(), true),
            (nested(127), copy, false),
            (nested(127), below("0"), true),
            (nested(127), below("[]"), false),
            (nested(127), below("{}"), false),
            (two(123), mv.clone(), true),
            (two(124), mv, false),
        ] {
            let patch = format!("[{operation}]");
            match patched(&document, &patch) {
                Ok(after) => assert!(is_right && Json::parse(after.as_bytes()).is_ok(), "{patch}"),
                Err(error) => assert!(!is_right && error.to_string().contains("127"), "{error}"),
            }
        }
    }

    /// Values of few names and few numbers, so that operations often fit.
    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            "[ab]?".prop_map(Json::Text),
            "[0-2](\\.0)?".prop_map(|text| json(&text)),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            let members = proptest::collection::hash_map("[ab01]", inner.clone(), 0..4);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Json::Array),
                members.prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    fn operation() -> impl Strategy<Value = Json> {
        let ops = ["add", "remove", "replace", "move", "copy", "test"];
        let pointer = || "(/([ab01-]|~0)){0,3}".prop_map(Json::Text);
        let op = proptest::sample::select(ops.to_vec());
        (op, pointer(), pointer(), value()).prop_map(|(op, path, from, value)| {
            let members = [
                ("op", Json::Text(op.to_owned())),
                ("path", path),
                ("from", from),
                ("value", value),
            ];
            Json::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
        })
    }

    fn reversed(value: Json) -> Json {
        match value {
            Json::Array(items) => Json::Array(items.into_iter().map(reversed).collect()),
            Json::Object(members) => {
                let members = members.into_iter().rev();
                Json::Object(
                    members
                        .map(|(name, value)| (name, reversed(value)))
                        .collect(),
                )
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn any_value_is_a_patch_or_is_refused(patch in value()) {
            let _ = JsonPatch::parse(&patch);
        }

        #[test]
        fn a_patched_document_can_be_parsed(
            document in value(),
            operations in proptest::collection::vec(operation(), 0..5),
        ) {
            let patch = JsonPatch::parse(&Json::Array(operations));
            if let Some(after) = patch.ok().and_then(|patch| patch.apply(document, LIMIT).ok()) {
                prop_assert_eq!(json(&after.to_text()), after);
            }
        }

        #[test]
        fn a_document_passes_the_test_for_itself_in_any_order(document in value()) {
            let test = |value: &Json| {
                format!(r#"[{{"op":"test","path":"","value":{}}}]"#, value.to_text())
            };
            let text = document.to_text();
            prop_assert_eq!(patched(&text, &test(&document)), Ok(text.clone()));
            prop_assert_eq!(patched(&text, &test(&reversed(document))), Ok(text.clone()));
        }

        #[test]
        fn a_value_that_is_added_and_removed_leaves_the_document(
            document in value(), new in value(),
        ) {
            let text = format!(r#"[{}]"#, document.to_text());
            let (path, value) = (r#""path":"/0""#, new.to_text());
            let patch = format!(r#"[{{"op":"add",{path},"value":{value}}},{{"op":"remove",{path}}}]"#);
            prop_assert_eq!(patched(&text, &patch), Ok(text));
        }
    }
}
