//! The range that a filter leaves of a member.

use super::expr::{Binary, Expr};
use crate::json::Json;

/// A range of texts. The flag says whether the bound itself belongs to it.
///
/// No text is within `lower` and `upper` if `lower` is above `upper`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The least text.
    pub lower: Option<(String, bool)>,
    /// The greatest text.
    pub upper: Option<(String, bool)>,
}

impl Bounds {
    /// Whether a text is within the range. Texts compare by their UTF-8 bytes.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        let above = match &self.lower {
            Some((lower, true)) => text >= lower.as_str(),
            Some((lower, false)) => text > lower.as_str(),
            None => true,
        };
        let below = match &self.upper {
            Some((upper, true)) => text <= upper.as_str(),
            Some((upper, false)) => text < upper.as_str(),
            None => true,
        };
        above && below
    }

    /// Moves the lower bound up, unless it is tighter already.
    fn raise(&mut self, text: &str, inclusive: bool) {
        let tighter = match &self.lower {
            Some((lower, before)) => (text, !inclusive) > (lower, !before),
            None => true,
        };
        if tighter {
            self.lower = Some((text.to_owned(), inclusive));
        }
    }

    /// Moves the upper bound down, unless it is tighter already.
    fn cut(&mut self, text: &str, inclusive: bool) {
        let tighter = match &self.upper {
            Some((upper, before)) => (text, inclusive) < (upper, *before),
            None => true,
        };
        if tighter {
            self.upper = Some((text.to_owned(), inclusive));
        }
    }
}

/// The bounds that a member has if the expression is true.
pub(super) fn of(expr: &Expr, member: &str) -> Bounds {
    let mut bounds = Bounds::default();
    // All sides of `and` are true, at any depth. Sides of other operators need not be.
    let mut conditions = vec![expr];
    while let Some(condition) = conditions.pop() {
        let Expr::Binary(binary, sides) = condition else {
            continue;
        };
        match (binary, &**sides) {
            (Binary::And, (left, right)) => conditions.extend([left, right]),
            (binary, (Expr::Name(path), Expr::Literal(Json::Text(text)))) if *path == [member] => {
                narrow(&mut bounds, *binary, text);
            }
            (binary, (Expr::Literal(Json::Text(text)), Expr::Name(path))) if *path == [member] => {
                narrow(&mut bounds, turned(*binary), text);
            }
            _ => {}
        }
    }
    bounds
}

/// Narrows the bounds by `member operator text`.
fn narrow(bounds: &mut Bounds, binary: Binary, text: &str) {
    match binary {
        Binary::More => bounds.raise(text, false),
        Binary::AtLeast => bounds.raise(text, true),
        Binary::Less => bounds.cut(text, false),
        Binary::AtMost => bounds.cut(text, true),
        Binary::Equal => {
            bounds.raise(text, true);
            bounds.cut(text, true);
        }
        _ => {}
    }
}

