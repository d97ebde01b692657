//! Functions.

use std::borrow::Cow;
use std::cmp::Ordering;

use bigdecimal::ToPrimitive;

use super::error::EvalError;
use super::eval::{Evaluation, Result, Value, boolean, wrong};
use super::expr::{Expr, Function};
use super::operators::decimal;
use crate::json::Json;

/// The steps that an element of a list takes besides those of its text.
const ELEMENT_STEPS: usize = 16;

impl<'a> Evaluation<'a> {
    /// The result of a function. The parser has counted its arguments.
    pub(super) fn call(&mut self, function: Function, arguments: &'a [Expr]) -> Result<Value<'a>> {
        let of = function.name();
        let result = match (function, arguments) {
            (Function::Case, arguments) => return self.case(arguments),
            (Function::Exists, [value]) => return self.exists(value).map(boolean),
            (Function::Empty, [value]) => return Ok(boolean(is_empty(&*self.value(value)?))),
            (Function::Length, [value]) => self.length(value)?,
            (Function::Upper, [text]) => Json::Text(self.text(of, text)?.to_uppercase()),
            (Function::Lower, [text]) => Json::Text(self.text(of, text)?.to_lowercase()),
            (Function::Split, [text, separator]) => self.split(text, separator)?,
            (Function::IndexOf, [text, part]) => self.index_of(text, part)?,
            (Function::Substr, [text, from]) => self.substr(text, from, None)?,
            (Function::Substr, [text, from, to]) => self.substr(text, from, Some(to))?,
            (Function::CompareIgnoringCase, [a, b]) => self.compare_ignoring_case(a, b)?,
            _ => {
                return Err(EvalError::Operand {
                    of,
                    takes: "other arguments",
                    got: "these",
                });
            }
        };
        Ok(Value::Owned(result))
    }

    /// The value behind the first condition that is true, or the last value.
    fn case(&mut self, mut arguments: &'a [Expr]) -> Result<Value<'a>> {
        while let [condition, then, rest @ ..] = arguments {
            if self.truth("case", condition)? {
                return self.value(then);
            }
            arguments = rest;
        }
        match arguments {
            [otherwise] => self.value(otherwise),
            _ => Ok(Value::Owned(Json::Null)),
        }
    }

    fn exists(&mut self, expr: &'a Expr) -> Result<bool> {
        match self.value(expr) {
            Ok(value) => Ok(*value != Json::Null),
            Err(EvalError::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn length(&mut self, expr: &'a Expr) -> Result<Json> {
        let value = self.value(expr)?;
        let length = match &*value {
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            Json::Text(text) => {
                self.spend(text.len())?;
                text.chars().count()
            }
            other => return Err(wrong("length", "a text, a list or an object", other)),
        };
        integer(length)
    }

    fn split(&mut self, text: &'a Expr, separator: &'a Expr) -> Result<Json> {
        let of = Function::Split.name();
        let (text, separator) = (self.text(of, text)?, self.text(of, separator)?);
        if separator.is_empty() {
            let (takes, got) = ("a separator of a character at least", "an empty text");
            return Err(EvalError::Operand { of, takes, got });
        }
        let separators = text.matches(&*separator).count();
        self.spend(separators.saturating_mul(ELEMENT_STEPS))?;
        let parts = text.split(&*separator);
        Ok(Json::Array(
            parts.map(|part| Json::Text(part.to_owned())).collect(),
        ))
    }

    fn index_of(&mut self, text: &'a Expr, part: &'a Expr) -> Result<Json> {
        let of = Function::IndexOf.name();
        let (text, part) = (self.text(of, text)?, self.text(of, part)?);
        match text.split_once(&*part) {
            Some((before, _)) => integer(before.chars().count()),
            None => Json::number("-1").ok_or(EvalError::Number),
        }
    }

    fn substr(&mut self, text: &'a Expr, from: &'a Expr, to: Option<&'a Expr>) -> Result<Json> {
        let text = self.text(Function::Substr.name(), text)?;
        let from = self.place(from)?;
        let to = match to {
            Some(to) => self.place(to)?,
            None => usize::MAX,
        };
        let chars = text.chars().skip(from);
        Ok(Json::Text(chars.take(to.saturating_sub(from)).collect()))
    }

    /// A place in a text.
    fn place(&mut self, expr: &'a Expr) -> Result<usize> {
        let of = Function::Substr.name();
        let place = decimal(of, &*self.value(expr)?)?;
        let whole = place.is_integer().then(|| place.to_usize()).flatten();
        let (takes, got) = ("places that are whole and not negative", "this number");
        whole.ok_or(EvalError::Operand { of, takes, got })
    }

    fn compare_ignoring_case(&mut self, a: &'a Expr, b: &'a Expr) -> Result<Json> {
        let of = Function::CompareIgnoringCase.name();
        let (a, b) = (self.text(of, a)?, self.text(of, b)?);
        let result = match a.to_lowercase().cmp(&b.to_lowercase()) {
            Ordering::Less => "-1",
            Ordering::Equal => "0",
            Ordering::Greater => "1",
        };
        Json::number(result).ok_or(EvalError::Number)
    }

    /// The value of an expression that must be a text.
    fn text(&mut self, of: &'static str, expr: &'a Expr) -> Result<Cow<'a, str>> {
        let text = match self.value(expr)? {
            Cow::Owned(Json::Text(text)) => Cow::Owned(text),
            Cow::Borrowed(Json::Text(text)) => Cow::Borrowed(text.as_str()),
            other => return Err(wrong(of, "texts", &other)),
        };
        self.spend(text.len())?;
        Ok(text)
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Text(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

fn integer(number: usize) -> Result<Json> {
    Json::number(&number.to_string()).ok_or(EvalError::Number)
}
