//! The loads that wait or run in this process (R12), and how many there were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use storage_coalesce::{Coalescer, Group};
use storage_model::Owner;

use super::{Answer, LoadBound, LoadCounts};

/// Owners of one statement. More of them gain nothing and delay the first.
const BATCH_OWNERS_MAX: usize = 64;
/// Concurrent batches. Each holds one database connection.
const BATCHES_MAX: usize = 4;

/// The waiters of one owner, whose load has begun.
pub(super) type Waiters = Group<Owner, (), Answer>;

/// The loads under way in this process.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) bound: LoadBound,
    pub(super) waiting: Coalescer<Owner, (), Answer>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    owners: AtomicU64,
    statements: AtomicU64,
    panics: AtomicU64,
}

impl Loader {
    pub(crate) fn new(bound: LoadBound) -> Self {
        Self {
            bound,
            waiting: Coalescer::of_wanted(BATCHES_MAX, BATCH_OWNERS_MAX),
            counts: Arc::default(),
        }
    }

    pub(super) fn count(&self, owners: usize) {
        let owners = u64::try_from(owners).unwrap_or(u64::MAX);
        self.counts.owners.fetch_add(owners, Ordering::Relaxed);
        self.counts.statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LoadCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadCounts {
            owners: get(&self.counts.owners),
            statements: get(&self.counts.statements),
            panics: get(&self.counts.panics),
        }
    }

    pub(super) fn panics(&self) -> &AtomicU64 {
        &self.counts.panics
    }
}
