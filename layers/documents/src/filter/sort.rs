//! An order of items by some of their members.

use std::cmp::Ordering;

use super::error::FilterError;
use super::order;
use super::parse::TEXT_BYTES_MAX;
use super::token::{Lexer, Piece};
use crate::json::Json;

/// The most fields of a sort order.
pub const FIELDS_MAX: usize = 8;

/// An order of items: by the first field, then by the second, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    fields: Vec<(Vec<String>, bool)>,
}

impl Sort {
    /// Parses `name`, `+name` or `-name`, with commas between them. A minus sorts in descending
    /// order. Names are those of filters. An empty text has no fields.
    ///
    /// # Errors
    /// The text is no sort order, or has more than [`FIELDS_MAX`] fields or [`TEXT_BYTES_MAX`]
    /// bytes.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > TEXT_BYTES_MAX {
            let what = format!("a sort order has {} bytes", text.len());
            let help = format!("write at most {TEXT_BYTES_MAX}");
            return Err(FilterError::new(TEXT_BYTES_MAX, what, help));
        }
        let mut fields = Vec::new();
        if text.trim().is_empty() {
            return Ok(Self { fields });
        }
        let mut lexer = Lexer::new(text);
        loop {
            fields.push(field(&mut lexer)?);
            let token = lexer.next()?;
            match token.piece {
                Piece::End => return Ok(Self { fields }),
                Piece::Symbol(",") if fields.len() < FIELDS_MAX => {}
                Piece::Symbol(",") => {
                    let what = format!("more than {FIELDS_MAX} fields");
                    return Err(FilterError::new(token.at, what, "sort by fewer fields"));
                }
                _ => {
                    let what = "a field does not end here";
                    return Err(FilterError::new(
                        token.at,
                        what,
                        "write a comma between fields",
                    ));
                }
            }
        }
    }

    /// Whether there are no fields, so that all items are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields: the name, one text for each part of it, and whether the order is descending.
    #[must_use]
    pub fn fields(&self) -> &[(Vec<String>, bool)] {
        &self.fields
    }

    /// The values of the fields in an item. A missing one is null.
    #[must_use]
    pub fn key(&self, item: &Json) -> Vec<Json> {
        let mut key = Vec::new();
        for (path, _) in &self.fields {
            let value = member(item, path).cloned();
            key.push(value.unwrap_or(Json::Null));
        }
        key
    }

    /// Compares two keys of this order.
    #[must_use]
    pub fn compare(&self, a: &[Json], b: &[Json]) -> Ordering {
        for ((_, descending), (a, b)) in self.fields.iter().zip(a.iter().zip(b)) {
            let order = order::compare(a, b);
            let order = if *descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The next field: a sign, if there is one, and a name.
fn field(lexer: &mut Lexer<'_>) -> Result<(Vec<String>, bool), FilterError> {
    let mut token = lexer.next()?;
    let descending = token.piece == Piece::Symbol("-");
    if descending || token.piece == Piece::Symbol("+") {
        token = lexer.next()?;
    }
    match token.piece {
        Piece::Word(word) => Ok((vec![word], descending)),
        Piece::Name(path) => Ok((path, descending)),
        _ => {
            let help = "write a name, with - before it for descending order";
            Err(FilterError::new(token.at, "a field is missing", help))
        }
    }
}

fn member<'a>(item: &'a Json, path: &[String]) -> Option<&'a Json> {
    let mut value = item;
    for name in path {
        let Json::Object(members) = value else {
            return None;
        };
        value = members
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> String {
        let sort = Sort::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let fields = sort.fields().iter().map(|(path, descending)| {
            format!("{}{}", if *descending { "-" } else { "+" }, path.join("/"))
        });
        fields.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn fields_have_signs_and_blanks_and_dots() {
        for (text, expected) in [
            ("", ""),
            ("  ", ""),
            ("a", "+a"),
            ("+a", "+a"),
            ("-a", "-a"),
            ("-a,+b", "-a +b"),
            (" - a.b , c ", "-a/b +c"),
            ("and,-has.not,true", "+and -has/not +true"),
            ("-`a,b`.c", "-a,b/c"),
            ("a,b,c,d,e,f,g,h", "+a +b +c +d +e +f +g +h"),
        ] {
            assert_eq!(fields(text), expected, "{text:?}");
        }
        assert!(Sort::parse(" ").unwrap().is_empty());
        assert!(!Sort::parse("a").unwrap().is_empty());
    }

    #[test]
    fn a_refusal_says_the_place_and_the_way_out() {
        for (text, expected) in [
            (",", "at byte 0: a field is missing; write a name"),
            ("a,", "at byte 2: a field is missing; write a name"),
            ("a,,b", "at byte 2: a field is missing; write a name"),
            ("--a", "at byte 0: a field is missing; write a name"),
            ("5", "at byte 0: a field is missing; write a name"),
            ("a b", "at byte 2: a field does not end here; write a comma"),
            ("a.", "at byte 2: a name ends with a dot; "),
            ("a;b", "at byte 1: ';' has no meaning here; "),
            ("a,b,c,d,e,f,g,h,i", "at byte 15: more than 8 fields; "),
        ] {
            let error = Sort::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}\n{error}");
        }
        assert!(Sort::parse(&"a".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn items_compare_by_each_field_in_turn_and_a_missing_one_is_null() {
        let sort = Sort::parse("-a,b.c").unwrap();
        let texts = [
            r#"{"n":1,"a":"x"}"#,
            r#"{"n":2,"a":10,"b":{"c":1}}"#,
            r#"{"n":3,"a":10.0,"b":{"c":2}}"#,
            r#"{"n":4,"a":9,"b":null}"#,
            r#"{"n":5,"a":9,"b":{"c":-1}}"#,
            r#"{"n":6,"b":{"c":0}}"#,
            r#"{"n":7,"a":null,"b":{"c":"0"}}"#,
        ];
        let items = texts.map(|text| Json::parse(text.as_bytes()).unwrap());
        let mut sorted = items.clone();
        sorted.reverse();
        sorted.sort_by(|a, b| sort.compare(&sort.key(a), &sort.key(b)));
        assert_eq!(sorted, items);
        assert_eq!(sort.key(&Json::Null), [Json::Null, Json::Null]);
    }
}
