//! The few characters of a URL that need escaping.

use std::fmt::Write as _;

/// Escapes a user name or a password for a URL.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing into a String can't fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_gives_a_meaning_is_escaped() {
        assert_eq!(escape("Ann-1"), "Ann-1");
        assert_eq!(escape("p@ss:w/ö%"), "p%40ss%3Aw%2F%C3%B6%25");
    }
}
