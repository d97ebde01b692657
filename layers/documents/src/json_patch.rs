//! JSON Patch (RFC 6902): operations that change a document, all of them or none.
//!
//! The crate `json-patch` works on values whose numbers lose digits, and refuses neither too many
//! operations nor too large copies, so this module has its own operations on [`Json`].

use std::fmt;

use crate::filter::compare;
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
    // Numbers are equal by value, and objects without order.
    match compare(find(document, at)?, value).is_eq() {
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

#[cfg(test)]
mod tests;
