//! The loads that wait or run in this process, and their waiters (R12).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage_model::Owner;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast};

use super::{Answer, LoadCounts, contended};

/// Owners of one statement. More of them gain nothing and delay the first.
const BATCH_OWNERS_MAX: usize = 64;
/// Concurrent batches. Each holds one database connection.
const BATCHES_MAX: usize = 4;

/// The waiters of one owner.
#[derive(Debug)]
struct Waiting {
    listeners: broadcast::Sender<Answer>,
    /// Whether a carrier has taken the load. Its result can then be older than the state that a new
    /// caller has seen.
    begun: bool,
    /// Waiters that came after the load began. The next load is theirs, and mostly finds the hash
    /// filled.
    later: Option<broadcast::Sender<Answer>>,
}

fn channel() -> broadcast::Sender<Answer> {
    broadcast::channel(1).0
}

#[derive(Debug, Default)]
struct Queue {
    /// Owners with a load that waits or runs. Callers and carriers write it under the lock. An
    /// entry ends with its answer.
    waiting: HashMap<Owner, Waiting>,
    /// The waiting owners that no carrier has taken yet.
    fresh: Vec<Owner>,
    /// Carriers that have not ended, including those that wait for a permit.
    carriers: usize,
}

/// The loads under way in this process. A plain mutex is enough: it is held for map operations
/// only, never across an await.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(super) rows_max: usize,
    queue: Arc<Mutex<Queue>>,
    carriers: Arc<Semaphore>,
    owners: Arc<AtomicU64>,
    statements: Arc<AtomicU64>,
    panics: Arc<AtomicU64>,
}

impl Loader {
    pub(crate) fn new(rows_max: usize) -> Self {
        Self {
            rows_max,
            queue: Arc::default(),
            carriers: Arc::new(Semaphore::new(BATCHES_MAX)),
            owners: Arc::default(),
            statements: Arc::default(),
            panics: Arc::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the owner's load if it has not begun, else queues one. The flag tells whether the
    /// caller must start a carrier.
    pub(super) fn join(&self, owner: &Owner) -> (broadcast::Receiver<Answer>, bool) {
        let mut queue = self.queue();
        if let Some(waiting) = queue.waiting.get_mut(owner) {
            let listeners = if waiting.begun {
                waiting.later.get_or_insert_with(channel)
            } else {
                &waiting.listeners
            };
            return (listeners.subscribe(), false);
        }
        let listeners = channel();
        let receiver = listeners.subscribe();
        queue.waiting.insert(
            owner.clone(),
            Waiting {
                listeners,
                begun: false,
                later: None,
            },
        );
        queue.fresh.push(owner.clone());
        queue.carriers += 1;
        (receiver, true)
    }

    /// The carrier that [`Loader::join`] asked for.
    pub(super) fn carrier(&self) -> Carrier {
        Carrier(self.clone())
    }

    /// Waits for the right to carry loads. At most `BATCHES_MAX` carriers have it at once.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.carriers.acquire().await.ok()
    }

    /// Takes owners for one load. The carrier must answer them.
    pub(super) fn take(&self) -> Carried<'_> {
        let mut queue = self.queue();
        let count = queue.fresh.len().min(BATCH_OWNERS_MAX);
        let taken: Vec<Owner> = queue.fresh.drain(..count).collect();
        for owner in &taken {
            if let Some(waiting) = queue.waiting.get_mut(owner) {
                waiting.begun = true;
            }
        }
        Carried {
            loader: self,
            owners: taken,
        }
    }

    /// Answers the waiters of a load. Queues the next load for the waiters that came after it
    /// began.
    pub(super) fn answer(&self, owner: &Owner, answer: Answer) {
        let mut queue = self.queue();
        let Some(Waiting {
            listeners, later, ..
        }) = queue.waiting.remove(owner)
        else {
            return;
        };
        if let Some(listeners) = later {
            queue.waiting.insert(
                owner.clone(),
                Waiting {
                    listeners,
                    begun: false,
                    later: None,
                },
            );
            queue.fresh.push(owner.clone());
        }
        let _ = listeners.send(answer);
    }

    /// Fails all waiters of an owner, because no carrier is left for its load.
    fn fail(&self, owner: &Owner) {
        let Some(Waiting {
            listeners, later, ..
        }) = self.queue().waiting.remove(owner)
        else {
            return;
        };
        for listeners in [Some(listeners), later].into_iter().flatten() {
            let _ = listeners.send(Err(contended(owner)));
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue().fresh.is_empty()
    }

    pub(super) fn count(&self, owners: usize) {
        self.owners
            .fetch_add(u64::try_from(owners).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LoadCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadCounts {
            owners: get(&self.owners),
            statements: get(&self.statements),
            panics: get(&self.panics),
        }
    }

    pub(super) fn panics(&self) -> &AtomicU64 {
        &self.panics
    }
}

/// A carrier of loads, until it is dropped: at its end, or with its runtime, perhaps before it has
/// begun. The last carrier fails the loads that nobody has taken. Otherwise their waiters would
/// wait for ever, and so would all later callers that join them.
pub(super) struct Carrier(Loader);

impl Drop for Carrier {
    fn drop(&mut self) {
        let left = {
            let mut queue = self.0.queue();
            queue.carriers = queue.carriers.saturating_sub(1);
            if queue.carriers == 0 {
                std::mem::take(&mut queue.fresh)
            } else {
                Vec::new()
            }
        };
        left.iter().for_each(|owner| self.0.fail(owner));
    }
}

/// Owners that a carrier has taken. Owners that are left when the carrier ends get an answer, too,
/// even after a panic.
pub(super) struct Carried<'a> {
    loader: &'a Loader,
    pub(super) owners: Vec<Owner>,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        self.owners.iter().for_each(|owner| self.loader.fail(owner));
    }
}
