//! Increments of a document's numbers, as exact decimals.

use std::collections::HashMap;
use std::fmt;

use bigdecimal::{BigDecimal, Zero};

use crate::json::{Json, RawNumber};
use crate::number::{DIGITS_MAX, EXPONENT_MAX, decimal, to_json};

/// The reason why an increment was refused. The member is a JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncrementError {
    /// No document could take this patch.
    Malformed {
        /// The member of the patch.
        member: String,
        /// The fault.
        reason: String,
    },
    /// The document has a value that cannot be incremented so.
    Unfit {
        /// The member of the document.
        member: String,
        /// The fault.
        reason: String,
    },
}

impl fmt::Display for IncrementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, member, reason) = match self {
            Self::Malformed { member, reason } => ("patch", member, reason),
            Self::Unfit { member, reason } => ("document", member, reason),
        };
        let start: String = member.chars().take(MEMBER_SHOWN).collect();
        write!(f, "{start:?} of the {whose} {reason}")
    }
}

impl std::error::Error for IncrementError {}

/// The most characters of a member that a message has.
const MEMBER_SHOWN: usize = 200;

/// Adds the numbers of a patch to the members of the same names. Objects of the patch descend. An
/// absent member becomes the increment. Returns the document, and the merge patch (RFC 7396) that
/// makes the same change.
///
/// The patch `{"a":3,"b":-2}` makes `{"a":13,"b":6}` of `{"a":10,"b":8}`. Sums are exact.
///
/// # Errors
/// `Malformed`: a member of the patch is neither a number nor an object, or has more than 1,000
/// digits or an exponent beyond 10,000. `Unfit`: a member of the document is not of the same kind,
/// or it or the sum is beyond these limits.
pub fn increment(document: Json, patch: &Json) -> Result<(Json, Json), IncrementError> {
    let mut at = Vec::new();
    let Json::Object(changes) = patch else {
        return Err(malformed(&at, "is no object"));
    };
    check(changes, &mut at)?;
    let Json::Object(mut members) = document else {
        return Err(unfit(&at, "is no object"));
    };
    let changed = raise_members(&mut members, changes, &mut at)?;
    Ok((Json::Object(members), Json::Object(changed)))
}

/// Checks that all members are numbers within the limits, or objects of such.
fn check<'a>(changes: &'a [(String, Json)], at: &mut Vec<&'a str>) -> Result<(), IncrementError> {
    for (name, by) in changes {
        at.push(name);
        match by {
            Json::Object(inner) => check(inner, at)?,
            Json::Number(number) if decimal(number).is_some() => {}
            Json::Number(_) => return Err(malformed(at, &beyond_limits("it"))),
            _ => return Err(malformed(at, "is neither a number nor an object")),
        }
        at.pop();
    }
    Ok(())
}

/// Raises members, and returns those that changed.
fn raise_members<'a>(
    members: &mut Vec<(String, Json)>,
    changes: &'a [(String, Json)],
    at: &mut Vec<&'a str>,
) -> Result<Vec<(String, Json)>, IncrementError> {
    let places = places(members, changes);
    let mut changed = Vec::new();
    for (name, by) in changes {
        at.push(name);
        let place = places.get(name.as_str()).copied().flatten();
        let new = match place.and_then(|place| members.get_mut(place)) {
            Some((_, value)) => raise(value, by, at)?,
            None => {
                members.push((name.clone(), by.clone()));
                Some(by.clone())
            }
        };
        changed.extend(new.map(|new| (name.clone(), new)));
        at.pop();
    }
    Ok(changed)
}

/// The place of each changed member. `None` if it is absent.
// A large object has as many members as a large patch, so they are found by name.
fn places<'a>(
    members: &[(String, Json)],
    changes: &'a [(String, Json)],
) -> HashMap<&'a str, Option<usize>> {
    let names = changes.iter().map(|(name, _)| (name.as_str(), None));
    let mut places: HashMap<&str, Option<usize>> = names.collect();
    for (place, (name, _)) in members.iter().enumerate() {
        if let Some(found) = places.get_mut(name.as_str()) {
            *found = Some(place);
        }
    }
    places
}

/// Raises one value, and returns its part of the merge patch. `None` if nothing changed.
fn raise<'a>(
    value: &mut Json,
    by: &'a Json,
    at: &mut Vec<&'a str>,
) -> Result<Option<Json>, IncrementError> {
    match (value, by) {
        (Json::Object(members), Json::Object(changes)) => {
            let changed = raise_members(members, changes, at)?;
            Ok((!changed.is_empty()).then_some(Json::Object(changed)))
        }
        (_, Json::Object(_)) => Err(unfit(at, "is no object")),
        (Json::Number(number), Json::Number(by)) => {
            let sum = sum(number, by, at)?;
            Ok(sum.map(|sum| {
                *number = sum.clone();
                Json::Number(sum)
            }))
        }
        _ => Err(unfit(at, "is no number")),
    }
}

