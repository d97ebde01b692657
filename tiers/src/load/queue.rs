//! The loads that wait or run in this process, and who waits for them (R12).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage_model::Owner;
use tokio::sync::{Semaphore, SemaphorePermit, broadcast};

use super::{Answer, LoadCounts, contended};

/// Owners in one statement. More gain nothing and delay the first.
const BATCH_OWNERS_MAX: usize = 64;
/// Batches under way at once; each holds one database connection.
const BATCHES_MAX: usize = 4;

/// Who waits for an owner.
#[derive(Debug)]
struct Waiting {
    listeners: broadcast::Sender<Answer>,
    /// Whether a carrier has taken it. What it brings may then be older than what a new caller has
    /// seen.
    begun: bool,
    /// Those who came after it began; the next load is theirs, and mostly finds the hash filled.
    later: Option<broadcast::Sender<Answer>>,
}

fn channel() -> broadcast::Sender<Answer> {
    broadcast::channel(1).0
}

#[derive(Debug, Default)]
struct Queue {
    /// Owners whose load waits or runs. Written by joiners and carriers under the lock; entries end
    /// with their answer.
    waiting: HashMap<Owner, Waiting>,
    /// Those of them that no carrier took yet.
    fresh: Vec<Owner>,
    /// Carriers that have not ended, also those that wait for their turn.
    carriers: usize,
}

/// The loads under way in this process. A plain mutex: it is held for map operations only, never
/// across an await.
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

    /// Joins the owner's load that has not begun, or queues one; says whether a carrier is needed.
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

    /// The right to carry loads; none if there are no more to carry.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.carriers.acquire().await.ok()
    }

    /// Owners for one load, to be answered.
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

    /// Answers those who waited for a load, and queues the next one for those who came after it
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

    /// Answers all who wait for an owner, since nobody carries its load any more.
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

/// Who carries loads, until it is dropped: at its end, or with its runtime, which may end before
/// the carrier has begun. Where no other is left, those who wait for a load that nobody has taken
/// would wait for ever, and so would all who join them.
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

/// Owners that a carrier has taken. Whoever is left when it ends, however it ends, gets an answer
/// all the same.
pub(super) struct Carried<'a> {
    loader: &'a Loader,
    pub(super) owners: Vec<Owner>,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        self.owners.iter().for_each(|owner| self.loader.fail(owner));
    }
}
