//! The value of an expression for an item.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::error::EvalError;
use super::expr::{Binary, Expr};
use super::order::compare;
use crate::json::Json;

/// The most steps of an evaluation. A step is about a byte that is looked at or copied. An item of
/// the largest size takes a sixteenth of them each time that a filter looks at all of it.
pub const WORK_MAX: usize = 16 << 20;

pub(super) type Result<T> = std::result::Result<T, EvalError>;

/// A value. It borrows from the item or from the filter, unless an operator made it.
pub(super) type Value<'a> = Cow<'a, Json>;

/// One evaluation of a filter.
pub(super) struct Evaluation<'a> {
    item: &'a Json,
    /// Steps that are left.
    work: usize,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(item: &'a Json) -> Self {
        let work = WORK_MAX;
        Self { item, work }
    }

    /// Counts steps before they are done.
    pub(super) fn spend(&mut self, steps: usize) -> Result<()> {
        self.work = self.work.checked_sub(steps).ok_or(EvalError::Work)?;
        Ok(())
    }

    /// The value of an expression.
    // The recursion is as deep as the tree, which the parser limits.
    pub(super) fn value(&mut self, expr: &'a Expr) -> Result<Value<'a>> {
        match expr {
            Expr::Literal(literal) => Ok(Cow::Borrowed(literal)),
            Expr::Name(path) => self.member(path).map(Cow::Borrowed),
            Expr::Not(inner) => Ok(boolean(!self.truth("!", inner)?)),
            Expr::Negate(inner) => self.negated(inner).map(Cow::Owned),
            Expr::Binary(binary, sides) => self.binary(*binary, &sides.0, &sides.1),
            Expr::Like(text, pattern) => {
                let text = self.value(text)?;
                Ok(boolean(self.is_like(&text, pattern)?))
            }
            Expr::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// The member of this name.
    fn member(&mut self, path: &[String]) -> Result<&'a Json> {
        let mut value = self.item;
        for name in path {
            let Json::Object(members) = value else {
                return Err(EvalError::Missing(path.join(".")));
            };
            self.spend(members.len())?;
            value = match members.iter().find(|(known, _)| known == name) {
                Some((_, member)) => member,
                None => return Err(EvalError::Missing(path.join("."))),
            };
        }
        Ok(value)
    }

    /// The value of an expression that must be a boolean.
    pub(super) fn truth(&mut self, of: &'static str, expr: &'a Expr) -> Result<bool> {
        match self.value(expr)?.as_ref() {
            Json::Bool(truth) => Ok(*truth),
            other => Err(wrong(of, "booleans", other)),
        }
    }

    fn binary(&mut self, binary: Binary, left: &'a Expr, right: &'a Expr) -> Result<Value<'a>> {
        let of = binary.text();
        let truth = match binary {
            Binary::And => self.truth(of, left)? && self.truth(of, right)?,
            Binary::Or => self.truth(of, left)? || self.truth(of, right)?,
            Binary::Xor => self.truth(of, left)? != self.truth(of, right)?,
            Binary::Equal => self.equal(left, right)?,
            _ => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                return self.operation(binary, &left, &right).map(Cow::Owned);
            }
        };
        Ok(boolean(truth))
    }

    fn equal(&mut self, left: &'a Expr, right: &'a Expr) -> Result<bool> {
        let (left, right) = match (left, right) {
            (other, null @ Expr::Literal(Json::Null)) => (self.or_null(other)?, self.value(null)?),
            (null @ Expr::Literal(Json::Null), other) => (self.value(null)?, self.or_null(other)?),
            (left, right) => (self.value(left)?, self.value(right)?),
        };
        self.spend(comparison(&left, &right))?;
        Ok(compare(&left, &right) == Ordering::Equal)
    }

    /// The value of an expression, and null for a name that is missing.
    fn or_null(&mut self, expr: &'a Expr) -> Result<Value<'a>> {
        match (expr, self.value(expr)) {
            (Expr::Name(_), Err(EvalError::Missing(_))) => Ok(Cow::Owned(Json::Null)),
            (_, value) => value,
        }
    }
}

pub(super) fn boolean<'a>(truth: bool) -> Value<'a> {
    Cow::Owned(Json::Bool(truth))
}

/// The error for an operand that an operator does not take.
pub(super) fn wrong(of: &'static str, takes: &'static str, value: &Json) -> EvalError {
    let got = match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Text(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    EvalError::Operand { of, takes, got }
}

/// The steps that it takes to look at a value or to copy it.
// The recursion is as deep as the value, which its parser limits.
pub(super) fn weight(value: &Json) -> usize {
    let inner = match value {
        Json::Null | Json::Bool(_) => 0,
        Json::Number(number) => number.text().len(),
        Json::Text(text) => text.len(),
        Json::Array(items) => items.iter().map(weight).sum(),
        Json::Object(members) => {
            let weights = members
                .iter()
                .map(|(name, value)| weight(value).saturating_add(name.len()));
            weights.sum()
        }
    };
    inner.saturating_add(1)
}

/// The steps that it takes to compare two values.
pub(super) fn comparison(a: &Json, b: &Json) -> usize {
    match (a, b) {
        (Json::Text(a), Json::Text(b)) => a.len().min(b.len()),
        _ => weight(a).saturating_add(weight(b)),
    }
}
