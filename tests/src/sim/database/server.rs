//! One database server: what it holds, its locks, and what it is not well of.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage_model::{Field, Owner, Partition, Row};
use storage_sql::Batch;
use tokio::sync::OwnedMutexGuard;

use super::tables::Tables;

/// Is told of every landing that commits.
pub trait Commits: Send + Sync + fmt::Debug {
    /// A landing is committed; the tables are as they are after it.
    fn committed(&self, batch: &Batch, tables: &Tables);
}

/// What a transaction locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lockable {
    /// A partition's record.
    Partition(Partition),
    /// A field's row.
    Row(Owner, Field),
}

/// A lock, held until this is dropped.
pub type Held = OwnedMutexGuard<()>;

/// What the server is not well of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ails {
    /// It can't be reached.
    pub away: bool,
    /// It takes no writes.
    pub read_only: bool,
    /// It refuses rows of the field `poison`.
    pub refuses: bool,
}

#[derive(Debug, Default)]
struct State {
    tables: Tables,
    ails: Ails,
    /// How often connections broke.
    lives: u64,
}

/// A database server. Share it behind an `Arc`.
#[derive(Debug)]
pub struct Database {
    state: Mutex<State>,
    locks: Mutex<BTreeMap<Lockable, Arc<tokio::sync::Mutex<()>>>>,
    commits: Option<Arc<dyn Commits>>,
}

impl Database {
    /// An empty database.
    #[must_use]
    pub fn new(commits: Option<Arc<dyn Commits>>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), locks: Mutex::default(), commits })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was committed.
    pub fn tables<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.state().tables)
    }

    /// Changes what was committed.
    pub fn change<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.state().tables)
    }

    /// Commits a landing.
    pub fn land(&self, batch: &Batch) {
        let mut state = self.state();
        state.tables.take(batch);
        if let Some(commits) = &self.commits {
            commits.committed(batch, &state.tables);
        }
    }

    /// What it is not well of.
    #[must_use]
    pub fn ails(&self) -> Ails {
        self.state().ails
    }

    /// Changes what it is not well of.
    pub fn ail(&self, change: impl FnOnce(&mut Ails)) {
        change(&mut self.state().ails);
    }

    /// Breaks all connections and the transactions on them.
    pub fn break_connections(&self) {
        self.state().lives += 1;
    }

    /// Counts how often connections broke: a transaction of another number is no more.
    #[must_use]
    pub fn lives(&self) -> u64 {
        self.state().lives
    }

    /// Whether it refuses a row.
    #[must_use]
    pub fn refuses(&self, row: &Row) -> bool {
        self.state().ails.refuses && row.field.as_str() == "poison"
    }

    /// Waits for a lock.
    pub async fn lock(&self, what: Lockable) -> Held {
        let lock = Arc::clone(self.locks.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default());
        lock.lock_owned().await
    }
}
