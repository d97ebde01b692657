//! The state of an owner after some writes. The whole contract of a write's changes stands in one
//! place, without tiers, versions or time.

use std::collections::BTreeMap;

use bytes::Bytes;
use storage_model::{Cell, Change, Condition, Field, Version};

/// An owner's fields, by name. A field that was never written is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnerModel {
    /// The cell of each field.
    pub cells: BTreeMap<String, Cell>,
}

/// The effect of a write that took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The owner after it.
    pub owner: OwnerModel,
    /// The new values of the incremented fields, in the order of their names.
    pub counters: Vec<i64>,
    /// The number of changed fields.
    pub changed: u32,
}

/// The reason why a write must not take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A field to increment holds no integer.
    NotInteger,
    /// A counter would leave 64 bits.
    Overflow,
    /// A sum is outside of the bounds of its change.
    OutOfBounds,
    /// A named field is live and must not be.
    Exists,
}

impl OwnerModel {
    /// The live fields with their values.
    pub fn live(&self) -> BTreeMap<String, Bytes> {
        self.cells
            .iter()
            .filter_map(|(field, cell)| Some((field.clone(), cell.live()?.clone())))
            .collect()
    }

    /// The owner after these changes, all or none of them. The changes name each field once, in the
    /// order of the names.
    ///
    /// Versions are not modelled. A condition on a version counts as met.
    ///
    /// # Errors
    /// The first change, by name, that must not take place.
    pub fn after(
        &self,
        changes: &[(Field, Change)],
        condition: Condition,
    ) -> Result<Done, Refused> {
        let cell_of = |field: &Field| self.cells.get(field.as_str());
        if condition == Condition::Absent
            && changes
                .iter()
                .any(|(field, _)| matches!(cell_of(field), Some(Cell::Live(_))))
        {
            return Err(Refused::Exists);
        }
        let mut done = Done {
            owner: self.clone(),
            counters: Vec::new(),
            changed: 0,
        };
        for (field, change) in changes {
            if let Some(cell) = changed(cell_of(field), change)? {
                if let (true, Some(value)) = (change.is_counter(), cell.live()) {
                    done.counters.extend(integer(value));
                }
                done.owner.cells.insert(field.to_string(), cell);
                done.changed += 1;
            }
        }
        Ok(done)
    }
}

/// The cell of a field after a change. None if it stays the same.
fn changed(cell: Option<&Cell>, change: &Change) -> Result<Option<Cell>, Refused> {
    Ok(match (change, cell) {
        (Change::Set(value), _) => Some(Cell::Live(value.clone())),
        (Change::Incr(by), cell) => Some(added(cell, *by)?.1),
        (Change::Add { by, floor, ceiling }, cell) => {
            let (sum, cell) = added(cell, *by)?;
            if !(*floor..=*ceiling).contains(&sum) {
                return Err(Refused::OutOfBounds);
            }
            Some(cell)
        }
        (Change::Remove, Some(Cell::Live(value))) => Some(Cell::Removed(value.clone())),
        (Change::Restore, Some(Cell::Removed(value))) => Some(Cell::Live(value.clone())),
        (Change::Purge, Some(Cell::Removed(_))) => Some(Cell::Purged),
        (Change::Remove | Change::Restore | Change::Purge, _) => None,
    })
}

/// The sum of a counter, and the cell that holds it.
fn added(cell: Option<&Cell>, by: i64) -> Result<(i64, Cell), Refused> {
    let old = match cell.and_then(Cell::live) {
        Some(value) => integer(value).ok_or(Refused::NotInteger)?,
        None => 0,
    };
    let sum = old.checked_add(by).ok_or(Refused::Overflow)?;
    Ok((sum, Cell::Live(Bytes::from(sum.to_string()))))
}

/// The integer with these bytes as its only decimal form.
fn integer(value: &Bytes) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse()
        .ok()
        .filter(|number: &i64| number.to_string() == text)
}

/// All possible states of an owner by the answers to its clients: one state if every outcome is
/// known, more if some are unknown.
///
/// One client makes all writes of one owner, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possible {
    states: Vec<OwnerModel>,
    /// The greatest acknowledged version.
    version: Version,
}

impl Default for Possible {
    fn default() -> Self {
        Self {
            states: vec![OwnerModel::default()],
            version: Version::ZERO,
        }
    }
}

/// A write under way, and the possible states before it.
#[derive(Debug)]
pub struct Begun {
    before: Vec<OwnerModel>,
    changes: Vec<(Field, Change)>,
}

impl Begun {
    /// The changes of the write.
    #[must_use]
    pub fn changes(&self) -> &[(Field, Change)] {
        &self.changes
    }
}

impl Possible {
    /// All states.
    #[must_use]
    pub fn states(&self) -> &[OwnerModel] {
        &self.states
    }

    /// The greatest acknowledged version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// A write begins. From now on it may have taken place as a whole, or not at all.
    pub fn begin(&mut self, changes: Vec<(Field, Change)>) -> Begun {
        let before = self.states.clone();
        let after = before
            .iter()
            .filter_map(|state| state.after(&changes, Condition::None).ok());
        self.states.extend(after.map(|done| done.owner));
        self.states.dedup();
        Begun { before, changes }
    }

