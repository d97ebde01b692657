//! Each operator, for values that it takes and others.

use super::{ITEM, assert_values, json, refusal, value};
use crate::filter::Filter;

#[test]
fn booleans_combine_and_the_right_side_is_only_looked_at_if_it_matters() {
    assert_values(&[
        ("true or missing", "true"),
        ("false or missing", "the item has no missing"),
        ("missing or true", "the item has no missing"),
        ("false and missing", "false"),
        ("true and missing", "the item has no missing"),
        ("open and !shut", "true"),
        ("open xor shut", "true"),
        ("open xor true", "false"),
        ("open and 1", "and takes booleans, not a number"),
        ("null or open", "or takes booleans, not null"),
        ("!id", "! takes booleans, not a text"),
    ]);
}

#[test]
fn values_are_equal_by_type_and_value() {
    assert_values(&[
        ("level = 12.00", "true"),
        ("level = 0.12e2", "true"),
        ("level = '12'", "false"),
        ("level != '12'", "true"),
        ("id = \"ann\"", "true"),
        ("id != 'ann'", "false"),
        ("[1, {'a': 1, 'b': 2}] = [1.0, {'b': 2, 'a': 1}]", "true"),
        ("pos = {'or':3,'y.z':2,'x':1}", "true"),
        ("big = 1e9 * 10", "false"),
        ("null = false", "false"),
    ]);
}

#[test]
fn a_missing_name_is_an_error_except_for_exists_and_beside_null() {
    assert_values(&[
        ("missing", "the item has no missing"),
        ("missing = 1", "the item has no missing"),
        ("pos.w > 1", "the item has no pos.w"),
        ("id.x", "the item has no id.x"),
        ("missing = null", "true"),
        ("null = pos.w", "true"),
        ("missing != null", "false"),
        ("id != null", "true"),
        ("missing = missing", "the item has no missing"),
        ("missing + 1 = null", "the item has no missing"),
        ("exists(missing)", "false"),
        ("exists(null)", "false"),
        ("exists(pos.w)", "false"),
        ("exists(pos.x)", "true"),
        ("exists(missing + 1)", "false"),
        ("exists(id + 1)", "+ takes numbers, not a text"),
        ("exists(missing) and missing = 1", "false"),
        ("empty(missing)", "the item has no missing"),
    ]);
    let wrong = Filter::parse("missing = 1 or true").unwrap();
    assert!(!wrong.matches(&json(ITEM)));
    for not_true in ["1", "'true'", "null", "[true]", "false"] {
        assert!(
            !Filter::parse(not_true).unwrap().matches(&json(ITEM)),
            "{not_true}"
        );
    }
    assert!(!Filter::parse("id = 'a'").unwrap().matches(&json("[1]")));
}

#[test]
fn comparisons_take_two_numbers_or_two_texts() {
    assert_values(&[
        ("level < 12.5", "true"),
        ("level <= 12", "true"),
        ("level >= 12.0", "true"),
        ("level > 12", "false"),
        ("-1 < zero", "true"),
        ("big > 1e10000", "true"),
        ("id < 'b'", "true"),
        ("'' < id", "true"),
        ("'a' < 'B'", "false"),
        ("'\u{e000}' < '\u{10000}'", "true"),
        (
            "id < 5",
            "< takes two numbers or two texts, not one of each",
        ),
        ("id >= null", ">= takes two numbers or two texts, not null"),
        ("tags > 1", "> takes two numbers or two texts, not a list"),
        (
            "1 < 2 < 3",
            "< takes two numbers or two texts, not a boolean",
        ),
    ]);
}

#[test]
fn has_looks_for_elements_and_for_parts_of_texts() {
    assert_values(&[
        ("[5,6,7] has 6", "true"),
        ("[5,6,7] has 8", "false"),
        ("[5,6,7] has [6,8]", "false"),
        ("[5,6,7] has [6,7]", "true"),
        ("tags has '3'", "false"),
        ("tags has 3.00", "true"),
        ("tags has [['x'], 'a']", "true"),
        ("tags has ['x']", "false"),
        ("tags has []", "true"),
        ("none has 1", "false"),
        ("\"hello\" has \"el\"", "true"),
        ("name has ['Str', '5']", "true"),
        ("name has ['Str', '6']", "false"),
        ("name has not '6'", "true"),
        ("tags has not 'a'", "false"),
        ("name has 5", "has takes texts behind a text, not a number"),
        (
            "level has 1",
            "has takes a list or a text at the left, not a number",
        ),
    ]);
}

