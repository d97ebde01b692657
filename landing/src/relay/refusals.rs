//! When an event that a sink refuses is at fault itself: beside an event that the sink takes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use storage_coalesce::locked;
use storage_model::{Partition, Position};

/// The most events that are tried alone while the sink takes none.
const TRIES_MAX: usize = 1 << 12;

/// The refusals of one sink. Locked for a look or a change, never across an await.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many events the sink has taken.
    taken: u64,
    /// The first refused event of each partition, and the events that were taken before it was
    /// refused first.
    suspects: BTreeMap<Partition, (Position, u64)>,
    /// Rounds in a row in which the sink took nothing.
    rounds: u32,
}

impl Refusals {
    /// The sink took this many events.
    pub(super) fn taken(&self, events: usize) {
        let mut state = self.lock();
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        state.taken = state.taken.saturating_add(events);
        state.rounds = 0;
    }

    /// Keeps the first of some refused events, none of which is at fault for certain.
    pub(super) fn suspect(&self, partition: Partition, position: Position) {
        let mut state = self.lock();
        let taken = state.taken;
        state.rounds = state.rounds.saturating_add(1);
        let suspect = state.suspects.entry(partition).or_insert((position, taken));
        if suspect.0 != position {
            *suspect = (position, taken);
        }
    }

    /// Whether the sink has taken another event since it refused this one first.
    pub(super) fn is_proven(&self, partition: Partition, position: Position) -> bool {
        let state = self.lock();
        let suspect = state.suspects.get(&partition);
        suspect.is_some_and(|(refused, taken)| *refused == position && *taken < state.taken)
    }

    /// How many events are tried alone before the sink counts as one that refuses all. More after
    /// each such round, so that a long row of bad events ends, too.
    pub(super) fn tries(&self) -> usize {
        let rounds = self.lock().rounds.min(TRIES_MAX.ilog2());
        1 << rounds
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_proven_bad_by_another_that_is_taken_after_its_refusal() {
        let refusals = Refusals::default();
        let at = |number| Position::new(1, number);
        refusals.taken(3);
        assert!(!refusals.is_proven(Partition(1), at(4)));
        refusals.suspect(Partition(1), at(4));
        assert!(!refusals.is_proven(Partition(1), at(4)), "taken before it");
        refusals.suspect(Partition(1), at(4));
        refusals.taken(1);
        assert!(refusals.is_proven(Partition(1), at(4)));
        assert!(
            !refusals.is_proven(Partition(1), at(5)) && !refusals.is_proven(Partition(2), at(4))
        );
    }

    #[test]
    fn more_events_are_tried_after_each_round_without_any() {
        let refusals = Refusals::default();
        let mut tries = Vec::new();
        for _ in 0..4 {
            tries.push(refusals.tries());
            refusals.suspect(Partition(0), Position::new(1, 1));
        }
        assert_eq!(tries, [1, 2, 4, 8]);
        refusals.taken(1);
        assert_eq!(refusals.tries(), 1);
    }
}
