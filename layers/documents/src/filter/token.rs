//! The words, literals and symbols of a text.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;

use super::error::FilterError;
use crate::json::Json;
use crate::number::{self, DIGITS_MAX, EXPONENT_MAX};

/// A piece of the text, and its place in bytes.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) piece: Piece,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// A number or a text.
    Literal(Json),
    /// A name of one segment without backticks, which can also be an operator.
    Word(String),
    /// Any other name.
    Name(Vec<String>),
    Symbol(&'static str),
    End,
}

/// All symbols, longer ones before those that begin them.
const SYMBOLS: [&str; 22] = [
    "!=", "<=", ">=", "++", "--", "(", ")", "[", "]", "{", "}", ",", ":", "=", "<", ">", "+", "-",
    "*", "/", "%", "!",
];

/// Symbols of other languages, and ours.
const FOREIGN: [(&str, &str); 4] = [("==", "="), ("<>", "!="), ("&&", "and"), ("||", "or")];

/// Reads a text from its beginning to its end.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

type Result<T> = std::result::Result<T, FilterError>;

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token. At the end of the text it is [`Piece::End`] each time.
    pub(super) fn next(&mut self) -> Result<Token> {
        let blanks = self.leading(|c| c.is_ascii_whitespace());
        self.skip(blanks.len());
        let at = self.at;
        let piece = match self.first() {
            None => Piece::End,
            Some('"') => self.quoted()?,
            Some('\'') => self.raw()?,
            Some('0'..='9') => self.number()?,
            Some('`') => self.name()?,
            Some(first) if begins_word(first) => self.name()?,
            Some(first) => self.symbol(first)?,
        };
        Ok(Token { at, piece })
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn first(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// The beginning of the rest whose characters are all like this.
    fn leading(&self, like: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !like(c)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    fn error(&self, what: impl Into<String>, help: &str) -> FilterError {
        FilterError::new(self.at, what, help)
    }

    fn symbol(&mut self, first: char) -> Result<Piece> {
        let rest = self.rest();
        if let Some((foreign, ours)) = FOREIGN.iter().find(|(f, _)| rest.starts_with(f)) {
            return Err(self.error(
                format!("{foreign} is no operator"),
                &format!("write {ours}"),
            ));
        }
        let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) else {
            let help =
                "put a name in backticks if it has other characters than a-z, A-Z, 0-9, _, $";
            return Err(self.error(format!("{first:?} has no meaning here"), help));
        };
        self.skip(symbol.len());
        Ok(Piece::Symbol(symbol))
    }

    /// A text in double quotes, with the escapes of JSON.
    fn quoted(&mut self) -> Result<Piece> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let Some(end) = end else {
            return Err(self.error("a text does not end", "close it with \""));
        };
        let literal = rest.get(..end.saturating_add(2)).unwrap_or_default();
        let Ok(text) = serde_json::from_str(literal) else {
            let help = "write escapes as in JSON, or put the text in ' without escapes";
            return Err(self.error("a text has a wrong escape or a control character", help));
        };
        self.skip(literal.len());
        Ok(Piece::Literal(Json::Text(text)))
    }

    /// A text in single quotes, without escapes.
    fn raw(&mut self) -> Result<Piece> {
        let inner = self.rest().get(1..).unwrap_or_default();
        let Some((text, _)) = inner.split_once('\'') else {
            return Err(self.error("a text does not end", "close it with '"));
        };
        self.skip(text.len().saturating_add(2));
        Ok(Piece::Literal(Json::Text(text.to_owned())))
    }

    fn number(&mut self) -> Result<Piece> {
        let text = self.digits();
        let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => hexadecimal(digits),
            None => Json::number(text),
        };
        let Some(number) = number else {
            let help = "write it as in JSON or as 0x and digits, and a blank behind it";
            return Err(self.error(format!("{text} is no number"), help));
        };
        if let Json::Number(raw) = &number
            && number::decimal(raw).is_none()
        {
            let what = "a number is beyond the limits";
            let help = format!("it may have {DIGITS_MAX} digits and exponents to {EXPONENT_MAX}");
            return Err(self.error(what, &help));
        }
        self.skip(text.len());
        Ok(Piece::Literal(number))
    }

    /// All characters that could belong to a number.
    fn digits(&self) -> &'t str {
        let text = self.leading(|c| in_word(c) || c == '.');
        let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        if hexadecimal || !text.ends_with(['e', 'E']) {
            return text;
        }
        let behind = self.rest().get(text.len()..).unwrap_or_default();
        let Some(exponent) = behind.strip_prefix(['+', '-']) else {
            return text;
        };
        let exponent = exponent.find(|c| !in_word(c)).unwrap_or(exponent.len());
        let length = text.len().saturating_add(exponent).saturating_add(1);
        self.rest().get(..length).unwrap_or(text)
    }

    fn name(&mut self) -> Result<Piece> {
        if self.rest().starts_with("s\"") {
            let help = "join its parts with ++";
            return Err(self.error("texts with names in them are not offered", help));
        }
        let plain = self.first() != Some('`');
        let mut path = vec![self.segment()?];
        while self.first() == Some('.') {
            self.skip(1);
            path.push(self.segment()?);
        }
        Ok(match <[String; 1]>::try_from(path) {
            Ok([word]) if plain => Piece::Word(word),
            Ok(segment) => Piece::Name(segment.into()),
            Err(path) => Piece::Name(path),
        })
    }

    /// One part of a name.
    fn segment(&mut self) -> Result<String> {
        if self.first() == Some('`') {
            return self.in_backticks();
        }
        let word = self.leading(in_word);
        if !word.starts_with(begins_word) {
            let help = "write a name behind it, in backticks if it begins with a digit";
            return Err(self.error("a name ends with a dot", help));
        }
        self.skip(word.len());
        Ok(word.to_owned())
    }

    fn in_backticks(&mut self) -> Result<String> {
        let mut name = String::new();
        let inner = self.rest().get(1..).unwrap_or_default();
        let mut chars = inner.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let closes = c == '`' && chars.next_if(|(_, next)| *next == '`').is_none();
            if closes {
                self.skip(at.saturating_add(2));
                return Ok(name);
            }
            name.push(c);
        }
        Err(self.error("a name does not end", "close it with `"))
    }
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | '$')
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

/// The number of hexadecimal digits.
fn hexadecimal(digits: &str) -> Option<Json> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), 16)?;
    Json::number(&BigDecimal::from(number).to_plain_string())
}