/// The comparison with its sides exchanged. Other operators do not narrow, whichever way.
fn turned(binary: Binary) -> Binary {
    match binary {
        Binary::Less => Binary::More,
        Binary::AtMost => Binary::AtLeast,
        Binary::More => Binary::Less,
        Binary::AtLeast => Binary::AtMost,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::filter::Filter;

    fn bounds(filter: &str) -> String {
        let Bounds { lower, upper } = Filter::parse(filter).unwrap().bounds("id");
        let lower = lower.map_or("(".into(), |(text, with)| {
            format!("{}{text}", if with { "[" } else { "(" })
        });
        let upper = upper.map_or(")".into(), |(text, with)| {
            format!("{text}{}", if with { "]" } else { ")" })
        });
        format!("{lower},{upper}")
    }

    #[test]
    fn comparisons_with_texts_bound_alone_and_inside_and() {
        for (filter, expected) in [
            ("id > 'a'", "(a,)"),
            ("'10' < id", "(10,)"),
            ("'10' >= id", "(,10]"),
            ("id = 'x'", "[x,x]"),
            ("'x' = id", "[x,x]"),
            ("id > 'a' and id <= 'b'", "(a,b]"),
            ("(b = 1 and id >= 'a') and ('c' > id and open)", "[a,c)"),
            ("id > 'a' and id >= 'b' and id < 'd' and id <= 'c'", "[b,c]"),
            ("id >= 'a' and id > 'a' and id <= 'b' and id < 'b'", "(a,b)"),
            ("id > 'a' and id >= 'a' and id < 'b' and id <= 'b'", "(a,b)"),
            ("id > 'b' and id < 'a'", "(b,a)"),
            ("`id` > 'a'", "(a,)"),
            ("id > 'a' and (id < 'c' or b = 1)", "(a,)"),
            ("id > 'a' or b = 1", "(,)"),
            ("id > 'a' xor b = 1", "(,)"),
            ("!(id > 'a')", "(,)"),
            ("!(id > 'a' and id < 'b')", "(,)"),
            ("(id > 'a') = true", "(,)"),
            ("id != 'a'", "(,)"),
            ("id > 5", "(,)"),
            ("b.id > 'a' and id.b > 'a' and b > 'a'", "(,)"),
            ("id like 'a' and id has 'a'", "(,)"),
            ("id < ''", "(,)"),
        ] {
            assert_eq!(bounds(filter), expected, "{filter}");
        }
    }

    fn conditions() -> impl Strategy<Value = String> {
        let names = select(&["id", "b", "`id`", "b.id"][..]);
        let literals = select(&["''", "'a'", "'ab'", "'b'", "'ä'", "1", "null", "true"][..]);
        let operators = select(&["=", "!=", "<", "<=", ">", ">=", "has", "like", "not like"][..]);
        let leaf = (names, operators, literals, any::<bool>()).prop_map(
            |(name, operator, literal, turned)| match turned {
                true => format!("{literal} {operator} {name}"),
                false => format!("{name} {operator} {literal}"),
            },
        );
        let parsed = leaf.prop_filter("a pattern must be a text", |text| {
            Filter::parse(text).is_ok()
        });
        parsed.prop_recursive(4, 24, 2, |inner| {
            let joints = select(&["and", "and", "and", "or", "xor", "=", "!="][..]);
            prop_oneof![
                4 => (inner.clone(), joints, inner.clone())
                    .prop_map(|(left, joint, right)| format!("({left}) {joint} ({right})")),
                1 => inner.clone().prop_map(|inner| format!("!({inner})")),
                1 => (inner.clone(), inner.clone(), inner)
                    .prop_map(|(a, b, c)| format!("case({a}, {b}, {c})")),
            ]
        })
    }

    fn items() -> impl Strategy<Value = Json> {
        let values = &[
            r#""""#,
            r#""a""#,
            r#""aa""#,
            r#""ab""#,
            r#""b""#,
            r#""ä""#,
            "1",
            "null",
            "true",
            "[]",
            r#"{"id":"a"}"#,
        ][..];
        let value = proptest::option::of(select(values));
        (value.clone(), value).prop_map(|(id, b)| {
            let id = id.map(|id| format!("\"id\":{id}"));
            let b = b.map(|b| format!("\"b\":{b}"));
            let members: Vec<_> = id.into_iter().chain(b).collect();
            Json::parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn an_item_that_matches_lies_within_the_bounds(
            filter in conditions(),
            items in proptest::collection::vec(items(), 1..20),
        ) {
            let filter = Filter::parse(&filter).unwrap();
            let bounds = filter.bounds("id");
            for item in items.iter().filter(|item| filter.matches(item)) {
                let Json::Object(members) = item else { unreachable!() };
                let id = members.iter().find(|(name, _)| name == "id");
                let within = match id {
                    Some((_, Json::Text(id))) => bounds.contains(id),
                    _ => bounds == Bounds::default(),
                };
                prop_assert!(within, "{} is outside of {bounds:?}", item.to_text());
            }
        }
    }
}
