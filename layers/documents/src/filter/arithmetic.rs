//! Arithmetic with exact decimals within the limits.

use std::num::NonZeroU64;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, Signed, Zero};

use super::error::EvalError;
use crate::number::DIGITS_MAX;

pub(super) fn sum(a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, EvalError> {
    near(a, b)?;
    Ok(a + b)
}

pub(super) fn difference(a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, EvalError> {
    near(a, b)?;
    Ok(a - b)
}

/// The remainder has the sign of the first number.
pub(super) fn remainder(a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, EvalError> {
    near(a, b)?;
    if b.is_zero() {
        return Err(EvalError::Zero);
    }
    Ok(a % b)
}

/// The digits of a quotient, rounded half to even.
const QUOTIENT_DIGITS: NonZeroU64 = NonZeroU64::MIN.saturating_add(33);

pub(super) fn quotient(a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, EvalError> {
    if b.is_zero() {
        return Err(EvalError::Zero);
    }
    let missing = b.digits().saturating_sub(a.digits());
    let places = missing
        .saturating_add(QUOTIENT_DIGITS.get())
        .saturating_add(1);
    let raised = u32::try_from(places).map_err(|_| EvalError::Number)?;
    let (a, a_scale) = a.as_bigint_and_scale();
    let (b, b_scale) = b.as_bigint_and_scale();
    let a = a.as_ref() * BigInt::from(10).pow(raised);
    let (whole, rest) = (&a / b.as_ref(), &a % b.as_ref());
    // One digit more keeps a rest from looking like a half.
    let sign = if rest.is_zero() {
        BigInt::ZERO
    } else {
        whole.signum()
    };
    let scale = a_scale
        .saturating_add(i64::from(raised))
        .saturating_sub(b_scale);
    let quotient = BigDecimal::new(whole * 10 + sign, scale.saturating_add(1));
    Ok(quotient.with_precision_round(QUOTIENT_DIGITS, RoundingMode::HalfEven))
}

pub(super) fn product(a: &BigDecimal, b: &BigDecimal) -> BigDecimal {
    a * b
}

/// Fails if one of the numbers needs many zeros to stand above the other, as `1e9000 + 1` does. Their
/// sum would be beyond the limit of digits in any case.
fn near(a: &BigDecimal, b: &BigDecimal) -> Result<(), EvalError> {
    if a.is_zero() || b.is_zero() {
        return Ok(());
    }
    let (a_scale, b_scale) = (a.fractional_digit_count(), b.fractional_digit_count());
    let digits = |number: &BigDecimal| i64::try_from(number.digits()).unwrap_or(i64::MAX);
    let a_top = digits(a).saturating_sub(a_scale);
    let b_top = digits(b).saturating_sub(b_scale);
    let span = a_top.max(b_top).saturating_add(a_scale.max(b_scale));
    match usize::try_from(span) {
        Ok(span) if span <= 2 * DIGITS_MAX => Ok(()),
        _ => Err(EvalError::Number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::Json;
    use crate::number::tests::numbers;
    use crate::number::{decimal, within_limits};

    proptest! {
        #[test]
        fn a_result_is_a_json_number_of_the_same_value(a in numbers(), b in numbers()) {
            for result in [&a + &b, &a * &b, &a - &b] {
                let Some(Json::Number(raw)) = within_limits(&result) else { panic!("{result}") };
                prop_assert_eq!(decimal(&raw), Some(result));
            }
            prop_assert_eq!(sum(&a, &b), Ok(&a + &b));
            prop_assert_eq!(difference(&a, &b), Ok(&a - &b));
        }

        #[test]
        fn a_quotient_is_the_nearest_number_of_34_digits(a in numbers(), b in numbers()) {
            let Ok(quotient) = quotient(&a, &b) else {
                prop_assert!(b.is_zero());
                return Ok(());
            };
            let normal = quotient.normalized();
            prop_assert!(normal.digits() <= 34);
            let error = (&quotient * &b - &a).abs() * 2;
            let last = BigDecimal::new(1.into(), 33 - quotient.order_of_magnitude());
            prop_assert!(error <= b.abs() * last, "{} / {} = {}", a, b, quotient);
        }

        #[test]
        fn a_remainder_has_the_sign_of_the_first_and_completes_the_division(
            a in numbers(),
            b in numbers(),
        ) {
            let Ok(rest) = remainder(&a, &b) else {
                prop_assert!(b.is_zero());
                return Ok(());
            };
            prop_assert!(rest.abs() < b.abs());
            prop_assert!(rest.is_zero() || rest.is_negative() == a.is_negative());
            let times = (&a - &rest) / &b;
            prop_assert!(times.is_integer(), "{} % {} = {}", a, b, rest);
        }
    }
}
