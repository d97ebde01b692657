//! Numbers of JSON as exact decimals: their values, their texts, and the order of numbers of any size.

use std::cmp::Ordering;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};

use crate::json::{Json, RawNumber};

/// The most digits of a number for arithmetic. Zeros at its beginning and end do not count.
pub const DIGITS_MAX: usize = 1_000;

/// The largest exponent of a number for arithmetic, and the smallest with a minus. It is that of
/// the first digit that is not zero.
pub const EXPONENT_MAX: i64 = 10_000;

/// The most zeros that fill a text up to the point or behind it. Beyond them it has an exponent.
const ZEROS_MAX: usize = 20;

/// The parts of a number that is not zero. They borrow its text, so a large exponent costs nothing.
struct Parts<'a> {
    negative: bool,
    exponent: Exponent<'a>,
    whole: &'a str,
    fraction: &'a str,
    /// Zeros before the first other digit.
    zeros: usize,
    /// Digits from the first to the last one that is not zero.
    count: usize,
}

/// The exponent of the first digit that is not zero.
struct Exponent<'a> {
    value: i128,
    /// The digits of an exponent that `value` can't hold. It holds the largest or smallest then.
    beyond: &'a str,
}

impl<'a> Parts<'a> {
    /// The parts of a JSON number. `None` for zero.
    fn of(text: &'a str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let digits = mantissa.trim_start_matches('-');
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut places = whole.bytes().chain(fraction.bytes());
        let zeros = places.position(|digit| digit != b'0')?;
        let more = places.rev().skip_while(|digit| *digit == b'0').count();
        Some(Self {
            negative: mantissa.starts_with('-'),
            exponent: Exponent::of(exponent, whole.len(), zeros),
            whole,
            fraction,
            zeros,
            count: more.saturating_add(1),
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        let places = self.whole.bytes().chain(self.fraction.bytes());
        places.skip(self.zeros).take(self.count)
    }

    /// The exponent, if this number is within the limits.
    fn small_exponent(&self) -> Option<i64> {
        let exponent = i64::try_from(self.exponent.value).ok()?;
        let within = exponent.checked_abs()? <= EXPONENT_MAX && self.count <= DIGITS_MAX;
        within.then_some(exponent)
    }
}

impl<'a> Exponent<'a> {
    /// The written exponent, moved to the first digit that is not zero.
    fn of(text: &'a str, whole: usize, zeros: usize) -> Self {
        let digits = text.trim_start_matches(['+', '-']).trim_start_matches('0');
        // No text has 10^30 digits, so an exponent of more than 30 digits stays one.
        if digits.len() > 30 {
            let value = if text.starts_with('-') {
                i128::MIN
            } else {
                i128::MAX
            };
            let beyond = digits;
            return Self { value, beyond };
        }
        let written: i128 = text.parse().unwrap_or_default();
        let moved = i128::try_from(whole).unwrap_or_default();
        let back = i128::try_from(zeros).unwrap_or_default();
        let value = written.saturating_add(moved).saturating_sub(back);
        let (value, beyond) = (value.saturating_sub(1), "");
        Self { value, beyond }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = self.beyond.len().cmp(&other.beyond.len());
        let beyond = lengths.then_with(|| self.beyond.cmp(other.beyond));
        let beyond = if self.value < 0 {
            beyond.reverse()
        } else {
            beyond
        };
        self.value.cmp(&other.value).then(beyond)
    }
}

/// Compares two JSON numbers by value, without writing out their zeros.
///
/// Of two exponents with more than 30 digits, the larger one decides, and not the place of the dot.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (Parts::of(a), Parts::of(b));
    let signs = sign(a.as_ref()).cmp(&sign(b.as_ref()));
    match (a, b) {
        (Some(a), Some(b)) if signs.is_eq() => {
            let exponents = a.exponent.cmp(&b.exponent);
            let sizes = exponents.then_with(|| a.digits().cmp(b.digits()));
            if a.negative { sizes.reverse() } else { sizes }
        }
        _ => signs,
    }
}

fn sign(parts: Option<&Parts<'_>>) -> i8 {
    match parts {
        None => 0,
        Some(parts) if parts.negative => -1,
        Some(_) => 1,
    }
}

/// The number as an exact decimal. `None` if it has more than [`DIGITS_MAX`] digits or an exponent
/// beyond [`EXPONENT_MAX`].
pub(crate) fn decimal(number: &RawNumber) -> Option<BigDecimal> {
    let Some(parts) = Parts::of(number.text()) else {
        return Some(BigDecimal::zero());
    };
    let exponent = parts.small_exponent()?;
    let digits: Vec<u8> = parts.digits().collect();
    let digits = BigInt::parse_bytes(&digits, 10)?;
    let digits = if parts.negative { -digits } else { digits };
    let scale = i64::try_from(parts.count).ok()?.checked_sub(1)?;
    Some(BigDecimal::new(digits, scale.checked_sub(exponent)?))
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

/// As [`to_json`]. `None` if the value is beyond the limits, so that nobody could calculate with it.
pub(crate) fn within_limits(value: &BigDecimal) -> Option<Json> {
    let number = to_json(value);
    let is_small = matches!(&number, Json::Number(raw) if decimal(raw).is_some());
    is_small.then_some(number)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Option<BigDecimal> {
        match Json::number(text) {
            Some(Json::Number(raw)) => decimal(&raw),
            _ => panic!("{text} is no number"),
        }
    }

    #[test]
    fn zeros_do_not_count_and_the_limits_hold_at_their_edges() {
        let zeros = "0".repeat(20_000);
        for (text, same) in [
            ("-0".to_owned(), "0"),
            (
                "0e99999999999999999999999999999999999999999".to_owned(),
                "0",
            ),
            ("0.000E-7".to_owned(), "0"),
            (format!("1.{zeros}"), "1"),
            (format!("1{zeros}e-20000"), "1"),
            (format!("-0.{zeros}25e20001"), "-2.5"),
            ("12E+0003".to_owned(), "12000"),
        ] {
            assert_eq!(parsed(&text), Some(same.parse().unwrap()), "{same}");
            assert_eq!(compare(&text, same), Ordering::Equal, "{same}");
        }
        let (long, longer) = ("7".repeat(1_000), "7".repeat(1_001));
        for text in [
            "1e10000",
            "9.99e10000",
            "1e-10000",
            "0.1e-9999",
            &long,
            &format!("{long}e9001"),
        ] {
            assert!(parsed(text).is_some(), "{text}");
        }
        for text in [
            "1e10001",
            "10e10000",
            "1e-10001",
            "0.1e-10000",
            &longer,
            "1e-99999999999999999999",
        ] {
            assert!(parsed(text).is_none(), "{text}");
        }
    }

    #[test]
    fn numbers_of_any_size_compare_by_value() {
        let many = "9".repeat(40);
        let sorted = [
            format!("-1e{many}9"),
            format!("-1e{many}"),
            "-1e99999999999999999999".to_owned(),
            "-1e999999999".to_owned(),
            "-1".to_owned(),
            format!("-1e-{many}"),
            "0".to_owned(),
            format!("1e-{many}9"),
            format!("1e-{many}"),
            format!("2e-{many}"),
            "1e-999999999".to_owned(),
            "0.5".to_owned(),
            "1".repeat(100_000),
            format!("{}2", "1".repeat(99_999)),
            "1e999999999".to_owned(),
            "1.1e999999999".to_owned(),
            "1e1000000000".to_owned(),
            format!("1e{many}"),
            format!("1e{many}9"),
        ];
        for (a_place, a) in sorted.iter().enumerate() {
            for (b_place, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), a_place.cmp(&b_place), "{a_place} {b_place}");
            }
        }
    }

