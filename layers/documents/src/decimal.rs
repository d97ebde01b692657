//! Numbers of JSON as exact decimals: their values, their texts and their equality.

use std::iter;

use bigdecimal::BigDecimal;

use crate::json::{Json, RawNumber};

/// The most digits of a number to calculate with, all that are written before the exponent.
pub(crate) const DIGITS_MAX: usize = 1_000;

/// The largest exponent of a number to calculate with. Its negative is the smallest one.
pub(crate) const EXPONENT_MAX: u128 = 10_000;

/// The most zeros that fill a text up to the point or behind it. Beyond them it has an exponent.
const ZEROS_MAX: usize = 20;

/// The value of a number. `None` if it has more than [`DIGITS_MAX`] digits, or an exponent beyond
/// [`EXPONENT_MAX`].
// A short text with a large exponent would otherwise take much memory when it is added.
pub(crate) fn decimal(number: &RawNumber) -> Option<BigDecimal> {
    let parts = Parts::of(number);
    let is_small = parts.exponent.value()?.unsigned_abs() <= EXPONENT_MAX;
    let is_short = parts.digits().count() <= DIGITS_MAX;
    (is_small && is_short).then(|| number.text().parse().ok())?
}

/// The text of a value. An integer has no point, and a fraction ends with no zero. The text has an
/// exponent if more than 20 zeros would have to be filled in.
pub(crate) fn to_json(value: &BigDecimal) -> Json {
    let (digits, scale) = value.as_bigint_and_scale();
    let digits = digits.to_string();
    let text = match digits.strip_prefix('-') {
        Some(digits) => format!("-{}", unsigned(digits, scale)),
        None => unsigned(&digits, scale),
    };
    // A text of digits, a point and an exponent is a number.
    Json::number(&text).unwrap_or(Json::Null)
}

/// The text of digits of which `scale` stand behind the point.
fn unsigned(digits: &str, scale: i64) -> String {
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return "0".to_owned();
    }
    let Ok(places) = usize::try_from(scale) else {
        let zeros = usize::try_from(scale.unsigned_abs()).unwrap_or(usize::MAX);
        return match zeros <= ZEROS_MAX {
            true => format!("{digits}{}", "0".repeat(zeros)),
            false => scientific(digits, kept, scale),
        };
    };
    let whole_digits = digits.len().checked_sub(places);
    match whole_digits.and_then(|at| digits.split_at_checked(at)) {
        Some((whole, fraction)) if !whole.is_empty() => joined(whole, fraction),
        _ => {
            let zeros = places.saturating_sub(digits.len());
            match zeros <= ZEROS_MAX {
                true => format!("0.{}{kept}", "0".repeat(zeros)),
                false => scientific(digits, kept, scale),
            }
        }
    }
}

/// The text with one digit before the point, and with an exponent.
fn scientific(digits: &str, kept: &str, scale: i64) -> String {
    let (first, rest) = kept.split_at_checked(1).unwrap_or((kept, ""));
    let places = i128::try_from(digits.len()).unwrap_or(i128::MAX);
    let exponent = places.saturating_sub(1).saturating_sub(scale.into());
    format!("{}e{exponent}", joined(first, rest))
}

fn joined(whole: &str, fraction: &str) -> String {
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// Whether two numbers are numerically equal: `1`, `1.0` and `10e-1` are. No exponent is too large.
pub(crate) fn is_equal(left: &RawNumber, right: &RawNumber) -> bool {
    let (left, right) = (Parts::of(left), Parts::of(right));
    let Some((left_first, right_first)) = left.first_place().zip(right.first_place()) else {
        return left.first_place() == right.first_place();
    };
    // The first digits stand at the same place if the exponents differ as the places do.
    let apart = left.exponent.minus(&right.exponent);
    left.is_negative == right.is_negative
        && apart.is_some_and(|apart| apart == right_first.saturating_sub(left_first))
        && left.significant().eq(right.significant())
}

/// The parts of a number's text.
struct Parts<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: Exponent<'a>,
}

impl<'a> Parts<'a> {
    fn of(number: &'a RawNumber) -> Self {
        let text = number.text();
        let unsigned = text.strip_prefix('-');
        let (mantissa, exponent) = split(unsigned.unwrap_or(text), ['e', 'E']);
        let (whole, fraction) = split(mantissa, ['.', '.']);
        Self {
            is_negative: unsigned.is_some(),
            whole,
            fraction,
            exponent: Exponent::of(exponent),
        }
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// The digits without the zeros around them.
    fn significant(&self) -> impl Iterator<Item = u8> {
        let zeros = self.digits().rev().take_while(|digit| *digit == b'0');
        let kept = self.digits().count().saturating_sub(zeros.count());
        self.digits().take(kept).skip_while(|digit| *digit == b'0')
    }

    /// The place of the first digit that is not zero, counted from the point to the left, without
    /// the exponent. `None` if the number is zero.
    fn first_place(&self) -> Option<i128> {
        let zeros = self.digits().position(|digit| digit != b'0')?;
        let whole = i128::try_from(self.whole.len()).ok()?;
        Some(whole.saturating_sub(i128::try_from(zeros).ok()?))
    }
}

fn split(text: &str, at: [char; 2]) -> (&str, &str) {
    text.split_once(at).unwrap_or((text, ""))
}

/// An exponent, of as many digits as the text has.
struct Exponent<'a> {
    sign: i128,
    digits: &'a str,
}