#[test]
fn like_searches_a_regular_expression() {
    assert_values(&[
        (r#""abc12" like "[a-c]+\\d+""#, "true"),
        (r"'abc12' like '[a-c]+\d+'", "true"),
        (r"'12' not like '[a-c]+\d+'", "true"),
        ("name like 'aß'", "true"),
        ("name like '^aß'", "false"),
        ("id like '^' ++ id ++ '$'", "true"),
        ("name not like id", "true"),
        ("level like '1'", "like takes texts, not a number"),
        ("id like level", "like takes texts, not a number"),
    ]);
    let value = value("id like '(' ++ id");
    assert_eq!(value, "the pattern does not compile: unclosed group");
    let refused = refusal("id like '(ann'");
    assert!(
        refused.starts_with("at byte 8: the pattern does not compile: unclosed group; "),
        "{refused}"
    );
    let large = refusal(r"id like '(\w{100}){100}'");
    assert!(
        large.contains("it takes more than 65536 bytes; "),
        "{large}"
    );
    let groups = |depth: usize| {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        Filter::parse(&format!("id like '{open}a{close}'"))
    };
    assert!(groups(30).is_ok());
    assert!(groups(40).is_err());
    assert!(groups(1_000).is_err());
}

#[test]
fn arithmetic_is_exact() {
    assert_values(&[
        ("4*5+3*2", "26"),
        ("0.1 + 0.2", "0.3"),
        ("0.1 + 0.2 = 0.3", "true"),
        ("1 - 1.0", "0"),
        ("9007199254740993 + 0", "9007199254740993"),
        ("1.5 * -2", "-3"),
        ("7 / 2", "3.5"),
        ("1 / 3 * 3", "0.9999999999999999999999999999999999"),
        ("2 / 3", "0.6666666666666666666666666666666667"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "1.5"),
        ("7 % 0.4", "0.2"),
        ("level - -level", "24"),
        ("- - level", "12"),
        ("0xff + 0X0a", "265"),
        ("0x1e-5", "25"),
        ("1e-1-1", "-0.9"),
        (
            "2 ++ 3",
            "++ takes two texts, or a list and values, not a number",
        ),
        ("1 / zero", "a division by zero"),
        ("1 % zero", "a division by zero"),
        ("id + 1", "+ takes numbers, not a text"),
        ("-open", "- takes numbers, not a boolean"),
        (
            "big + 1",
            "a number has too many digits or too large an exponent",
        ),
        (
            "-big",
            "a number has too many digits or too large an exponent",
        ),
        (
            "1e9000 + 1",
            "a number has too many digits or too large an exponent",
        ),
        (
            "1e9000 % 3",
            "a number has too many digits or too large an exponent",
        ),
        (
            "1e9000 * 1e9000",
            "a number has too many digits or too large an exponent",
        ),
        (
            "1e9000 / 1e-9000",
            "a number has too many digits or too large an exponent",
        ),
        ("1e9000 + 0 = 1e9000", "true"),
        ("1e1000 - 1 < 1e1000 and 1e1000 - 1 > 1e1000 - 2", "true"),
        (
            "1e1001 - 1",
            "a number has too many digits or too large an exponent",
        ),
    ]);
}

#[test]
fn lists_and_texts_are_joined_and_elements_removed() {
    assert_values(&[
        ("'a' ++ \"b\"", r#""ab""#),
        ("[1] ++ [2, 3]", "[1,2,3]"),
        ("[1] ++ 'x'", r#"[1,"x"]"#),
        ("tags -- 3", r#"["a","b",["x"]]"#),
        ("tags -- ['b', ['x'], 3]", r#"["a"]"#),
        ("none -- 1", "[]"),
        (
            "'a' ++ 1",
            "++ takes two texts, or a list and values, not a number",
        ),
        ("'a' -- 'a'", "-- takes a list at the left, not a text"),
    ]);
}
