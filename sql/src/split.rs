//! Cuts rows into statements of a few fixed sizes.

use std::cmp::Reverse;
use std::ops::Range;

use storage_model::Row;

/// The most rows of one statement. More rows are hardly faster. With 8 arguments a row this stays
/// below every limit of placeholders.
pub(crate) const MANY_MAX: usize = 512;
/// The most keys of several columns in one list. With 5 columns they are fewer than 1,000 values.
pub(crate) const KEYS_MAX: usize = 128;
/// The most bytes of a statement of several rows.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// Cuts items of these byte sizes, in their order, into ranges. The lengths are powers of two up to
/// [`MANY_MAX`]. A range of several items has at most `bytes_max` bytes. A larger item stands
/// alone.
pub(crate) fn split(bytes: &[usize], bytes_max: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut rest = bytes;
    let mut start = 0;
    while !rest.is_empty() {
        let mut total = 0_usize;
        let fitting = rest.iter().take(MANY_MAX).take_while(|&&size| {
            total = total.saturating_add(size);
            total <= bytes_max
        });
        let length = power_at_most(fitting.count());
        ranges.push(start..start + length);
        start += length;
        rest = rest.get(length..).unwrap_or_default();
    }
    ranges
}

/// The items of a reading list, extended to a power of two with copies of the last item. Copies do
/// not matter to a read.
pub(crate) fn padded<T: Clone>(items: &[T]) -> Vec<T> {
    let mut padded = items.to_vec();
    if let Some(last) = items.last() {
        padded.resize(items.len().next_power_of_two(), last.clone());
    }
    padded
}

/// The rows in key order, each key once. Of two rows of one field the higher version stays.
pub(crate) fn ordered(rows: &[Row]) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    // For sorted rows this takes only one pass.
    rows.sort_by_key(|row| (&row.owner, &row.field, Reverse(row.version)));
    rows.dedup_by_key(|row| (&row.owner, &row.field));
    rows
}

/// The bytes of a row in a statement, with a reserve for lengths and types.
pub(crate) fn row_bytes(row: &Row) -> usize {
    let owner = &row.owner;
    let names =
        owner.app().len() + owner.region().len() + owner.logic_type().len() + owner.id().len();
    128 + names + row.field.as_str().len() + row.cell.value().len()
}

/// The greatest power of two that is at most `count`. 1 for 0.
fn power_at_most(count: usize) -> usize {
    1 << count.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use storage_model::{Cell, Field, Owner, Version};

    use super::*;

    fn lengths(bytes: &[usize], bytes_max: usize) -> Vec<usize> {
        let ranges = split(bytes, bytes_max);
        let mut next = 0;
        for range in &ranges {
            assert_eq!(range.start, next, "ranges follow each other");
            next = range.end;
        }
        assert_eq!(next, bytes.len(), "no item is left out");
        ranges.into_iter().map(|range| range.len()).collect()
    }

    #[test]
    fn a_batch_is_cut_into_powers_of_two() {
        assert_eq!(lengths(&[], 10), Vec::<usize>::new());
        assert_eq!(lengths(&[1; 1000], usize::MAX), [512, 256, 128, 64, 32, 8]);
        assert_eq!(lengths(&[1; 1025], usize::MAX), [512, 512, 1]);
        assert_eq!(lengths(&[1; 3], usize::MAX), [2, 1]);
    }

    #[test]
    fn bytes_limit_a_statement_and_a_larger_row_stands_alone() {
        assert_eq!(lengths(&[4, 4, 4, 4, 4], 12), [2, 2, 1]);
        assert_eq!(lengths(&[4, 99, 4, 4], 12), [1, 1, 2]);
        assert_eq!(lengths(&[usize::MAX, usize::MAX], usize::MAX - 1), [1, 1]);
        assert_eq!(lengths(&[0; 4], 0), [4]);
    }

    #[test]
    fn reading_lists_are_filled_up_with_their_last_item() {
        assert_eq!(padded(&[1, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 5, 5, 5]);
        assert_eq!(padded(&[7]), [7]);
        assert_eq!(padded::<u8>(&[]), Vec::<u8>::new());
    }

    #[test]
    fn rows_come_in_key_order_and_the_newer_of_two_counts() {
        let row = |id: &str, field: &str, version| Row {
            owner: Owner::new("a", "r", "t", id).unwrap(),
            field: Field::new(field).unwrap(),
            cell: Cell::Purged,
            version: Version::new(version).unwrap(),
        };
        let rows = [
            row("b", "x", 1),
            row("a", "y", 5),
            row("a", "x", 2),
            row("a", "y", 3),
            row("b", "x", 4),
        ];
        let got: Vec<_> = ordered(&rows)
            .iter()
            .map(|r| (r.owner.id(), r.field.as_str(), r.version.get()))
            .collect();
        assert_eq!(got, [("a", "x", 2), ("a", "y", 5), ("b", "x", 4)]);
    }
}
