//! One field and all its possible states, seen from its only writer.

use std::collections::BTreeSet;

use crate::torture::history::Effect;
use crate::torture::moment::Micros;

/// The content of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// No value, and it never had one.
    Absent,
    /// A value, by its token.
    Live(String),
    /// It was removed, with this last value.
    Removed(String),
    /// It was removed, and its last value was given up.
    Purged,
}

impl Cell {
    /// The value that a reader finds.
    #[must_use]
    pub fn live(&self) -> Option<&str> {
        match self {
            Self::Live(token) => Some(token),
            _ => None,
        }
    }

    fn after(&self, effect: &Effect) -> Self {
        match (effect, self) {
            (Effect::Set(token), _) => Self::Live(token.clone()),
            (Effect::Incr(by), Self::Live(token)) => {
                Self::Live((token.parse::<i64>().unwrap_or_default() + by).to_string())
            }
            (Effect::Incr(by), _) => Self::Live(by.to_string()),
            (Effect::Remove, Self::Live(token)) => Self::Removed(token.clone()),
            (Effect::Restore, Self::Removed(token)) => Self::Live(token.clone()),
            (Effect::Purge, Self::Removed(_)) => Self::Purged,
            (Effect::Remove | Effect::Restore | Effect::Purge, same) => same.clone(),
        }
    }
}

/// A write of unknown outcome. It may still be applied, once, until it expires.
#[derive(Debug, Clone)]
struct Pending {
    effect: Effect,
    expires: Micros,
}

/// More states than any field has that can be judged.
const STATES_MAX: usize = 10_000;
/// More concurrent writes of unknown outcome than can be judged.
const PENDING_MAX: usize = 12;

/// There are too many writes of unknown outcome to know the possible contents of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// All possible states of a field: its content, and the writes of unknown outcome that may still be
/// applied.
#[derive(Debug, Clone)]
pub struct States {
    /// The cell, and a bit for each pending write that was not applied in this state.
    set: BTreeSet<(Cell, u32)>,
    pending: Vec<Pending>,
}

impl Default for States {
    fn default() -> Self {
        Self {
            set: BTreeSet::from([(Cell::Absent, 0)]),
            pending: Vec::new(),
        }
    }
}

impl States {
    /// The cells of all states.
    #[must_use]
    pub fn cells(&self) -> BTreeSet<Cell> {
        self.set.iter().map(|(cell, _)| cell.clone()).collect()
    }

