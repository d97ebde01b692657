//! The writes under way, for closing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use storage_model::{Mutation, OpId, Outcome, Owner};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Core;
use crate::{Error, Kind, Result};

/// Writes of unknown outcome that are remembered for `close`.
const UNKNOWN_MAX: usize = 1_000;

/// The writes under way, and those whose outcome stayed unknown.
#[derive(Debug, Default)]
pub(super) struct Flights {
    open: AtomicU64,
    closed: AtomicBool,
    landed: Notify,
    unknown: Mutex<VecDeque<(Owner, OpId)>>,
}

/// One write under way; `close` waits for it.
pub(super) struct Flight<'a>(&'a Flights);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}

impl Core {
    pub(super) fn flight(&self) -> Result<Flight<'_>> {
        self.flights.open.fetch_add(1, Ordering::SeqCst);
        let flight = Flight(&self.flights);
        if self.flights.closed.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Closed, "the storage was closed"));
        }
        Ok(flight)
    }

    /// The last word on a write that is not repeated any more.
    pub(super) fn given_up(&self, mutation: &Mutation, unknown: bool, error: Error) -> Error {
        if !unknown {
            return error.with_outcome(Outcome::NotApplied);
        }
        let mut list = self.flights.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() == UNKNOWN_MAX {
            list.pop_front();
        }
        list.push_back((mutation.owner.clone(), mutation.id));
        error.with_outcome(Outcome::Unknown)
    }

    /// Refuses further writes and waits for those under way, until `deadline`; answers how many are left, and which ended unknown.
    pub(crate) async fn close(&self, deadline: Instant) -> (u64, Vec<(Owner, OpId)>) {
        self.flights.closed.store(true, Ordering::SeqCst);
        loop {
            let ended = self.flights.landed.notified();
            if self.flights.open.load(Ordering::SeqCst) == 0 {
                break;
            }
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                break;
            }
        }
        let unknown = self.flights.unknown.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        (self.flights.open.load(Ordering::SeqCst), unknown)
    }
}
