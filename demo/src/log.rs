//! The players' own log of acknowledged states. It is independent of the storage.

use std::collections::BTreeMap;

use storage_model::{Bytes, Cell, Field, Owner};

/// A field of a player.
pub type Key = (Owner, Field);

/// The last acknowledged state of one player's fields.
#[derive(Debug, Default)]
pub struct Log(BTreeMap<Field, Cell>);

impl Log {
    /// Records that a field was set.
    pub fn set(&mut self, field: Field, value: Bytes) {
        self.0.insert(field, Cell::Live(value));
    }

    /// Records that a counter grew. Returns the new value that it must have.
    pub fn add(&mut self, field: Field, by: i64) -> i64 {
        let sum = self.counter(&field).saturating_add(by);
        self.set(field, sum.to_string().into());
        sum
    }

    /// Records that a field was removed. Its last value stays as a tombstone. Does nothing to a
    /// field that is not live.
    pub fn remove(&mut self, field: &Field) {
        if let Some(cell) = self.0.get_mut(field)
            && let Cell::Live(value) = cell
        {
            *cell = Cell::Removed(std::mem::take(value));
        }
    }

    /// The value that a read of a field must find.
    #[must_use]
    pub fn live(&self, field: &Field) -> Option<&Bytes> {
        self.0.get(field).and_then(Cell::live)
    }

    /// All fields that were ever set, including removed ones.
    pub fn iter(&self) -> impl Iterator<Item = (&Field, &Cell)> {
        self.0.iter()
    }

    fn counter(&self, field: &Field) -> i64 {
        let digits = self
            .live(field)
            .and_then(|value| std::str::from_utf8(value).ok());
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_removed_starts_again_at_zero() {
        let (mut log, gold) = (Log::default(), Field::new("gold").unwrap());
        assert_eq!(
            (log.add(gold.clone(), 5), log.add(gold.clone(), -2)),
            (5, 3)
        );
        log.remove(&gold);
        log.remove(&gold);
        assert_eq!(log.live(&gold), None);
        assert_eq!(log.iter().next(), Some((&gold, &Cell::Removed("3".into()))));
        assert_eq!(log.add(gold, 7), 7);
    }
}
