//! Texts that are no filters.

use super::refusal;
use crate::filter::Filter;

#[test]
fn a_refusal_says_the_place_and_the_way_out() {
    for (filter, expected) in [
        ("", "at byte 0: the text ends too early; write a value here"),
        (
            "id =",
            "at byte 4: the text ends too early; write a value here",
        ),
        ("id == 'a'", "at byte 3: == is no operator; write ="),
        ("a && b", "at byte 2: && is no operator; write and"),
        (
            "a b",
            "at byte 2: b stands in the wrong place; write an operator before it",
        ),
        (
            "(a",
            "at byte 2: the text ends too early; write ) or an operator",
        ),
        ("a)", "at byte 1: ) stands in the wrong place; "),
        (
            "and",
            "at byte 0: and stands in the wrong place; write a value before it, or `and` in",
        ),
        (
            "a not b",
            "at byte 6: b stands in the wrong place; write like behind not, or !",
        ),
        (
            "größe > 1",
            "at byte 2: 'ö' has no meaning here; put a name in backticks",
        ),
        ("a.", "at byte 2: a name ends with a dot; "),
        ("a.1", "at byte 2: a name ends with a dot; "),
        (".5", "at byte 0: '.' has no meaning here; "),
        ("01", "at byte 0: 01 is no number; "),
        ("1.", "at byte 0: 1. is no number; "),
        ("1e", "at byte 0: 1e is no number; "),
        (
            "a = \"x",
            "at byte 4: a text does not end; close it with \"",
        ),
        ("a = 'x", "at byte 4: a text does not end; close it with '"),
        ("`x", "at byte 0: a name does not end; close it with `"),
        (
            r#"a = "\d""#,
            "at byte 4: a text has a wrong escape or a control character; ",
        ),
        (
            r#"a = "\ud800""#,
            "at byte 4: a text has a wrong escape or a control character; ",
        ),
        (
            r#"s"x $id""#,
            "at byte 0: texts with names in them are not offered; join its parts with ++",
        ),
        (
            "[1, a]",
            "at byte 4: a stands in the wrong place; write a value here; lists and objects",
        ),
        (
            "[1 2]",
            "at byte 3: a value stands in the wrong place; write ,",
        ),
        (
            "[-'x']",
            "at byte 2: a value stands in the wrong place; write - before numbers",
        ),
        (
            "{'a':1,'a':2}",
            "at byte 7: a value stands in the wrong place; write each member once",
        ),
        (
            "{1:2}",
            "at byte 1: a value stands in the wrong place; write the name of a member",
        ),
        (
            "now()",
            "at byte 0: there is no function now; the functions are case, empty, exists",
        ),
        ("a.lower(b)", "at byte 0: there is no function a.lower; "),
        (
            "lower()",
            "at byte 0: lower does not take 0 arguments; write lower(text)",
        ),
        (
            "case(a, b)",
            "at byte 0: case does not take 2 arguments; write case(if, then, [if",
        ),
        (
            "case(a, b, c, d)",
            "at byte 0: case does not take 4 arguments; ",
        ),
        ("substr(a)", "at byte 0: substr does not take 1 arguments; "),
        (
            "1e10001",
            "at byte 0: a number is beyond the limits; it may have 1000 digits",
        ),
        (
            "x = -1e-10001",
            "at byte 5: a number is beyond the limits; ",
        ),
    ] {
        let refused = refusal(filter);
        assert!(
            refused.starts_with(expected),
            "{filter}\n{refused}\n{expected}"
        );
    }
    assert_eq!(Filter::parse("id =").unwrap_err().at(), 4);
}
