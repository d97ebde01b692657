//! The errors of filters and sort orders.

use std::error::Error;
use std::fmt;

/// The reason why a text is no filter or no sort order. `Display` says the place and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    at: usize,
    what: String,
    help: String,
}

impl FilterError {
    pub(super) fn new(at: usize, what: impl Into<String>, help: impl Into<String>) -> Self {
        let (what, help) = (what.into(), help.into());
        Self { at, what, help }
    }

    /// The place in the text, in bytes from its beginning.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what, help } = self;
        write!(f, "at byte {at}: {what}; {help}")
    }
}

impl Error for FilterError {}

/// The reason why a filter has no value for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// The item does not have this name.
    Missing(String),
    /// An operator or a function does not take a value of this type.
    Operand {
        /// The operator or the function.
        of: &'static str,
        /// The operands that it takes.
        takes: &'static str,
        /// The type of the value that it got.
        got: &'static str,
    },
    /// A number for arithmetic, or its result, is beyond the limits of digits and exponents.
    Number,
    /// A division by zero.
    Zero,
    /// A text is no regular expression, or too large a one.
    Pattern(String),
    /// The evaluation takes too many steps.
    Work,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the item has no {name}"),
            Self::Operand { of, takes, got } => write!(f, "{of} takes {takes}, not {got}"),
            Self::Number => f.write_str("a number has too many digits or too large an exponent"),
            Self::Zero => f.write_str("a division by zero"),
            Self::Pattern(why) => write!(f, "the pattern does not compile: {why}"),
            Self::Work => f.write_str("the evaluation takes too many steps"),
        }
    }
}

impl Error for EvalError {}
