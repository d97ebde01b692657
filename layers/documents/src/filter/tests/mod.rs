//! Tests of the language as a whole.

mod limits;
mod operators;
mod refusals;
mod words;

use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

const ITEM: &str = r#"{
    "id":"ann", "level":12, "zero":0, "big":1e99999, "open":true, "shut":false, "band":7,
    "name":"Straße 5", "empty":"", "tags":["a","b",3,3.0,["x"]], "none":[],
    "pos":{"x":1,"y.z":2,"or":3}, "organd":"o", "a b":"spaced", "ti`ck":"tick"
}"#;

/// The value of a filter for [`ITEM`], as text, or its error.
fn value(filter: &str) -> String {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter:?}: {error}"));
    match filter.eval(&json(ITEM)) {
        Ok(value) => value.to_text(),
        Err(error) => error.to_string(),
    }
}

fn assert_values(table: &[(&str, &str)]) {
    for (filter, expected) in table {
        assert_eq!(value(filter), *expected, "{filter}");
    }
}

/// The error of a text that is no filter.
fn refusal(filter: &str) -> String {
    Filter::parse(filter).unwrap_err().to_string()
}

/// An expression with all its brackets.
fn brackets(expr: &Expr) -> String {
    match expr {
        Expr::Literal(literal) => literal.to_text(),
        Expr::Name(path) => path.join("."),
        Expr::Not(inner) => format!("!{}", brackets(inner)),
        Expr::Negate(inner) => format!("-{}", brackets(inner)),
        Expr::Binary(binary, sides) => {
            let (left, right) = (brackets(&sides.0), brackets(&sides.1));
            format!("({left} {} {right})", binary.text())
        }
        Expr::Like(text, pattern) => format!("({} like {pattern})", brackets(text)),
        Expr::Call(function, arguments) => {
            let arguments: Vec<_> = arguments.iter().map(brackets).collect();
            format!("{}({})", function.name(), arguments.join(", "))
        }
    }
}

#[test]
fn operators_bind_in_the_order_of_their_levels_and_from_left_to_right() {
    for (filter, expected) in [
        ("a or b xor c", "(a or (b xor c))"),
        ("a xor b or c", "((a xor b) or c)"),
        ("a xor b and c", "(a xor (b and c))"),
        ("a and b xor c", "((a and b) xor c)"),
        ("a and b = c", "(a and (b = c))"),
        ("a = b != c", "!((a = b) = c)"),
        ("a = b < c", "(a = (b < c))"),
        ("a <= b != c >= d", "!((a <= b) = (c >= d))"),
        ("a > b has c", "(a > (b has c))"),
        ("a like b > c not like d", "((a like b) > !(c like d))"),
        ("a has b + c", "(a has (b + c))"),
        ("a has  not b ++ c -- d", "!(a has ((b ++ c) -- d))"),
        ("a - b + c", "((a - b) + c)"),
        ("a - b * c / d % e", "(a - (((b * c) / d) % e))"),
        ("-a * !b", "(-a * !b)"),
        ("!a = b", "(!a = b)"),
        ("a - -b", "(a - -b)"),
        ("a--b", "(a -- b)"),
        ("(a or b) and (c)", "((a or b) and c)"),
        ("a or b or c and d", "((a or b) or (c and d))"),
        (
            "a or b xor c and d = e < f has g + h * -i",
            "(a or (b xor (c and (d = (e < (f has (g + (h * -i))))))))",
        ),
        ("lower(a) = 'x'", r#"(lower(a) = "x")"#),
        (
            "case(a or b, [1, -2], {\"k\": null})",
            r#"case((a or b), [1,-2], {"k":null})"#,
        ),
    ] {
        let parsed = Filter::parse(filter).unwrap();
        assert_eq!(brackets(&parsed.expr), expected, "{filter}");
    }
}

/// Pieces of filters.
const PIECES: [&str; 48] = [
    "(", ")", "[", "]", "{", "}", ",", ":", "=", "!=", "<", "<=", ">", ">=", "+", "-", "++", "--",
    "*", "/", "%", "!", "and", "or", "xor", "has", "not", "like", "true", "null", "id", "b",
    "pos.x", "`a b`", "1", "0x1f", "1e400", "0", "'a'", "\"b\\n\"", "['a',1]", "{'k':1}", "case(",
    "exists(", "length(", "substr(", "split(", "lower(",
];

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,80}|[ -~]{0,80}") {
        if let Err(error) = Filter::parse(&text) {
            prop_assert!(error.at() <= text.len() && text.is_char_boundary(error.at()));
        }
        let _ = Sort::parse(&text);
    }

    #[test]
    fn any_pieces_are_parsed_or_refused_and_evaluated(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..24)
    ) {
        if let Ok(filter) = Filter::parse(&pieces.join(" ")) {
            let _ = filter.eval(&json(ITEM));
            let _ = filter.bounds("id");
        }
    }
}
