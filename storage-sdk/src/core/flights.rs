//! The writes under way, for the close of the storage. They are counted and not shared: each caller
//! awaits its own write.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use storage_coalesce::locked;
use storage_model::{Attempt, Epoch, Mutation, OpId, Outcome, Owner};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Core;
use crate::{Error, Kind, Result};

/// The most remembered writes of unknown outcome, for `close` and for retries by their callers.
const UNKNOWN_MAX: usize = 1_000;

/// The writes under way, and the writes of unknown outcome.
#[derive(Debug, Default)]
pub(super) struct Flights {
    open: AtomicU64,
    closed: AtomicBool,
    /// Whether sessions may still save, to end.
    sessions_save: AtomicBool,
    landed: Notify,
    unknown: Mutex<VecDeque<UnknownWrite>>,
}

/// A write of unknown outcome that the SDK gave up or the caller dropped.
#[derive(Debug)]
struct UnknownWrite {
    owner: Owner,
    id: OpId,
    /// Whether the caller keeps the id.
    named: bool,
    /// The hot tier's generation at the first copy that may have been applied.
    generation: Epoch,
}

impl UnknownWrite {
    fn of(mutation: &Mutation, generation: Epoch) -> Self {
        Self {
            owner: mutation.owner.clone(),
            id: mutation.id,
            named: mutation.attempt.is_named(),
            generation,
        }
    }
}

/// One write under way. `close` waits for it.
pub(super) struct Flight<'a> {
    flights: &'a Flights,
    /// Remembered if the flight is dropped before its end, because the caller may retry the write.
    /// Boxed, because few flights have it.
    dropped: Option<Box<UnknownWrite>>,
}

impl Flight<'_> {
    /// The write is about to be sent. If it is dropped from now on, its outcome is unknown.
    pub(super) fn sent(&mut self, mutation: &Mutation, generation: Epoch) {
        if mutation.attempt.is_named() {
            self.dropped = Some(Box::new(UnknownWrite::of(mutation, generation)));
        }
    }

    /// The caller is about to learn the outcome.
    pub(super) fn ended(&mut self) {
        self.dropped = None;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(unknown) = self.dropped.take() {
            self.flights.remember(*unknown);
        }
        if self.flights.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.flights.landed.notify_waiters();
        }
    }
}

impl Flights {
    /// The first call under an id counts, because the write may have been applied from then on.
    fn remember(&self, unknown: UnknownWrite) {
        let mut list = locked(&self.unknown);
        if list.iter().any(|known| known.id == unknown.id) {
            return;
        }
        if list.len() == UNKNOWN_MAX {
            list.pop_front();
        }
        list.push_back(unknown);
    }
}

impl Core {
    /// A write that is under way from now on. Writes of sessions pass while the storage ends its
    /// sessions.
    pub(super) fn flight(&self, of_session: bool) -> Result<Flight<'_>> {
        self.flights.open.fetch_add(1, Ordering::SeqCst);
        let flight = Flight {
            flights: &self.flights,
            dropped: None,
        };
        if !(of_session && self.flights.sessions_save.load(Ordering::SeqCst)) {
            self.check_open()?;
        }
        Ok(flight)
    }

    /// Whether sessions may save although further calls fail.
    pub(crate) fn let_sessions_save(&self, may: bool) {
        self.flights.sessions_save.store(may, Ordering::SeqCst);
    }

    /// Rejects a call of a closed storage. A write asks for its flight, which asks here.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.flights.closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                Kind::Closed,
                "the storage was closed; open it again, or stop the work that still uses it",
            ));
        }
        Ok(())
    }

    /// The error for the caller of a failed call. After a close it is `Closed`, unless the write
    /// was applied, so that a loop that obeys `retry` ends.
    pub(crate) fn error_for_caller(&self, error: Error) -> Error {
        if self.check_open().is_ok() {
            error
        } else {
            error.closed()
        }
    }

    /// Does work other than a write, unless the storage is closed before or during it.
    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check_open()?;
        work.await.map_err(|error| self.error_for_caller(error))
    }

    /// The error of a write that is not retried any more. `unknown` is the hot tier's generation in
    /// which the write may have been applied.
    pub(super) fn given_up(
        &self,
        mutation: &Mutation,
        unknown: Option<Epoch>,
        error: Error,
    ) -> Error {
        let Some(generation) = unknown else {
            return error.with_outcome(Outcome::NotApplied);
        };
        self.flights
            .remember(UnknownWrite::of(mutation, generation));
        error.with_outcome(Outcome::Unknown)
    }

    /// The hot tier's generation in which an earlier call of this retry may have been applied, if
    /// such a call was recently given up or dropped.
    pub(super) fn was_given_up(&self, repeat: &Mutation) -> Option<Epoch> {
        if repeat.attempt != Attempt::Named {
            return None;
        }
        let list = locked(&self.flights.unknown);
        list.iter()
            .find(|unknown| unknown.id == repeat.id)
            .map(|unknown| unknown.generation)
    }

    /// Rejects further calls.
    pub(crate) fn refuse_writes(&self) {
        self.flights.closed.store(true, Ordering::SeqCst);
    }

    /// Rejects further calls, and waits for the writes under way until `deadline`. Returns the
    /// number of remaining writes, and the writes of unknown outcome.
    pub(crate) async fn close(&self, deadline: Instant) -> (u64, Vec<(Owner, Option<OpId>)>) {
        self.refuse_writes();
        loop {
            let ended = self.flights.landed.notified();
            if self.flights.open.load(Ordering::SeqCst) == 0 {
                break;
            }
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                break;
            }
        }
        // ORDER: the number first. A write that ends in between is counted and listed.
        let open = self.flights.open.load(Ordering::SeqCst);
        let unknown = locked(&self.flights.unknown)
            .iter()
            .map(|unknown| (unknown.owner.clone(), unknown.named.then_some(unknown.id)))
            .collect();
        (open, unknown)
    }
}
