//! A half-open interval of sharding keys.

use std::fmt;

/// Sharding keys from one number on and below another.
///
/// ```
/// use storage_shard_read::ShardRange;
/// let half = ShardRange::new(1 << 63, None).expect("it has a key");
/// assert!(half.contains(u64::MAX) && !half.contains(0));
/// assert!(ShardRange::new(5, Some(5)).is_none(), "it would be empty");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardRange {
    begin: u64,
    last: u64,
}

impl ShardRange {
    /// All sharding keys.
    pub const ALL: Self = Self {
        begin: 0,
        last: u64::MAX,
    };

    /// The range from `begin` on and below `end`, or up to the last key of all. None if it would be empty.
    #[must_use]
    pub fn new(begin: u64, end: Option<u64>) -> Option<Self> {
        let last = match end {
            None => u64::MAX,
            Some(end) => end.checked_sub(1)?,
        };
        (begin <= last).then_some(Self { begin, last })
    }

    /// The first key.
    #[must_use]
    pub fn begin(self) -> u64 {
        self.begin
    }

    /// The last key.
    #[must_use]
    pub fn last(self) -> u64 {
        self.last
    }

    /// The first key behind the range. None if the range reaches to the last key of all.
    #[must_use]
    pub fn end(self) -> Option<u64> {
        self.last.checked_add(1)
    }

    /// Whether a key lies in the range.
    #[must_use]
    pub fn contains(self, key: u64) -> bool {
        (self.begin..=self.last).contains(&key)
    }
}

impl fmt::Display for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}..", self.begin)?;
        match self.end() {
            Some(end) => write!(f, "{end:#018x}"),
            None => write!(f, "2^64"),
        }
    }
}

impl fmt::Debug for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_begin_and_not_its_end() {
        let range = ShardRange::new(3, Some(7)).unwrap();
        assert_eq!((range.begin(), range.end()), (3, Some(7)));
        assert!(range.contains(3) && range.contains(6));
        assert!(!range.contains(2) && !range.contains(7));
    }

    #[test]
    fn the_last_key_of_all_is_in_a_range_without_an_end() {
        let range = ShardRange::new(u64::MAX, None).unwrap();
        assert!(range.contains(u64::MAX));
        assert_eq!(range.end(), None);
        assert_eq!(ShardRange::new(0, None), Some(ShardRange::ALL));
    }

    #[test]
    fn an_empty_range_is_none() {
        assert_eq!(ShardRange::new(0, Some(0)), None);
        assert_eq!(ShardRange::new(9, Some(3)), None);
    }
}
