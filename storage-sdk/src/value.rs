//! The new values of fields.

use std::borrow::Cow;

use storage_model::Bytes;

/// The new value of a field: bytes, text or an integer. An integer is stored as decimal text, like
/// a counter.
///
/// Calls accept any type that converts into a value, and one type for all values of the call. For a
/// mix, use `Value::from(…)`:
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// use storage_sdk::Value;
/// let title = format!("{} of Hearts", "Queen");
/// ann.update([("gold", 10), ("gems", -3)]).await?;
/// ann.update([("name", Value::from("Ann")), ("title", title.into()), ("level", 7.into())]).await?;
///
/// assert_eq!(ann.incr("gold", 5).await?.value(), 15);
/// assert_eq!(ann.get(["level"]).await?.int("level")?, Some(7));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Value(Bytes);

impl Value {
    /// The stored bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// Owned data is taken without a copy.
macro_rules! taken {
    ($($owned:ty),*) => {$(
        impl From<$owned> for Value {
            fn from(value: $owned) -> Self {
                Self(value.into())
            }
        }
    )*};
}

taken!(Bytes, Vec<u8>, String, Box<[u8]>);

/// Borrowed data is copied.
macro_rules! copied {
    ($($borrowed:ty),*) => {$(
        impl From<$borrowed> for Value {
            fn from(value: $borrowed) -> Self {
                Self(Bytes::copy_from_slice(value.as_ref()))
            }
        }
    )*};
}

copied!(&str, &String, &[u8], &Vec<u8>);

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        Self(Bytes::copy_from_slice(value))
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Self(Bytes::copy_from_slice(&value))
    }
}

impl From<&Bytes> for Value {
    fn from(value: &Bytes) -> Self {
        Self(value.clone())
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(value: Cow<'_, str>) -> Self {
        Self(value.into_owned().into())
    }
}

/// Integers that fit into a counter.
macro_rules! decimal {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self(value.to_string().into())
            }
        }

        impl From<&$integer> for Value {
            fn from(value: &$integer) -> Self {
                Self::from(*value)
            }
        }
    )*};
}

decimal!(i8, i16, i32, i64, isize, u8, u16, u32);

/// The integer of a counter's text: decimal, in 64 bits, without leading zeros, plus or blanks.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (text == "0" || !digits.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_become_the_text_that_counters_read_and_all_else_stays_as_it_is() {
        let text = |value: Value| String::from_utf8(value.into_bytes().to_vec()).unwrap();
        for (value, expected) in [
            (Value::from(i64::MIN), i64::MIN),
            (i64::MAX.into(), i64::MAX),
            (0_u8.into(), 0),
            ((-7_i8).into(), -7),
        ] {
            let bytes = value.into_bytes();
            assert_eq!(integer(&bytes), Some(expected));
        }
        assert_eq!(text(Value::from(u32::MAX)), "4294967295");
        let (owned, borrowed) = ("Ann".to_owned(), &*"Ann".to_owned());
        assert_eq!(
            [
                text(owned.clone().into()),
                text((&owned).into()),
                text(borrowed.into()),
                text(Cow::Borrowed(borrowed).into())
            ],
            ["Ann"; 4]
        );
        assert_eq!(Value::from(b"\0\xff"), Value::from(vec![0, 0xff]));
    }

    #[test]
    fn what_the_counters_refuse_is_no_integer() {
        for text in [
            "",
            "-",
            "+3",
            "010",
            " 10",
            "10 ",
            "-0",
            "1.0",
            "9223372036854775808",
            "ten",
            "\u{661}",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(integer(b"\xff"), None);
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
    }
}
