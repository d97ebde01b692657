//! The pairing of a hot tier with a database.
//!
//! The database has an identity, drawn once, and the token of its current hot tier. The token names
//! the server that took over. The hot tier has the same two. A program that opens both compares
//! them, so that no worker lands in a wrong database and no second hot tier overwrites the first.

use std::fmt;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::{Ids, Timestamp};

/// The number of the layout of keys, marks and scripts in the hot tier. Programs of different
/// layouts reject each other.
pub const LAYOUT: u32 = 2;

/// The longest address that is kept, in bytes.
const ADDRESS_MAX: usize = 100;

/// Separates the prefix from the address. A prefix holds no control character.
const SEPARATOR: char = '\u{1f}';

/// 128 bits, as 32 hexadecimal digits: the identity of a database, drawn at random, or the token of
/// a hot tier.
///
/// ```
/// # mod storage_sdk { pub use storage_model::*; pub mod feed { pub use storage_model::*; } }
/// use storage_sdk::{SeededIds, feed::Token};
/// let token = Token::draw(&SeededIds::new(7));
/// assert_eq!(Token::parse(&token.to_string()), Some(token));
/// assert_eq!(Token::parse("7"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u128);

impl Token {
    /// An identity that no other database has.
    #[must_use]
    pub fn draw(ids: &dyn Ids) -> Self {
        let id = ids.next();
        Self(
            id.as_bytes()
                .iter()
                .fold(0, |bits, byte| bits.rotate_left(8) ^ u128::from(*byte)),
        )
    }

    /// The token that a hot tier of this incarnation gets when it takes over the database of this
    /// identity. One server can hold several hot tiers. The number of the Redis database and the
    /// prefix of the keys tell them apart.
    ///
    /// The token is computed and not drawn. So all programs that meet the same blank server name it
    /// alike, however late one of them is.
    ///
    /// ```
    /// use storage_model::{SeededIds, Token};
    /// let database = Token::draw(&SeededIds::new(7));
    /// let token = |run, number, prefix| Token::of_server(database, run, number, prefix);
    /// assert_eq!(token("run/history", 0, "slug"), token("run/history", 0, "slug"));
    /// assert_ne!(token("run/history", 0, "slug"), token("another run/history", 0, "slug"));
    /// assert_ne!(token("run/history", 0, "slug"), token("run/history", 1, "slug"));
    /// assert_ne!(token("run/history", 0, "slug"), token("run/history", 0, "another"));
    /// ```
    #[must_use]
    pub fn of_server(database: Self, incarnation: &str, number: u32, prefix: &str) -> Self {
        Self(xxh3_128(
            format!("{database} {incarnation} {number} {prefix}").as_bytes(),
        ))
    }

    /// Parses the token that [`fmt::Display`] wrote. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let token = Self(u128::from_str_radix(text, 16).ok()?);
        (token.to_string() == text).then_some(token)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a hot tier in the database: a number of its incarnation.
///
/// Two servers that live at once have different incarnations, also if one has a copy of the other's
/// data. A restart, a promotion and an emptied disk give a server another one.
///
/// ```
/// use storage_model::HotId;
/// assert_eq!(HotId::of("run/history"), HotId::of("run/history"));
/// assert_ne!(HotId::of("run/history"), HotId::of("another run/history"));
/// assert_ne!(HotId::of(""), HotId::NONE);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HotId(pub u64);

impl HotId {
    /// No hot tier: the partition was never prepared, or by an older program.
    pub const NONE: Self = Self(0);

    /// The name of this incarnation.
    #[must_use]
    pub fn of(incarnation: &str) -> Self {
        Self(positive(xxh3_64(incarnation.as_bytes())))
    }
}

/// Tells a raise of a partition's epoch from any other raise to the same epoch. A database that was
/// restored gives its epochs a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp of a partition that was never raised, or by an older program.
    pub const NONE: Self = Self(0);

    /// A stamp that no other raise has.
    #[must_use]
    pub fn draw(ids: &dyn Ids) -> Self {
        Self(positive(xxh3_64(ids.next().as_bytes())))
    }
}

/// A number from 1 to 2^63 - 1, which every database holds.
fn positive(hash: u64) -> u64 {
    (hash >> 1).max(1)
}

/// The hot tier of a database, as the database remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Paired {
    /// The hot tier's token.
    pub token: Token,
    /// When the hot tier took over, by its own clock.
    pub since: Timestamp,
    /// The prefix of its keys.
    pub prefix: String,
    /// Its address at that time, for messages: host and port, never a login. At most 100 bytes.
    pub address: String,
}

impl Paired {
    /// The text that the database keeps, at most 255 bytes.
    #[must_use]
    pub fn to_text(&self) -> String {
        let cut = self.address.floor_char_boundary(ADDRESS_MAX);
        let address = self.address.get(..cut).unwrap_or_default();
        let Self {
            token,
            since,
            prefix,
            ..
        } = self;
        format!("{token} {} {prefix}{SEPARATOR}{address}", since.0)
    }

    /// Parses the text of [`Paired::to_text`]. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let token = Token::parse(words.next()?)?;
        let since = Timestamp(words.next()?.parse().ok()?);
        let (prefix, address) = words.next()?.split_once(SEPARATOR)?;
        Some(Self {
            token,
            since,
            prefix: prefix.to_owned(),
            address: address.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededIds;

    fn paired(prefix: &str, address: &str) -> Paired {
        Paired {
            token: Token::draw(&SeededIds::new(1)),
            since: Timestamp(1_764_000_000_000_000),
            prefix: prefix.into(),
            address: address.into(),
        }
    }

    #[test]
    fn a_paired_hot_tier_comes_back_from_its_text_and_nothing_else_does() {
        for (prefix, address) in [
            ("slug", "127.0.0.1:6379"),
            ("a b  c", ""),
            ("ü", "[::1]:6379/5 with spaces"),
        ] {
            let paired = paired(prefix, address);
            assert_eq!(Paired::parse(&paired.to_text()), Some(paired));
        }
        for text in [
            "",
            "1 2 3",
            "00000000000000000000000000000001 x slug\u{1f}",
            "junk \u{1f}",
        ] {
            assert_eq!(Paired::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_text_fits_in_255_bytes_whatever_the_address() {
        let long = paired(&"p".repeat(64), &"ü".repeat(500));
        let text = long.to_text();
        assert!(text.len() <= 255, "{} bytes", text.len());
        assert!(Paired::parse(&text).is_some_and(|cut| long.address.starts_with(&cut.address)));
    }
}
