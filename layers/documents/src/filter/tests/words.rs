//! Functions, literals and names.

use super::assert_values;
use crate::filter::Filter;

#[test]
fn functions_give_their_results() {
    assert_values(&[
        ("case(level > 10, 'high', 'low')", r#""high""#),
        (
            "case(shut, missing, open, 'second', 'third')",
            r#""second""#,
        ),
        ("case(shut, 1, shut, 2, missing)", "the item has no missing"),
        ("case(1, 2, 3)", "case takes booleans, not a number"),
        (
            "empty(empty) and empty(none) and empty(null) and empty({})",
            "true",
        ),
        ("empty(zero) or empty(name) or empty(shut)", "false"),
        ("length(name)", "8"),
        ("length(tags)", "5"),
        ("length(pos)", "3"),
        (
            "length(level)",
            "length takes a text, a list or an object, not a number",
        ),
        ("upper(name)", r#""STRASSE 5""#),
        ("lower('ÄB')", r#""äb""#),
        ("split('a,b,,c,', ',')", r#"["a","b","","c",""]"#),
        (
            "split(id, '')",
            "split takes a separator of a character at least, not an empty text",
        ),
        ("index_of(name, 'e')", "5"),
        ("index_of(name, 'q')", "-1"),
        ("substr(name, 4)", r#""ße 5""#),
        ("substr(name, 4, 5)", r#""ß""#),
        ("substr(name, 4.0, 99)", r#""ße 5""#),
        ("substr(name, 5, 2)", r#""""#),
        ("substr(name, 99)", r#""""#),
        (
            "substr(name, -1)",
            "substr takes places that are whole and not negative, not this number",
        ),
        (
            "substr(name, 0.5)",
            "substr takes places that are whole and not negative, not this number",
        ),
        (
            "substr(name, 1e9999)",
            "substr takes places that are whole and not negative, not this number",
        ),
        ("compare_ignoring_case('ÄNN', 'änn')", "0"),
        ("compare_ignoring_case('a', 'B')", "-1"),
        ("compare_ignoring_case('C', 'b')", "1"),
        (
            "compare_ignoring_case('C', 1)",
            "compare_ignoring_case takes texts, not a number",
        ),
    ]);
}

#[test]
fn literals_and_names_are_read_in_all_their_forms() {
    assert_values(&[
        (
            r#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00""#,
            r#""\"\\/\b\f\n\r\tä😀""#,
        ),
        (r#"'a\n"b'"#, r#""a\\n\"b""#),
        ("''", r#""""#),
        ("1.50e+3", "1.50e+3"),
        ("0x10", "16"),
        ("[ ]", "[]"),
        (
            "[true, null, -1.5, 0xf, 'x', [[]], {}]",
            r#"[true,null,-1.5,15,"x",[[]],{}]"#,
        ),
        (r#"{"a": 1, 'b': {"c": []}}"#, r#"{"a":1,"b":{"c":[]}}"#),
        ("pos.x", "1"),
        ("pos.`y.z`", "2"),
        ("pos.or", "3"),
        ("`a b`", r#""spaced""#),
        ("`ti``ck`", r#""tick""#),
        ("`id`\n=\t'ann'\r", "true"),
    ]);
}

#[test]
fn words_end_where_the_word_ends() {
    assert_values(&[
        ("band = 7", "true"),
        ("organd = 'o'", "true"),
        ("band=7 and(organd)='o'", "true"),
        ("exists(nottrue)", "false"),
        ("exists(hasnot)", "false"),
        ("exists($x_1.like)", "false"),
        ("[7]has 7", "true"),
    ]);
    for wrong in [
        "openor shut",
        "open andshut",
        "5and 6",
        "open has notshut x",
        "1x",
        "0xg",
        "0x",
    ] {
        assert!(Filter::parse(wrong).is_err(), "{wrong}");
    }
    assert!(Filter::parse("open and'x'").is_ok());
}
