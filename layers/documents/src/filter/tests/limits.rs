//! Limits of texts, trees and steps.

use super::json;
use crate::filter::{DEPTH_MAX, DIGITS_MAX, EvalError, Filter, NODES_MAX, TEXT_BYTES_MAX};
use crate::json::Json;

#[test]
fn limits_hold_at_their_edges() {
    let numbers = |digits: usize| Filter::parse(&format!("1{} > 0", "2".repeat(digits - 1)));
    assert!(numbers(DIGITS_MAX).is_ok());
    assert!(numbers(DIGITS_MAX + 1).is_err());
    assert!(Filter::parse(&format!("0x{}", "f".repeat(4_000))).is_err());
    assert!(Filter::parse("1e10000 > 1e-10000").is_ok());

    let long = |bytes: usize| Filter::parse(&format!("'{}'", "x".repeat(bytes - 2)));
    assert!(long(TEXT_BYTES_MAX).is_ok());
    assert!(long(TEXT_BYTES_MAX + 1).is_err());

    let nested = |open: &str, close: &str, depth: usize| {
        Filter::parse(&format!("{}1{}", open.repeat(depth), close.repeat(depth)))
    };
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("!", ""),
        ("{'a':", "}"),
        ("lower(", ")"),
    ] {
        let open = if open == "-" { "- " } else { open };
        assert!(nested(open, close, DEPTH_MAX).is_ok(), "{open}");
        let refused = nested(open, close, DEPTH_MAX + 1).unwrap_err().to_string();
        assert!(refused.contains("more than 32 levels"), "{open}: {refused}");
    }
    // A chain of n operands has n - 1 operators.
    let chain = |operands: usize| Filter::parse(&vec!["1"; operands].join("+"));
    assert_eq!(
        chain(NODES_MAX / 2).unwrap().eval(&Json::Null),
        Ok(json("128"))
    );
    let negative = format!("-1{}", "+1".repeat(NODES_MAX / 2 - 1));
    assert!(Filter::parse(&negative).is_ok());
    let brackets = vec!["(1)"; DEPTH_MAX * 2].join("+");
    assert!(
        Filter::parse(&brackets).is_ok(),
        "brackets beside each other are no levels"
    );
    let refused = chain(NODES_MAX / 2 + 1).unwrap_err().to_string();
    assert!(
        refused.contains("more than 256 operands and operators"),
        "{refused}"
    );
}

#[test]
fn nesting_without_end_is_refused_and_not_followed() {
    for open in [
        "(",
        "[",
        "!",
        "- ",
        "{'a':",
        "lower(",
        "case(a,",
        "a and (",
        "a or b xor c and (",
    ] {
        let text = open.repeat(100_000);
        assert!(Filter::parse(&text).is_err(), "{open}");
        let short: String = text.chars().take(TEXT_BYTES_MAX).collect();
        assert!(Filter::parse(&short).is_err(), "{open}");
    }
}

#[test]
fn the_deepest_trees_are_evaluated_on_half_the_stack_of_a_thread() {
    let nested = format!(
        "{}1{}{}",
        "1 + (".repeat(32),
        ")".repeat(32),
        " - 0".repeat(95)
    );
    let negated = vec!["1"; 128].join(" != ");
    let evaluate = move || {
        let value = |text: &str| Filter::parse(text).unwrap().eval(&Json::Null);
        assert_eq!(value(&nested), Ok(json("33")));
        assert_eq!(value(&negated), Ok(json("true")));
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    thread.spawn(evaluate).unwrap().join().unwrap();
}

#[test]
fn an_evaluation_ends_after_a_number_of_steps() {
    let many: Vec<_> = (0..100_000).map(|n| format!("{n}")).collect();
    let item = json(&format!(
        "{{\"x\":[{}],\"t\":\"{}\"}}",
        many.join(","),
        ",".repeat(1 << 20)
    ));
    for filter in ["x has x", "x -- x = []", "length(split(t, ',')) > 0"] {
        let filter = Filter::parse(filter).unwrap();
        assert_eq!(filter.eval(&item), Err(EvalError::Work));
    }
    let doubled = Filter::parse(&vec!["t"; 100].join("++")).unwrap();
    assert_eq!(doubled.eval(&item), Err(EvalError::Work));
    for filter in [
        "x has [5, 99999]",
        "length(x -- 5) = 99999",
        "t has ',,'",
        "length(t ++ t) > 9",
    ] {
        assert!(Filter::parse(filter).unwrap().matches(&item), "{filter}");
    }
}

#[test]
fn a_search_that_remembers_much_ends_within_the_limit_of_steps() {
    let text = "ab".repeat(300 << 10);
    let item = Json::Object(vec![("x".into(), Json::Text(text))]);
    let search = Filter::parse("x like '[ab]*a[ab]{500}c'").unwrap();
    assert_eq!(search.eval(&item), Err(EvalError::Work));
}
