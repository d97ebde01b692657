//! The token of a claim.

use std::fmt;

use storage_model::Ids;

/// The token of a claim: 16 bytes that the claimer draws. No two claims have the same, also not two
/// claims of one server.
///
/// ```
/// # mod storage_sdk { pub use storage_model::*; pub mod layer { pub use storage_sql::claims; } }
/// use storage_sdk::SeededIds;
/// use storage_sdk::layer::claims::ClaimToken;
/// let ids = SeededIds::new(7);
/// let token = ClaimToken::draw(&ids);
/// assert_ne!(token, ClaimToken::draw(&ids));
/// assert_eq!(ClaimToken::new(*token.as_bytes()), token);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimToken([u8; 16]);

impl ClaimToken {
    /// A token of bytes that the caller drew at random.
    #[must_use]
    pub const fn new(drawn: [u8; 16]) -> Self {
        Self(drawn)
    }

    /// A token from a source of ids.
    #[must_use]
    pub fn draw(ids: &dyn Ids) -> Self {
        let mut drawn = [0; 16];
        drawn.copy_from_slice(ids.next().as_bytes());
        Self(drawn)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_whole() {
        let token = ClaimToken::new([0x0f; 16]);
        assert_eq!(token.to_string(), "0f".repeat(16));
        assert_eq!(format!("{token:?}"), token.to_string());
    }
}
