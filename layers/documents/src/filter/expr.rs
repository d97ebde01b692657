//! The tree of a filter, and the tables of its operators and functions.

use regex::Regex;

use crate::json::Json;

/// An expression. A chain of operators leans to the left, so it is as deep as it is long. The limit
/// of nodes holds for both.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    Literal(Json),
    Name(Vec<String>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Binary, Box<(Expr, Expr)>),
    /// `like` with a literal pattern, which is compiled once. [`Binary::Like`] has all others.
    Like(Box<Expr>, Regex),
    Call(Function, Vec<Expr>),
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    Xor,
    And,
    Equal,
    AtMost,
    Less,
    AtLeast,
    More,
    Has,
    Like,
    Plus,
    Minus,
    Join,
    Without,
    Times,
    Divide,
    Remainder,
}

/// An operator as the text of a filter has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operator {
    /// Its symbol, or its first word.
    pub(super) text: &'static str,
    /// An operator of a higher level binds tighter.
    pub(super) level: u8,
    pub(super) binary: Binary,
    /// Whether the result is the opposite.
    pub(super) negated: bool,
}

const OPERATORS: [Operator; 19] = [
    operator("or", 1, Binary::Or, false),
    operator("xor", 2, Binary::Xor, false),
    operator("and", 3, Binary::And, false),
    operator("=", 4, Binary::Equal, false),
    operator("!=", 4, Binary::Equal, true),
    operator("<=", 5, Binary::AtMost, false),
    operator("<", 5, Binary::Less, false),
    operator(">=", 5, Binary::AtLeast, false),
    operator(">", 5, Binary::More, false),
    operator("has", 6, Binary::Has, false),
    operator("like", 6, Binary::Like, false),
    operator("not", 6, Binary::Like, true),
    operator("+", 7, Binary::Plus, false),
    operator("-", 7, Binary::Minus, false),
    operator("++", 7, Binary::Join, false),
    operator("--", 7, Binary::Without, false),
    operator("*", 8, Binary::Times, false),
    operator("/", 8, Binary::Divide, false),
    operator("%", 8, Binary::Remainder, false),
];

const fn operator(text: &'static str, level: u8, binary: Binary, negated: bool) -> Operator {
    Operator {
        text,
        level,
        binary,
        negated,
    }
}

impl Operator {
    pub(super) fn named(text: &str) -> Option<Self> {
        OPERATORS.into_iter().find(|known| known.text == text)
    }
}

impl Binary {
    pub(super) fn text(self) -> &'static str {
        let known = OPERATORS.iter().find(|known| known.binary == self);
        known.map_or("", |known| known.text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Case,
    Empty,
    Exists,
    Length,
    Upper,
    Lower,
    Split,
    IndexOf,
    Substr,
    CompareIgnoringCase,
}

/// Each function, its name, and its arguments.
const FUNCTIONS: [(Function, &str, &str); 10] = [
    (Function::Case, "case", "(if, then, [if, then, …] else)"),
    (Function::Empty, "empty", "(value)"),
    (Function::Exists, "exists", "(value)"),
    (Function::Length, "length", "(value)"),
    (Function::Upper, "upper", "(text)"),
    (Function::Lower, "lower", "(text)"),
    (Function::Split, "split", "(text, separator)"),
    (Function::IndexOf, "index_of", "(text, part)"),
    (Function::Substr, "substr", "(text, from, [to])"),
    (
        Function::CompareIgnoringCase,
        "compare_ignoring_case",
        "(text, text)",
    ),
];

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        let known = FUNCTIONS.iter().find(|known| known.1 == name);
        known.map(|known| known.0)
    }

    pub(super) fn name(self) -> &'static str {
        let known = FUNCTIONS.iter().find(|known| known.0 == self);
        known.map_or("", |known| known.1)
    }

    /// The function with its arguments, as an error shows it.
    pub(super) fn usage(self) -> String {
        let known = FUNCTIONS.iter().find(|known| known.0 == self);
        known.map_or_else(String::new, |known| format!("{}{}", known.1, known.2))
    }

    /// The names of all functions.
    pub(super) fn names() -> String {
        FUNCTIONS.map(|known| known.1).join(", ")
    }

    pub(super) fn takes(self, arguments: usize) -> bool {
        match self {
            Self::Case => arguments >= 3 && arguments % 2 == 1,
            Self::Empty | Self::Exists | Self::Length | Self::Upper | Self::Lower => arguments == 1,
            Self::Split | Self::IndexOf | Self::CompareIgnoringCase => arguments == 2,
            Self::Substr => matches!(arguments, 2 | 3),
        }
    }
}