    /// Whether no state explains the observations.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.set.is_empty()
    }

    /// Lets pending writes be applied or not, in any order.
    fn close(&mut self) -> Result<(), TooMany> {
        let mut left: Vec<(Cell, u32)> = self.set.iter().cloned().collect();
        while let Some((cell, mask)) = left.pop() {
            for (at, pending) in self
                .pending
                .iter()
                .enumerate()
                .filter(|(at, _)| mask & (1 << at) != 0)
            {
                let next = (cell.after(&pending.effect), mask & !(1 << at));
                if self.set.insert(next.clone()) {
                    left.push(next);
                }
            }
            if self.set.len() > STATES_MAX {
                return Err(TooMany);
            }
        }
        Ok(())
    }

    /// Forgets the writes that can't be applied any more.
    pub fn expire(&mut self, now: Micros) {
        let kept: Vec<usize> = (0..self.pending.len())
            .filter(|at| self.pending.get(*at).is_some_and(|p| p.expires >= now))
            .collect();
        if kept.len() == self.pending.len() {
            return;
        }
        let moved = |mask: u32| {
            kept.iter()
                .enumerate()
                .map(|(to, from)| (mask >> from & 1) << to)
                .sum()
        };
        self.set = std::mem::take(&mut self.set)
            .into_iter()
            .map(|(cell, mask)| (cell, moved(mask)))
            .collect();
        self.pending = kept
            .iter()
            .filter_map(|at| self.pending.get(*at).cloned())
            .collect();
    }

    /// A write of unknown outcome begins.
    ///
    /// # Errors
    /// There are too many of them.
    pub fn begin_unknown(&mut self, effect: Effect, expires: Micros) -> Result<(), TooMany> {
        let at = self.pending.len();
        if at >= PENDING_MAX {
            return Err(TooMany);
        }
        self.pending.push(Pending { effect, expires });
        self.set = std::mem::take(&mut self.set)
            .into_iter()
            .map(|(cell, mask)| (cell, mask | 1 << at))
            .collect();
        self.close()
    }

    /// A write was acknowledged. `fits` compares the cell before and after it with the
    /// acknowledgement.
    ///
    /// # Errors
    /// There are too many states.
    pub fn apply(
        &mut self,
        effect: &Effect,
        fits: impl Fn(&Cell, &Cell) -> bool,
    ) -> Result<(), TooMany> {
        let next = std::mem::take(&mut self.set)
            .into_iter()
            .filter_map(|(cell, mask)| {
                let after = cell.after(effect);
                fits(&cell, &after).then_some((after, mask))
            });
        self.set = next.collect();
        self.close()
    }

    /// The writer itself read the field. Only states that explain the read are left, and the states
    /// that may follow from them.
    ///
    /// # Errors
    /// There are too many states.
    pub fn observe(&mut self, live: Option<&str>) -> Result<(), TooMany> {
        self.set.retain(|(cell, _)| cell.live() == live);
        self.close()
    }

    /// The hot tier came back older. The field holds one of these cells, and pending writes may be
    /// applied again.
    ///
    /// # Errors
    /// There are too many states.
    pub fn rewind(&mut self, cells: BTreeSet<Cell>) -> Result<(), TooMany> {
        let all = (1_u32 << self.pending.len()) - 1;
        self.set = cells.into_iter().map(|cell| (cell, all)).collect();
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(token: &str) -> Effect {
        Effect::Set(token.to_owned())
    }

    fn lives(states: &States) -> Vec<String> {
        states
            .cells()
            .iter()
            .map(|cell| cell.live().unwrap_or("-").to_owned())
            .collect()
    }

    #[test]
    fn a_write_of_unknown_outcome_may_be_applied_after_a_later_one_until_it_expires() {
        let mut states = States::default();
        states.begin_unknown(set("a"), 10).unwrap();
        states.apply(&set("b"), |_, _| true).unwrap();
        assert_eq!(lives(&states), ["a", "b"]);
        states.observe(Some("b")).unwrap();
        assert_eq!(lives(&states), ["a", "b"]);
        states.apply(&set("c"), |_, _| true).unwrap();
        assert_eq!(lives(&states), ["a", "c"]);
        states.expire(11);
        states.apply(&set("d"), |_, _| true).unwrap();
        assert_eq!(lives(&states), ["d"]);
    }

    #[test]
    fn an_increment_of_unknown_outcome_counts_once_or_not_at_all() {
        let mut states = States::default();
        states.begin_unknown(Effect::Incr(5), 10).unwrap();
        states
            .apply(&Effect::Incr(1), |_, after| after.live() == Some("6"))
            .unwrap();
        states.apply(&Effect::Incr(1), |_, _| true).unwrap();
        assert_eq!(lives(&states), ["7"]);
    }

    #[test]
    fn a_removed_value_comes_back_with_restore() {
        let mut states = States::default();
        for effect in [set("a"), Effect::Remove, Effect::Remove] {
            states.apply(&effect, |_, _| true).unwrap();
        }
        assert_eq!(
            states.cells(),
            BTreeSet::from([Cell::Removed("a".to_owned())])
        );
        states.apply(&Effect::Restore, |_, _| true).unwrap();
        assert_eq!(lives(&states), ["a"]);
    }

    #[test]
    fn a_purged_value_comes_back_with_nothing_and_a_live_one_is_never_purged() {
        let mut states = States::default();
        for effect in [set("a"), Effect::Purge] {
            states.apply(&effect, |_, _| true).unwrap();
        }
        assert_eq!(lives(&states), ["a"]);
        for effect in [Effect::Remove, Effect::Purge, Effect::Restore] {
            states.apply(&effect, |_, _| true).unwrap();
        }
        assert_eq!(states.cells(), BTreeSet::from([Cell::Purged]));
    }
}
