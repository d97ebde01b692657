//! Which endpoints hold a sharding key.

use std::collections::BTreeSet;

use crate::ShardRange;

/// Ranges of many holders, cut at every begin and end, so that a key is found by one search.
#[derive(Debug, Clone)]
pub(crate) struct Routes<T> {
    begins: Vec<u64>,
    holders: Vec<Vec<T>>,
}

impl<T: Clone> Routes<T> {
    pub(crate) fn new(ranges: &[(ShardRange, T)]) -> Self {
        let begins = ranges.iter().map(|(range, _)| range.begin());
        let ends = ranges.iter().filter_map(|(range, _)| range.end());
        let begins: BTreeSet<u64> = begins.chain(ends).chain([0]).collect();
        let begins: Vec<u64> = begins.into_iter().collect();
        let holders = begins
            .iter()
            .map(|begin| {
                let holds = ranges.iter().filter(|(range, _)| range.contains(*begin));
                holds.map(|(_, holder)| holder.clone()).collect()
            })
            .collect();
        Self { begins, holders }
    }

    /// The holders of a key, in the order of the ranges.
    pub(crate) fn of(&self, key: u64) -> &[T] {
        let behind = self.begins.partition_point(|begin| *begin <= key);
        let at = behind.checked_sub(1);
        at.and_then(|at| self.holders.get(at))
            .map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = ShardRange> {
        let ends = (0..20_u64, prop::option::of(0..21_u64));
        ends.prop_filter_map("empty", |(begin, end)| ShardRange::new(begin, end))
    }

    proptest! {
        #[test]
        fn a_key_has_the_holders_whose_ranges_contain_it(
            ranges in prop::collection::vec(range(), 0..8),
            key in prop_oneof![0..24_u64, Just(u64::MAX)],
        ) {
            let ranges: Vec<_> = ranges.into_iter().enumerate().map(|(at, range)| (range, at)).collect();
            let expected: Vec<usize> = ranges
                .iter()
                .filter(|(range, _)| range.contains(key))
                .map(|(_, at)| *at)
                .collect();
            let routes = Routes::new(&ranges);
            prop_assert_eq!(routes.of(key), &expected[..]);
        }
    }
}