/// The sum of two numbers. `None` if the second one is zero.
fn sum(
    number: &RawNumber,
    by: &RawNumber,
    at: &[&str],
) -> Result<Option<Box<RawNumber>>, IncrementError> {
    let old = decimal(number).ok_or_else(|| unfit(at, &beyond_limits("it")))?;
    let by = decimal(by).ok_or_else(|| malformed(at, &beyond_limits("it")))?;
    if by.is_zero() {
        return Ok(None);
    }
    let sum = if old.is_zero() {
        to_json(&by)
    } else if digits_of_sum(&old, &by) > DIGITS_MAX {
        return Err(unfit(at, &beyond_limits("the sum")));
    } else {
        to_json(&(old + by))
    };
    match sum {
        // A sum that could not be incremented again is none to store.
        Json::Number(sum) if decimal(&sum).is_some() => Ok(Some(sum)),
        _ => Err(unfit(at, &beyond_limits("the sum"))),
    }
}

/// The digits from the highest to the lowest one of two numbers.
// Of `1e10000` and `1e-10000` these are 20,001, so they are counted before they are added.
fn digits_of_sum(left: &BigDecimal, right: &BigDecimal) -> usize {
    let before = before_point(left).max(before_point(right));
    let after = after_point(left).max(after_point(right));
    usize::try_from(before.saturating_add(after)).unwrap_or(usize::MAX)
}

fn before_point(number: &BigDecimal) -> i128 {
    i128::from(number.digits()).saturating_sub(after_point(number))
}

fn after_point(number: &BigDecimal) -> i128 {
    number.fractional_digit_count().into()
}

fn beyond_limits(what: &str) -> String {
    format!(
        "is beyond the limits: {what} has more than {DIGITS_MAX} digits, or an exponent beyond \
         {EXPONENT_MAX}"
    )
}

fn malformed(at: &[&str], reason: &str) -> IncrementError {
    IncrementError::Malformed {
        member: pointer(at),
        reason: reason.to_owned(),
    }
}

fn unfit(at: &[&str], reason: &str) -> IncrementError {
    IncrementError::Unfit {
        member: pointer(at),
        reason: reason.to_owned(),
    }
}