    /// Ways to write `digits * 10^exponent`.
    fn spellings(digits: i64, exponent: i32) -> [String; 4] {
        let (lower, higher) = (exponent - 3, exponent + 2);
        let (sign, size) = (if digits < 0 { "-" } else { "" }, digits.unsigned_abs());
        [
            format!("{digits}e{exponent}"),
            format!("{digits}000E{lower}"),
            format!("{digits}.00e{exponent:+04}"),
            format!("{sign}{}.{:02}0e{higher}", size / 100, size % 100),
        ]
    }

    pub(crate) fn numbers() -> impl Strategy<Value = BigDecimal> {
        let digits = prop_oneof![-20_i64..20, any::<i64>()];
        (digits, -30_i64..30).prop_map(|(digits, scale)| BigDecimal::new(digits.into(), scale))
    }

    /// The text after the number was read and written.
    fn rewritten(text: &str) -> String {
        to_json(&parsed(text).unwrap()).to_text()
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
            ("100000000000000000000", "100000000000000000000"),
            ("1000000000000000000000000000000", "1e30"),
        ] {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_number_that_is_written_equals_the_one_that_was_read(
            text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        ) {
            let again = rewritten(&text);
            prop_assert_eq!(compare(&text, &again), Ordering::Equal, "{}", again);
            prop_assert_eq!(rewritten(&again), again);
        }

        #[test]
        fn a_number_is_equal_to_itself_however_it_is_written(
            digits in prop_oneof![-999_i64..0, 1_i64..999, 1..i64::MAX],
            exponent in -40..40,
        ) {
            let spellings = spellings(digits, exponent);
            let value = BigDecimal::new(digits.into(), i64::from(-exponent));
            for spelling in &spellings {
                prop_assert_eq!(parsed(spelling), Some(value.clone()), "{}", spelling);
                prop_assert_eq!(compare(spelling, &spellings[0]), Ordering::Equal, "{}", spelling);
            }
        }

        #[test]
        fn numbers_compare_as_decimals_do(a in numbers(), b in numbers()) {
            let texts = (a.to_plain_string(), b.to_scientific_notation());
            prop_assert_eq!(compare(&texts.0, &texts.1), a.cmp(&b), "{:?}", texts);
        }
    }
}