impl<'a> Exponent<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            sign: if text.starts_with('-') { -1 } else { 1 },
            digits: text.trim_start_matches(['+', '-']),
        }
    }

    /// The exponent as a number. `None` if it has more digits than one can have.
    fn value(&self) -> Option<i128> {
        self.minus(&Self::of(""))
    }

    /// The digits with their sign, after zeros up to `width` digits.
    fn padded(&self, width: usize) -> impl Iterator<Item = i128> {
        let zeros = iter::repeat_n(0, width.saturating_sub(self.digits.len()));
        let digits = self.digits.bytes();
        let digits = digits.map(|digit| i128::from(digit.saturating_sub(b'0')));
        zeros.chain(digits.map(|digit| digit.saturating_mul(self.sign)))
    }

    /// The difference. `None` if it is too large.
    // It grows with each digit as soon as it is more than 2. So too large a one never gets small.
    fn minus(&self, other: &Self) -> Option<i128> {
        let width = self.digits.len().max(other.digits.len());
        let mut digits = self.padded(width).zip(other.padded(width));
        digits.try_fold(0_i128, |difference, (left, right)| {
            let grown = difference.checked_mul(10)?;
            grown.checked_add(left.checked_sub(right)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(text: &str) -> RawNumber {
        match Json::number(text) {
            Some(Json::Number(number)) => *number,
            _ => panic!("{text} is no number"),
        }
    }

    /// The text after the number was read and written.
    fn rewritten(text: &str) -> String {
        to_json(&decimal(&raw(text)).unwrap()).to_text()
    }

    fn number() -> impl Strategy<Value = String> {
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?"
    }

    #[test]
    fn texts_are_plain_and_normalized_unless_an_exponent_is_far() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("0.000", "0"),
            ("0e5000", "0"),
            ("13", "13"),
            ("-13.50", "-13.5"),
            ("1.00", "1"),
            ("0.010", "0.01"),
            ("100", "100"),
            ("12.5E+1", "125"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e21"),
            ("-1200e21", "-1.2e24"),
            ("0.1e-20", "0.000000000000000000001"),
            ("0.1e-21", "1e-22"),
            ("125e-2", "1.25"),
            ("125e-3", "0.125"),
            ("120e-10000", "1.2e-9998"),
            (
                "1000000000000000000000000000000",
                "1000000000000000000000000000000",
            ),
        ] {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_beyond_the_limits_have_no_value() {
        let long = "1".repeat(DIGITS_MAX);
        for right in [
            &long,
            "1e10000",
            "1e-10000",
            "1e+0000000000000000000000000000000001",
        ] {
            assert!(decimal(&raw(right)).is_some(), "{right}");
        }
        let endless = format!("1e{}", "9".repeat(100_000));
        let longer = [format!("{long}1"), format!("{long}.1"), format!("0.{long}")];
        let wrong = [
            "1e10001",
            "1e-10001",
            "0e10001",
            "1e170141183460469231731687303715884105728",
        ];
        for wrong in wrong
            .into_iter()
            .chain(longer.iter().map(String::as_str))
            .chain([&*endless])
        {
            assert!(decimal(&raw(wrong)).is_none(), "{wrong}");
        }
    }

    #[test]
    fn equality_is_numeric_and_knows_no_limits() {
        let nines = "9".repeat(100_000);
        let zeros = "0".repeat(100_000);
        let (far, farther) = (format!("10e{nines}"), format!("1e1{zeros}"));
        let (near, nearer) = (
            format!("1e-{nines}"),
            format!("0.1e-{}8", "9".repeat(99_999)),
        );
        let long = format!("1{zeros}");
        for (left, right) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("1", "10e-1"),
            ("1", "0.0001E+4"),
            ("-120", "-1.2e2"),
            ("0", "-0.00e99999999999999999999999999999999999999999999"),
            ("1e1", "10e-0"),
            (&far, &farther),
            (&near, &nearer),
            (&long, "1e100000"),
        ] {
            assert!(is_equal(&raw(left), &raw(right)), "{left} {right}");
            assert!(is_equal(&raw(right), &raw(left)), "{right} {left}");
        }
        for (left, right) in [
            ("1", "-1"),
            ("1", "0"),
            ("1", "10"),
            ("1", "0.1"),
            ("12", "21"),
            ("1", "1.0000000000000000000000000000001"),
            ("9007199254740992", "9007199254740993"),
            ("1e5", "1e-5"),
            (&far, &near),
            (&far, "1"),
            (&farther, "0"),
            (&long, &farther),
        ] {
            assert!(!is_equal(&raw(left), &raw(right)), "{left} {right}");
            assert!(!is_equal(&raw(right), &raw(left)), "{right} {left}");
        }
    }

    proptest! {
        #[test]
        fn a_number_that_is_written_equals_the_one_that_was_read(text in number()) {
            let again = rewritten(&text);
            prop_assert!(is_equal(&raw(&text), &raw(&again)), "{}", again);
            prop_assert_eq!(rewritten(&again), again);
        }

        #[test]
        fn two_numbers_are_equal_if_their_values_are(left in number(), right in number()) {
            for other in [&right, &rewritten(&left)] {
                let (left, other) = (raw(&left), raw(other));
                prop_assert_eq!(is_equal(&left, &other), decimal(&left) == decimal(&other));
            }
        }

        #[test]
        fn close_numbers_are_equal_if_their_values_are(
            left in "-?[0-2](\\.[01]{1,2})?(e[+-]?[0-2])?",
            right in "-?[0-2]0?(\\.[01]{1,2})?(e[+-]?[0-2])?",
        ) {
            if let (Some(Json::Number(left)), Some(Json::Number(right))) =
                (Json::number(&left), Json::number(&right))
            {
                prop_assert_eq!(is_equal(&left, &right), decimal(&left) == decimal(&right));
            }
        }
    }
}
