//! Durations as text.

use std::time::Duration;

/// The most bytes of a duration's text, and the most digits of a number in it. Longer ones make
/// `humantime` overflow: it panics for `18446744073709551615s 1000ms`.
const BYTES_MAX: usize = 64;
const DIGITS_MAX: usize = 9;

/// Reads a duration such as `500ms`, `5min` or `1h 30min`. Its text has at most 64 bytes, and each
/// number in it at most 9 digits.
///
/// # Errors
/// The text is none, with the reason.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let longest = text
        .split(|character: char| !character.is_ascii_digit())
        .map(str::len)
        .max();
    if text.len() > BYTES_MAX || longest.is_some_and(|digits| digits > DIGITS_MAX) {
        return Err(format!(
            "a duration has at most {BYTES_MAX} bytes, and numbers of at most {DIGITS_MAX} digits"
        ));
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_duration_panics() {
        assert_eq!(parse_duration("1h 30min"), Ok(Duration::from_mins(90)));
        assert_eq!(
            parse_duration("999999999s"),
            Ok(Duration::from_secs(999_999_999))
        );
        for text in ["18446744073709551615s 1000ms", "1000000000s", "", "s", "1"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let most = "999999999y ".repeat(5);
        assert!(parse_duration(&most).is_ok());
        assert!(parse_duration(&most.repeat(2)).is_err());
    }
}
