//! Operators whose operands are all evaluated.

use std::slice;

use bigdecimal::BigDecimal;
use regex::Regex;

use super::error::EvalError;
use super::eval::{Evaluation, Result, comparison, weight, wrong};
use super::expr::{Binary, Expr};
use super::order::compare;
use super::{arithmetic, like};
use crate::json::Json;
use crate::number;

/// The steps of a search for each byte of a text. A pattern of the largest size can take as long as
/// this for a byte, and an evaluation then ends after 256 KiB.
const SEARCH_STEPS: usize = 64;

impl<'a> Evaluation<'a> {
    /// The result of an operator.
    pub(super) fn operation(&mut self, binary: Binary, left: &Json, right: &Json) -> Result<Json> {
        let of = binary.text();
        match binary {
            Binary::Has => self.has(left, right).map(Json::Bool),
            Binary::Like => {
                let Json::Text(pattern) = right else {
                    return Err(wrong(of, "texts", right));
                };
                self.spend(pattern.len())?;
                let pattern = like::compiled(pattern).map_err(EvalError::Pattern)?;
                self.is_like(left, &pattern).map(Json::Bool)
            }
            Binary::Join => self.join(left, right),
            Binary::Without => self.without(left, right),
            Binary::Less | Binary::AtMost | Binary::More | Binary::AtLeast => {
                self.ordered(binary, left, right).map(Json::Bool)
            }
            _ => self.arithmetic(binary, left, right),
        }
    }

    /// Whether two numbers or two texts stand in this order.
    fn ordered(&mut self, binary: Binary, left: &Json, right: &Json) -> Result<bool> {
        let (of, takes) = (binary.text(), "two numbers or two texts");
        match (left, right) {
            (Json::Number(_), Json::Number(_)) | (Json::Text(_), Json::Text(_)) => {}
            (Json::Number(_), Json::Text(_)) | (Json::Text(_), Json::Number(_)) => {
                let got = "one of each";
                return Err(EvalError::Operand { of, takes, got });
            }
            (Json::Number(_) | Json::Text(_), other) | (other, _) => {
                return Err(wrong(of, takes, other));
            }
        }
        self.spend(comparison(left, right))?;
        let order = compare(left, right);
        Ok(match binary {
            Binary::Less => order.is_lt(),
            Binary::AtMost => order.is_le(),
            Binary::More => order.is_gt(),
            _ => order.is_ge(),
        })
    }

    /// Whether the pattern matches anywhere in the text.
    pub(super) fn is_like(&mut self, text: &Json, pattern: &Regex) -> Result<bool> {
        let Json::Text(text) = text else {
            return Err(wrong("like", "texts", text));
        };
        self.spend(text.len().saturating_mul(SEARCH_STEPS))?;
        Ok(pattern.is_match(text))
    }

    /// Whether a list has a value or all values of a list, or a text a part or all parts.
    fn has(&mut self, left: &Json, right: &Json) -> Result<bool> {
        let parts = elements(right);
        match left {
            Json::Array(items) => {
                self.spend_pairs(items, parts)?;
                Ok(parts.iter().all(|part| contains(items, part)))
            }
            Json::Text(text) => {
                self.spend(text.len().saturating_mul(parts.len()))?;
                self.spend(weight(right))?;
                has_parts(text, parts)
            }
            other => Err(wrong("has", "a list or a text at the left", other)),
        }
    }

    fn join(&mut self, left: &Json, right: &Json) -> Result<Json> {
        self.spend(weight(left).saturating_add(weight(right)))?;
        match (left, right) {
            (Json::Text(left), Json::Text(right)) => Ok(Json::Text([&**left, right].concat())),
            (Json::Array(left), right) => Ok(Json::Array([left, elements(right)].concat())),
            (Json::Text(_), other) | (other, _) => {
                Err(wrong("++", "two texts, or a list and values", other))
            }
        }
    }

    fn without(&mut self, left: &Json, right: &Json) -> Result<Json> {
        let Json::Array(items) = left else {
            return Err(wrong("--", "a list at the left", left));
        };
        let removed = elements(right);
        self.spend_pairs(items, removed)?;
        let kept = items.iter().filter(|item| !contains(removed, item));
        Ok(Json::Array(kept.cloned().collect()))
    }

    /// Counts the steps of a comparison of each of these with each of those.
    fn spend_pairs(&mut self, these: &[Json], those: &[Json]) -> Result<()> {
        let these_weight: usize = these.iter().map(weight).sum();
        let those_weight: usize = those.iter().map(weight).sum();
        self.spend(these_weight.saturating_mul(those.len().max(1)))?;
        self.spend(those_weight.saturating_mul(these.len().max(1)))
    }

    fn arithmetic(&mut self, binary: Binary, left: &Json, right: &Json) -> Result<Json> {
        self.spend(weight(left).saturating_add(weight(right)))?;
        let of = binary.text();
        let (left, right) = (decimal(of, left)?, decimal(of, right)?);
        let result = match binary {
            Binary::Plus => arithmetic::sum(&left, &right)?,
            Binary::Minus => arithmetic::difference(&left, &right)?,
            Binary::Times => arithmetic::product(&left, &right),
            Binary::Divide => arithmetic::quotient(&left, &right)?,
            _ => arithmetic::remainder(&left, &right)?,
        };
        number::within_limits(&result).ok_or(EvalError::Number)
    }

    /// The value of an expression that must be a number, with the other sign.
    pub(super) fn negated(&mut self, expr: &'a Expr) -> Result<Json> {
        let value = self.value(expr)?;
        self.spend(weight(&value))?;
        number::within_limits(&-decimal("-", &value)?).ok_or(EvalError::Number)
    }
}

/// The elements of a list, and any other value as the only element.
fn elements(value: &Json) -> &[Json] {
    match value {
        Json::Array(items) => items,
        other => slice::from_ref(other),
    }
}

fn contains(items: &[Json], value: &Json) -> bool {
    items.iter().any(|item| compare(item, value).is_eq())
}

fn has_parts(text: &str, parts: &[Json]) -> Result<bool> {
    for part in parts {
        let Json::Text(part) = part else {
            return Err(wrong("has", "texts behind a text", part));
        };
        if !text.contains(part.as_str()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number within the limits of arithmetic.
pub(super) fn decimal(of: &'static str, value: &Json) -> Result<BigDecimal> {
    match value {
        Json::Number(number) => number::decimal(number).ok_or(EvalError::Number),
        other => Err(wrong(of, "numbers", other)),
    }
}
