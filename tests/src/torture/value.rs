//! Values that name their writer, so that a mixed up, cut or invented value is recognised.

use xxhash_rust::xxh3::xxh3_64;

/// The separator between the token and the rest of a value.
const END: u8 = b'~';
/// The prefix of tokens with values that the database may reject on demand.
pub const POISON: &str = "poison-";
/// The prefix of tokens with values that are larger than the packets that the database may accept
/// on demand.
pub const LARGE: &str = "large-";
/// The size of those values.
const LARGE_BYTES: usize = 300_000;

/// The value of a token, in all its bytes. Most values are short, and some are long.
#[must_use]
pub fn value_of(token: &str) -> Vec<u8> {
    let hash = xxh3_64(token.as_bytes());
    let spread = usize::try_from(hash % 97).unwrap_or_default();
    let length = match hash % 100 {
        _ if token.starts_with(LARGE) => LARGE_BYTES,
        0..80 => spread,
        80..98 => spread * 10,
        _ => spread * 300,
    };
    let mut value = Vec::with_capacity(token.len() + 1 + length + 16);
    value.extend_from_slice(token.as_bytes());
    value.push(END);
    let pattern = format!("{hash:016x}");
    value.extend(pattern.bytes().cycle().take(length + pattern.len()));
    value
}

/// The meaning of a stored value: its token, or a counter's number. Any other value is shown as it
/// is.
#[must_use]
pub fn token_of(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|byte| *byte == END)
        .unwrap_or(value.len());
    let token = String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned();
    let whole = if end == value.len() {
        token.parse::<i64>().is_ok()
    } else {
        value_of(&token) == value
    };
    if whole {
        token
    } else {
        format!(
            "damaged value of {} bytes: {:?}",
            value.len(),
            token.chars().take(60).collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_token_and_any_other_byte_is_noticed() {
        for token in ["1.0.3.7", "poison-1.0.3.8", "large-1.2.3.4"] {
            let mut value = value_of(token);
            assert_eq!(token_of(&value), token);
            value.pop();
            assert!(token_of(&value).starts_with("damaged"));
        }
        assert_eq!(token_of(b"-42"), "-42");
        assert!(token_of(b"").starts_with("damaged"));
    }
}