fn pointer(names: &[&str]) -> String {
    let mut pointer = String::new();
    for name in names {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::number::compare;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// The document and the merge patch afterwards. They agree with each other.
    fn raised(document: &str, patch: &str) -> Result<(String, String), IncrementError> {
        let (after, merge) = increment(json(document), &json(patch))?;
        assert_eq!(json(document).merged(merge.clone()), after);
        assert_eq!(json(&after.to_text()), after);
        Ok((after.to_text(), merge.to_text()))
    }

    #[test]
    fn numbers_are_added_to_members_and_absent_ones_become_the_increment() {
        for (document, patch, expected, merge) in [
            (
                r#"{"a":10,"b":8,"x":"hello"}"#,
                r#"{"a":3,"b":-2}"#,
                r#"{"a":13,"b":6,"x":"hello"}"#,
                r#"{"a":13,"b":6}"#,
            ),
            (
                "{}",
                r#"{"b":1.50,"a":-2}"#,
                r#"{"b":1.50,"a":-2}"#,
                r#"{"b":1.50,"a":-2}"#,
            ),
            (
                r#"{"stats":{"wins":1,"lost":null}}"#,
                r#"{"stats":{"wins":1}}"#,
                r#"{"stats":{"wins":2,"lost":null}}"#,
                r#"{"stats":{"wins":2}}"#,
            ),
            (
                "{}",
                r#"{"stats":{"wins":1}}"#,
                r#"{"stats":{"wins":1}}"#,
                r#"{"stats":{"wins":1}}"#,
            ),
            (
                r#"{"a":0.1}"#,
                r#"{"a":0.2}"#,
                r#"{"a":0.3}"#,
                r#"{"a":0.3}"#,
            ),
            (r#"{"a":1.25}"#, r#"{"a":0.75}"#, r#"{"a":2}"#, r#"{"a":2}"#),
            (
                r#"{"a":9007199254740993}"#,
                r#"{"a":1}"#,
                r#"{"a":9007199254740994}"#,
                r#"{"a":9007199254740994}"#,
            ),
            (r#"{"a":5}"#, r#"{"a":-5.0}"#, r#"{"a":0}"#, r#"{"a":0}"#),
            (
                r#"{"a":0e-9999}"#,
                r#"{"a":1e9999}"#,
                r#"{"a":1e9999}"#,
                r#"{"a":1e9999}"#,
            ),
        ] {
            let expected = Ok((expected.to_owned(), merge.to_owned()));
            assert_eq!(raised(document, patch), expected, "{document} with {patch}");
        }
    }

    #[test]
    fn an_increment_of_zero_changes_nothing() {
        for patch in ["{}", r#"{"a":0}"#, r#"{"b":{"c":-0.0,"d":{}}}"#] {
            let document = r#"{"a":1.50,"b":{"c":12e9999,"d":{}}}"#;
            let same = Ok((document.to_owned(), "{}".to_owned()));
            assert_eq!(raised(document, patch), same, "{patch}");
        }
    }

    #[test]
    fn a_patch_that_no_document_takes_is_malformed_and_names_its_member() {
        let long = format!(r#"{{"a":{}}}"#, "1".repeat(1_001));
        for (patch, wrong, part) in [
            ("3", "", "no object"),
            ("[1]", "", "no object"),
            (r#"{"a":"1"}"#, "/a", "neither"),
            (r#"{"a":1,"s":{"w~/l":[1]}}"#, "/s/w~0~1l", "neither"),
            (r#"{"a":null}"#, "/a", "neither"),
            (r#"{"new":{"b":true}}"#, "/new/b", "neither"),
            (r#"{"a":1e10001}"#, "/a", "10000"),
            (r#"{"new":1e10001}"#, "/new", "10000"),
            (&long, "/a", "1000 digits"),
        ] {
            let error = raised(r#"{"a":1}"#, patch).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{wrong:?} of the patch")),
                "{error}"
            );
            assert!(matches!(error, IncrementError::Malformed { member, .. } if member == wrong));
        }
    }

    #[test]
    fn a_document_that_does_not_fit_is_named_with_its_member() {
        let long = format!(r#"{{"a":{}}}"#, "9".repeat(1_000));
        for (document, patch, wrong) in [
            ("3", r#"{"a":1}"#, ""),
            (r#"{"a":null}"#, r#"{"a":1}"#, "/a"),
            (
                r#"{"a":1,"b":{"c":1},"d":null}"#,
                r#"{"a":1,"b":{"c":1},"d":1}"#,
                "/d",
            ),
            (r#"{"a":"1"}"#, r#"{"a":1}"#, "/a"),
            (r#"{"a":{"b":[1]}}"#, r#"{"a":{"b":0}}"#, "/a/b"),
            (r#"{"a":{}}"#, r#"{"a":1}"#, "/a"),
            (r#"{"a":1}"#, r#"{"a":{}}"#, "/a"),
            (r#"{"a":1e10001}"#, r#"{"a":1}"#, "/a"),
            (r#"{"a":1e10000}"#, r#"{"a":1e-10000}"#, "/a"),
            (r#"{"a":1e1000}"#, r#"{"a":1}"#, "/a"),
            (r#"{"a":99e9999}"#, r#"{"a":1e9999}"#, "/a"),
            (&long, r#"{"a":2}"#, "/a"),
        ] {
            let error = raised(document, patch).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{wrong:?} of the document")),
                "{error}"
            );
            assert!(matches!(error, IncrementError::Unfit { member, .. } if member == wrong));
        }
    }

    #[test]
    fn a_message_holds_the_start_of_a_long_name() {
        let error = raised("{}", &format!(r#"{{"{}":null}}"#, "n".repeat(100_000))).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn the_digits_of_a_sum_are_counted_before_it_is_made() {
        for (left, right, digits) in [
            ("1", "1", 1),
            ("100", "-0.25", 5),
            ("1e10000", "1e-10000", 20_001),
            ("1e-10000", "2e-9999", 2),
            ("1.5e10000", "7e9998", 3),
        ] {
            let (left, right) = (left.parse().unwrap(), right.parse().unwrap());
            assert_eq!(digits_of_sum(&left, &right), digits, "{left} {right}");
            assert_eq!(digits_of_sum(&right, &left), digits, "{right} {left}");
        }
    }

    fn number() -> impl Strategy<Value = String> {
        "(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?(e-?[0-9]{1,2})?"
    }

    proptest! {
        #[test]
        fn an_increment_and_its_negative_give_an_equal_number(
            old in number(), sign in "-?", by in number(),
        ) {
            let document = format!(r#"{{"a":{sign}{old}}}"#);
            let (once, _) = raised(&document, &format!(r#"{{"a":{by}}}"#)).unwrap();
            let (twice, _) = raised(&once, &format!(r#"{{"a":-{by}}}"#)).unwrap();
            let (Json::Object(old), Json::Object(new)) = (json(&document), json(&twice)) else {
                panic!("no objects");
            };
            let (Json::Number(old), Json::Number(new)) = (&old[0].1, &new[0].1) else {
                panic!("no numbers");
            };
            prop_assert!(compare(old.text(), new.text()).is_eq(), "{} {}", document, twice);
        }

        #[test]
        fn integers_are_added_as_integers(old: i64, by: i64) {
            let (after, _) = raised(&format!(r#"{{"a":{old}}}"#), &format!(r#"{{"a":{by}}}"#)).unwrap();
            prop_assert_eq!(after, format!(r#"{{"a":{}}}"#, i128::from(old) + i128::from(by)));
        }
    }
}
