//! The cases of the public suites, and cases of our own.

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

const TESTS: &str = include_str!("../../tests/json-patch/tests.json");
const SPEC_TESTS: &str = include_str!("../../tests/json-patch/spec_tests.json");

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
