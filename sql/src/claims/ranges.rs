//! How a plan divides all sharding keys.

/// The most ranges of a plan. They are added in one transaction.
pub const RANGES_MAX: usize = 4_096;

/// All sharding keys, divided into 1 to 4,096 ranges. A range ends where the next one begins, and
/// the last one ends with the greatest sharding key. The ranges have neither gap nor overlap.
///
/// ```
/// # mod storage_sdk { pub mod layer { pub use storage_sql::claims; } }
/// use storage_sdk::layer::claims::Ranges;
/// let halves = Ranges::even(2)?;
/// assert_eq!(halves.begins(), [0, 1 << 63]);
/// let uneven = Ranges::new([0, 1 << 60, 1 << 63])?; // the first one is hot, so it is small
/// assert_eq!(uneven.begins().len(), 3);
/// assert!(Ranges::new([1, 2]).is_err()); // no range has the sharding key 0
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<u64>);

/// Ranges that are no plan. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangesError {
    /// There is no range, or there are too many.
    #[error("the plan has {ranges} ranges; a plan has 1 to {RANGES_MAX}")]
    Count {
        /// How many there are.
        ranges: usize,
    },
    /// The first range does not begin with 0, so some sharding keys have no range.
    #[error("the first range begins with {begin}; it must begin with 0, the least sharding key")]
    First {
        /// Where it begins.
        begin: u64,
    },
    /// A range does not begin behind the one before it.
    #[error(
        "a range that begins with {begin} follows one that begins with {before}; name the begins in ascending order, each once"
    )]
    Order {
        /// Where the range before begins.
        before: u64,
        /// Where it begins.
        begin: u64,
    },
}

impl Ranges {
    /// The ranges that begin with these sharding keys. The first one is 0, and they ascend.
    ///
    /// # Errors
    /// There are no begins or more than [`RANGES_MAX`], the first one is not 0, or a begin is not
    /// greater than the one before it.
    pub fn new(begins: impl Into<Vec<u64>>) -> Result<Self, RangesError> {
        let begins = begins.into();
        check_count(begins.len())?;
        if let Some(&begin @ 1..) = begins.first() {
            return Err(RangesError::First { begin });
        }
        for (&before, &begin) in begins.iter().zip(begins.iter().skip(1)) {
            if begin <= before {
                return Err(RangesError::Order { before, begin });
            }
        }
        Ok(Self(begins))
    }

    /// So many ranges of the same length. If the number is no power of two, some of them have one
    /// sharding key more.
    ///
    /// # Errors
    /// The number is 0 or above [`RANGES_MAX`].
    pub fn even(count: usize) -> Result<Self, RangesError> {
        check_count(count)?;
        let count = count as u128;
        let begins = (0..count).filter_map(|at| u64::try_from((at << 64) / count).ok());
        Ok(Self(begins.collect()))
    }

    /// Where each range begins.
    #[must_use]
    pub fn begins(&self) -> &[u64] {
        &self.0
    }
}

fn check_count(ranges: usize) -> Result<(), RangesError> {
    if (1..=RANGES_MAX).contains(&ranges) {
        Ok(())
    } else {
        Err(RangesError::Count { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_no_plan_are_refused_with_value_limit_and_way_out() {
        let told = |begins: &[u64]| Ranges::new(begins).unwrap_err().to_string();
        assert_eq!(told(&[]), "the plan has 0 ranges; a plan has 1 to 4096");
        assert!(told(&[7]).contains("begins with 7; it must begin with 0"));
        for (begins, before, begin) in [(&[0, 5, 5][..], 5, 5), (&[0, 9, 3], 9, 3), (&[0, 0], 0, 0)]
        {
            let refused = Ranges::new(begins).unwrap_err();
            assert_eq!(refused, RangesError::Order { before, begin });
            assert!(refused.to_string().contains("in ascending order"));
        }
        let many: Vec<u64> = (0..).take(RANGES_MAX + 1).collect();
        let ranges = RANGES_MAX + 1;
        assert_eq!(
            Ranges::new(many.clone()),
            Err(RangesError::Count { ranges })
        );
        assert_eq!(
            Ranges::new(&many[1..]).unwrap_err(),
            RangesError::First { begin: 1 }
        );
        assert!(Ranges::new(&many[..RANGES_MAX]).is_ok());
        assert!(Ranges::new([0, u64::MAX]).is_ok());
    }

    #[test]
    fn even_ranges_differ_by_one_sharding_key_at_most() {
        assert_eq!(Ranges::even(1).unwrap().begins(), [0]);
        assert_eq!(
            Ranges::even(4).unwrap().begins(),
            [0, 1 << 62, 1 << 63, 3 << 62]
        );
        for count in [3, 6, 7, 1_000, RANGES_MAX] {
            let ranges = Ranges::even(count).unwrap();
            let begins = ranges.begins();
            assert_eq!(begins.len(), count);
            let mut lengths: Vec<u64> = begins.windows(2).map(|two| two[1] - two[0]).collect();
            // To the greatest sharding key, which the last range has too.
            lengths.push((u64::MAX - begins[count - 1]).wrapping_add(1));
            let (least, most) = (lengths.iter().min(), lengths.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{count}: {lengths:?}");
        }
        for count in [0, RANGES_MAX + 1] {
            assert_eq!(
                Ranges::even(count),
                Err(RangesError::Count { ranges: count })
            );
        }
    }
}
