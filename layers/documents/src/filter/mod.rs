//! The language of filters and sort orders, in which a caller lists items of a collection.
//!
//! ```
//! use storage_documents::filter::{Filter, Sort};
//! use storage_documents::json::Json;
//!
//! let filter = Filter::parse(r#"level >= 10 and (guild = "red" or tags has "vip")"#)?;
//! let item = Json::parse(br#"{"id":"ann","level":12,"guild":"red"}"#)?;
//! assert!(filter.matches(&item));
//!
//! let sort = Sort::parse("-level, id")?;
//! assert_eq!(sort.key(&item).first(), Json::number("12").as_ref());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Operators, the loosest first. Operators of one line go from left to right.
//!
//! | operators | operands |
//! | --- | --- |
//! | `or` | booleans. The right one is not looked at after true |
//! | `xor` | booleans |
//! | `and` | booleans. The right one is not looked at after false |
//! | `=` `!=` | any. Values of two types are not equal |
//! | `<=` `<` `>=` `>` | two numbers, or two texts, which compare by their UTF-8 bytes |
//! | `has` `has not` | a list and a value, or a text and a part. A list at the right means all |
//! | `like` `not like` | a text and a regular expression, which may match anywhere in the text |
//! | `+` `-` | numbers |
//! | `++` `--` | two texts to join, or a list and values to add or to remove |
//! | `*` `/` `%` | numbers |
//! | `!` `-` in front | a boolean, a number |
//!
//! | function | result |
//! | --- | --- |
//! | `case(if, then, [if, then, …] else)` | the value behind the first condition that is true |
//! | `empty(value)` | whether a text, list or object has nothing in it, or the value is null |
//! | `exists(value)` | whether the value is there and not null |
//! | `length(value)` | characters of a text, elements of a list, members of an object |
//! | `upper(text)` `lower(text)` | the text in large or small letters |
//! | `split(text, separator)` | a list of texts |
//! | `index_of(text, part)` | the first place of the part in characters, or -1 |
//! | `substr(text, from, [to])` | the characters from `from` to before `to` |
//! | `compare_ignoring_case(a, b)` | -1, 0 or 1 |
//!
//! Literals are numbers (`12`, `-0.5e3`, `0xff`), texts (`"…"` with the escapes of JSON, `'…'`
//! without any), `true`, `false`, `null`, and lists and objects of literals. A name is `a.b.c`. A
//! name of other characters stands in backticks, and a backtick in it is doubled.
//!
//! A name that the item does not have is an error, and for a query an error means no. So
//! `level > 3 or vip` does not find an item without `level`, and `exists(level) and level > 3 or
//! vip` does. Only `exists`, `= null` and `!= null` take a missing name for null.
//!
//! Numbers are exact decimals. Comparisons take any number. Literals and arithmetic take up to
//! [`DIGITS_MAX`] digits and exponents up to [`EXPONENT_MAX`]. A quotient has 34 digits.
//!
//! The parser is written by hand: a tokenizer and a climber over one table of operators. With a
//! library of combinators the same limits, byte offsets and hints would need a state and an error
//! type of our own in each rule, and would be longer.
//!
//! | module | content |
//! | --- | --- |
//! | `token`, `parse`, `expr` | from a text to an expression |
//! | `eval`, `operators`, `functions`, `like` | the value of an expression for an item |
//! | `arithmetic`, `order` | calculations, and the order of all values |
//! | `bounds` | [`Bounds`]: the range that a filter leaves of a member |
//! | `sort` | [`Sort`]: an order of items |
//! | `error` | [`FilterError`], [`EvalError`] |

mod arithmetic;
mod bounds;
mod error;
mod eval;
mod expr;
mod functions;
mod like;
mod operators;
mod order;
mod parse;
mod sort;
#[cfg(test)]
mod tests;
mod token;

pub use bounds::Bounds;
pub use error::{EvalError, FilterError};
pub use eval::WORK_MAX;
pub use like::PATTERN_BYTES_MAX;
pub use order::compare;
pub use parse::{DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX};
pub use sort::{FIELDS_MAX, Sort};

use crate::json::Json;
pub use crate::number::{DIGITS_MAX, EXPONENT_MAX};
use eval::Evaluation;
use expr::Expr;

/// A filter that was parsed.
#[derive(Debug, Clone)]
pub struct Filter {
    expr: Expr,
}

impl Filter {
    /// Parses a text of up to [`TEXT_BYTES_MAX`] bytes, [`DEPTH_MAX`] levels of brackets and
    /// [`NODES_MAX`] operands and operators.
    ///
    /// # Errors
    /// The text is no filter, is beyond a limit, or holds a pattern that does not compile.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let expr = parse::parse(text)?;
        Ok(Self { expr })
    }

    /// Whether the value for this item is true. Any other value and an error mean no.
    #[must_use]
    pub fn matches(&self, item: &Json) -> bool {
        matches!(self.eval(item), Ok(Json::Bool(true)))
    }

    /// The value for this item.
    ///
    /// # Errors
    /// A name is missing, an operand has a wrong type, a number is beyond its limit, or the
    /// evaluation takes more than [`WORK_MAX`] steps.
    pub fn eval(&self, item: &Json) -> Result<Json, EvalError> {
        let value = Evaluation::new(item).value(&self.expr)?;
        Ok(value.into_owned())
    }

    /// The bounds that this member has in every item that matches. The member stands at the top of
    /// the item. Only comparisons with texts count, alone or inside `and`.
    ///
    /// An item whose member is no text within the bounds does not match. The reverse does not hold.
    #[must_use]
    pub fn bounds(&self, member: &str) -> Bounds {
        bounds::of(&self.expr, member)
    }
}
