//! The order of all values.

use std::cmp::Ordering;

use crate::json::Json;
use crate::number;

/// Compares any two values: null < false < true < number < text < list < object.
///
/// Numbers compare by value, so `1` and `1.0` are equal. Texts compare by their UTF-8 bytes, lists
/// element by element, and objects by their pairs of name and value, sorted by name.
#[must_use]
pub fn compare(a: &Json, b: &Json) -> Ordering {
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => number::compare(a.text(), b.text()),
        (Json::Text(a), Json::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Json::Array(a), Json::Array(b)) => lists(a, b),
        (Json::Object(a), Json::Object(b)) => objects(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Number(_) => 2,
        Json::Text(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    }
}

fn lists(a: &[Json], b: &[Json]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = compare(a, b);
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn objects(a: &[(String, Json)], b: &[(String, Json)]) -> Ordering {
    let (a, b) = (by_name(a), by_name(b));
    for ((a_name, a), (b_name, b)) in a.iter().zip(&b) {
        let names = a_name.as_bytes().cmp(b_name.as_bytes());
        let order = names.then_with(|| compare(a, b));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn by_name(members: &[(String, Json)]) -> Vec<&(String, Json)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(name, _)| name);
    members
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn types_and_values_have_one_order() {
        let sorted = [
            "null",
            "false",
            "true",
            "-1e999999999",
            "-2",
            "-1.5",
            "0",
            "1e-999999999",
            "0.1",
            "1",
            "12",
            "1e999999999",
            r#""""#,
            r#""A""#,
            r#""a""#,
            r#""aa""#,
            r#""b""#,
            r#""ä""#,
            r#""\ue000""#,
            r#""\ud800\udc00""#,
            "[]",
            "[null]",
            "[1]",
            "[1,0]",
            "[2]",
            "[[]]",
            "{}",
            r#"{"a":1}"#,
            r#"{"b":0,"a":1}"#,
            r#"{"a":2}"#,
            r#"{"b":0}"#,
        ];
        for (a_place, a) in sorted.iter().enumerate() {
            for (b_place, b) in sorted.iter().enumerate() {
                let order = compare(&json(a), &json(b));
                assert_eq!(order, a_place.cmp(&b_place), "{a} {b}");
            }
        }
    }

    fn values() -> impl Strategy<Value = Json> {
        let numbers = &[
            "0",
            "-0",
            "0.0e9",
            "1",
            "1.0",
            "10e-1",
            "-1",
            "0.1",
            "1e-1",
            "1e400",
            "10e399",
            "-1e400",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ][..];
        let leaf = prop_oneof![
            select(&["null", "false", "true"][..]).prop_map(json),
            select(numbers).prop_map(json),
            "[aä]{0,2}".prop_map(Json::Text),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let members = proptest::collection::btree_map("[a-c]", inner.clone(), 0..3);
            prop_oneof![
                proptest::collection::vec(inner, 0..3).prop_map(Json::Array),
                (members, any::<bool>()).prop_map(|(members, turned)| {
                    let mut members: Vec<_> = members.into_iter().collect();
                    if turned {
                        members.reverse();
                    }
                    Json::Object(members)
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn the_order_is_total(a in values(), b in values(), c in values()) {
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            let (ab, bc, ac) = (compare(&a, &b), compare(&b, &c), compare(&a, &c));
            if ab == bc {
                prop_assert_eq!(ac, ab);
            }
            if ab.is_eq() {
                prop_assert_eq!(ac, bc);
            }
            if bc.is_eq() {
                prop_assert_eq!(ac, ab);
            }
        }
    }
}
