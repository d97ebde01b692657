//! The writes under way, for closing.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use storage_model::sabotage::broken;
use storage_model::{Attempt, Epoch, Mutation, OpId, Outcome, Owner};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Core;
use crate::{Error, Kind, Result};

/// Writes of unknown outcome that are remembered, for `close` and for repeats by their callers.
const UNKNOWN_MAX: usize = 1_000;

/// The writes under way, and those whose outcome stayed unknown.
#[derive(Debug, Default)]
pub(super) struct Flights {
    open: AtomicU64,
    closed: AtomicBool,
    /// Whether sessions may still save, for their end.
    sessions_save: AtomicBool,
    landed: Notify,
    unknown: Mutex<VecDeque<Unknown>>,
}

/// A write that was given up, or dropped by its caller, while its outcome was unknown.
#[derive(Debug)]
struct Unknown {
    owner: Owner,
    id: OpId,
    /// Whether its caller keeps the id.
    named: bool,
    /// That of the hot tier when its first copy was sent that may have been applied.
    generation: Epoch,
}

impl Unknown {
    fn of(mutation: &Mutation, generation: Epoch) -> Self {
        Self {
            owner: mutation.owner.clone(),
            id: mutation.id,
            named: mutation.attempt.is_named(),
            generation,
        }
    }
}

/// One write under way; `close` waits for it.
pub(super) struct Flight<'a> {
    flights: &'a Flights,
    /// What is remembered if it is dropped before it has ended, since its caller may repeat it.
    /// Boxed, as few have it.
    dropped: Option<Box<Unknown>>,
}

impl Flight<'_> {
    /// The write is about to be sent: dropped from now on, its outcome is unknown.
    pub(super) fn sent(&mut self, mutation: &Mutation, generation: Epoch) {
        if mutation.attempt.is_named() {
            self.dropped = Some(Box::new(Unknown::of(mutation, generation)));
        }
    }

    /// The caller is about to be told of its outcome.
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
    /// The first call under an id counts: from then on it may have been applied.
    fn remember(&self, unknown: Unknown) {
        let mut list = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// A write that is under way from now on; a session's also while the storage ends its sessions.
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

    /// Whether sessions may save though further calls are refused.
    pub(crate) fn let_sessions_save(&self, may: bool) {
        self.flights.sessions_save.store(may, Ordering::SeqCst);
    }

    /// Refuses a call of a closed storage. A write asks for its flight, which asks here.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.flights.closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                Kind::Closed,
                "the storage was closed; open it anew, or end the work that still uses it",
            ));
        }
        Ok(())
    }

    /// What a call that failed is told: once the storage is closed, that, whatever broke under it.
    /// A loop that obeys `retry` then ends.
    pub(crate) fn told(&self, error: Error) -> Error {
        if self.check_open().is_ok() {
            error
        } else {
            error.closed()
        }
    }

    /// Does what is no write, unless the storage is closed before or meanwhile.
    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check_open()?;
        work.await.map_err(|error| self.told(error))
    }

    /// The last word on a write that is not repeated any more; `unknown` if it may have been
    /// applied, in a hot tier of this generation.
    pub(super) fn given_up(
        &self,
        mutation: &Mutation,
        unknown: Option<Epoch>,
        error: Error,
    ) -> Error {
        let Some(generation) = unknown else {
            return error.with_outcome(Outcome::NotApplied);
        };
        self.flights.remember(Unknown::of(mutation, generation));
        error.with_outcome(Outcome::Unknown)
    }

    /// The generation of the hot tier in which an earlier call of this repeat may have been
    /// applied, if one was given up or dropped of late.
    pub(super) fn was_given_up(&self, repeat: &Mutation) -> Option<Epoch> {
        if repeat.attempt != Attempt::RetryNamed || broken("R11-given-up") {
            return None;
        }
        let list = self
            .flights
            .unknown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        list.iter()
            .find(|unknown| unknown.id == repeat.id)
            .map(|unknown| unknown.generation)
    }

    /// Refuses further calls.
    pub(crate) fn refuse_writes(&self) {
        self.flights.closed.store(true, Ordering::SeqCst);
    }

    /// Refuses further calls and waits for the writes under way, until `deadline`; answers how many
    /// are left, and which ended unknown.
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
        let unknown = self
            .flights
            .unknown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let unknown = unknown
            .iter()
            .map(|unknown| (unknown.owner.clone(), unknown.named.then_some(unknown.id)))
            .collect();
        (self.flights.open.load(Ordering::SeqCst), unknown)
    }
}
