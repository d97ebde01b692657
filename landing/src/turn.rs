//! Turns at the database: as many concurrent transactions as the pace allows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::pace::{Limits, Pace};

/// Hands out turns.
#[derive(Debug)]
pub(crate) struct Turns {
    // A plain mutex: held for arithmetic only, never across an await.
    state: Mutex<State>,
    /// Notified when a turn ends, and so of each change of the pace.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    under_way: usize,
}

/// The right to a transaction. It ends with this value.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
        self.0.ended.notify_waiters();
    }
}

impl Turns {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::new(State {
                pace: Pace::new(limits),
                under_way: 0,
            }),
            ended: Notify::new(),
        }
    }

    /// Waits for a turn.
    pub(crate) async fn begin(&self) -> Turn<'_> {
        loop {
            // Made before the check, so that a turn that ends right after it is not missed.
            let ended = self.ended.notified();
            if let Some(turn) = self.try_begin() {
                return turn;
            }
            ended.await;
        }
    }

    fn try_begin(&self) -> Option<Turn<'_>> {
        let mut state = self.state();
        let free = state.under_way < state.pace.transactions();
        state.under_way += usize::from(free);
        // Made only if it is returned. A drop here would wait for the lock that `state` holds.
        free.then(|| Turn(self))
    }

    /// Reads or changes the pace.
    pub(crate) fn pace<T>(&self, with: impl FnOnce(&mut Pace) -> T) -> T {
        with(&mut self.state().pace)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;
    use crate::pace::Size;

    #[test]
    fn as_many_turns_are_given_as_the_pace_allows_and_each_that_ends_is_given_again() {
        let turns = Turns::new(Limits {
            rows: 1,
            bytes: 1,
            transactions: 2,
        });
        let first = turns.begin().now_or_never();
        assert!(
            first.is_some() && turns.begin().now_or_never().is_none(),
            "one at first"
        );
        turns
            .pace(|pace| (0..9).for_each(|_| pace.took(Size::default(), Duration::from_millis(1))));
        let second = turns.begin().now_or_never();
        let mut third = Box::pin(turns.begin());
        assert!(
            second.is_some() && third.as_mut().now_or_never().is_none(),
            "then two"
        );
        drop(first);
        assert!(third.now_or_never().is_some());
    }
}