    /// The write did not take place.
    pub fn refused(&mut self, begun: Begun) {
        self.states = begun.before;
    }

    /// The write was acknowledged with this version and these counters.
    ///
    /// # Errors
    /// No write of a possible owner has this answer.
    pub fn acknowledged(
        &mut self,
        begun: Begun,
        version: Version,
        counters: &[i64],
    ) -> Result<(), String> {
        let done: Vec<_> = begun
            .before
            .iter()
            .filter_map(|state| state.after(&begun.changes, Condition::None).ok())
            .collect();
        let fitting: Vec<_> = done
            .iter()
            .filter(|done| done.counters == counters)
            .collect();
        let unmoved = fitting.iter().any(|done| done.changed == 0);
        if version < self.version || (version == self.version && !unmoved) {
            return Err(format!(
                "acknowledged with version {version}, after {} was",
                self.version
            ));
        }
        if fitting.is_empty() {
            return Err(format!(
                "acknowledged with the counters {counters:?}, which fit none of {done:?}"
            ));
        }
        self.states = fitting.into_iter().map(|done| done.owner.clone()).collect();
        self.states.dedup();
        self.version = version;
        Ok(())
    }

    /// These live fields were read. Only states with them stay possible.
    ///
    /// # Errors
    /// No possible owner has exactly these fields.
    pub fn read(&mut self, live: &BTreeMap<String, Bytes>) -> Result<(), String> {
        let fitting: Vec<_> = self
            .states
            .iter()
            .filter(|state| state.live() == *live)
            .cloned()
            .collect();
        if fitting.is_empty() {
            return Err(format!("read {live:?}, which is none of {:?}", self.states));
        }
        self.states = fitting;
        Ok(())
    }

    /// These cells, tombstones included, are all cells of a store.
    ///
    /// # Errors
    /// No possible owner has exactly these cells.
    pub fn holds(&mut self, cells: &BTreeMap<String, Cell>) -> Result<(), String> {
        let fitting: Vec<_> = self
            .states
            .iter()
            .filter(|state| state.cells == *cells)
            .cloned()
            .collect();
        if fitting.is_empty() {
            return Err(format!(
                "holds {cells:?}, which is none of {:?}",
                self.states
            ));
        }
        self.states = fitting;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(field: &str, value: &str) -> (Field, Change) {
        (
            Field::new(field).unwrap(),
            Change::Set(Bytes::copy_from_slice(value.as_bytes())),
        )
    }

    fn incr(by: i64) -> Vec<(Field, Change)> {
        vec![(Field::new("gold").unwrap(), Change::Incr(by))]
    }

    fn live(fields: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
        fields
            .iter()
            .map(|(field, value)| {
                (
                    (*field).to_owned(),
                    Bytes::copy_from_slice(value.as_bytes()),
                )
            })
            .collect()
    }

    fn version(number: u64) -> Version {
        Version::new(number).unwrap()
    }

    #[test]
    fn an_unknown_write_is_possible_whole_or_not_at_all() {
        let mut possible = Possible::default();
        let begun = possible.begin(vec![set("a", "1"), set("b", "1")]);
        possible.acknowledged(begun, version(5), &[]).unwrap();
        let _unknown = possible.begin(vec![set("a", "2"), set("b", "2")]);
        assert!(
            possible
                .clone()
                .read(&live(&[("a", "1"), ("b", "1")]))
                .is_ok()
        );
        assert!(
            possible
                .clone()
                .read(&live(&[("a", "2"), ("b", "2")]))
                .is_ok()
        );
        assert!(
            possible
                .clone()
                .read(&live(&[("a", "2"), ("b", "1")]))
                .is_err(),
            "a half"
        );
        assert!(possible.read(&live(&[])).is_err(), "a loss");
    }

    #[test]
    fn an_unknown_increment_counts_once_or_not_at_all_and_a_later_answer_tells() {
        let mut possible = Possible::default();
        let begun = possible.begin(incr(5));
        possible.acknowledged(begun, version(1), &[5]).unwrap();
        let _unknown = possible.begin(incr(1));
        let begun = possible.begin(incr(10));
        assert!(
            possible
                .clone()
                .acknowledged(
                    Begun {
                        ..possible.clone().begin(incr(10))
                    },
                    version(1),
                    &[15]
                )
                .is_err(),
            "no new version"
        );
        possible.acknowledged(begun, version(2), &[16]).unwrap();
        assert!(
            possible.clone().read(&live(&[("gold", "15")])).is_err(),
            "the answer shows that both were applied"
        );
        assert!(possible.read(&live(&[("gold", "16")])).is_ok());
    }

    #[test]
    fn a_refused_write_is_never_seen() {
        let mut possible = Possible::default();
        let begun = possible.begin(vec![set("a", "1")]);
        possible.refused(begun);
        assert!(possible.read(&live(&[("a", "1")])).is_err());
    }
}
