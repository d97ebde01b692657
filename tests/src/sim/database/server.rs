//! One database server: its data, its locks, and its ailments.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::{Field, Owner, Partition, Row};
use storage_sql::Batch;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::tables::Tables;

/// Learns of every landing that commits.
pub trait Commits: Send + Sync + fmt::Debug {
    /// A landing is committed. The tables are those after it.
    fn committed(&self, batch: &Batch, tables: &Tables);
}

/// The subject of a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lockable {
    /// A partition's record.
    Partition(Partition),
    /// A field's row.
    Row(Owner, Field),
    /// The facts of the whole database.
    Meta,
}

/// A lock, held until this is dropped.
pub type Held = OwnedMutexGuard<()>;

/// The ailments of the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ails {
    /// It can't be reached.
    pub away: bool,
    /// It takes no writes.
    pub read_only: bool,
    /// It rejects rows of the field `poison`.
    pub refuses: bool,
}

#[derive(Debug, Default)]
struct State {
    tables: Tables,
    ails: Ails,
    /// How often connections broke.
    lives: u64,
    /// The time until a commit is durable, and the tables before each commit that may be forgotten.
    /// Each has the time at which the commit replaced it.
    durable_after: Duration,
    before: VecDeque<(Instant, Tables)>,
}

impl State {
    /// A commit is about to happen.
    fn remember(&mut self) {
        let now = Instant::now();
        while self
            .before
            .front()
            .is_some_and(|(ended, _)| *ended + self.durable_after <= now)
        {
            self.before.pop_front();
        }
        if !self.durable_after.is_zero() {
            self.before.push_back((now, self.tables.clone()));
        }
    }
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
        Arc::new(Self {
            state: Mutex::default(),
            locks: Mutex::default(),
            commits,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Reads the committed data.
    pub fn tables<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.state().tables)
    }

    /// Changes the committed data.
    pub fn change<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        let mut state = self.state();
        state.remember();
        change(&mut state.tables)
    }

    /// From now on a commit is durable only after this time.
    pub fn durable_after(&self, time: Duration) {
        self.state().durable_after = time;
    }

    /// The process dies, and another takes its place without the last of the commits that were not
    /// durable yet. `choose` gets the number of such commits and returns the number to forget.
    pub fn forget(&self, choose: impl FnOnce(usize) -> usize) {
        let mut state = self.state();
        state.remember();
        let starts = state.tables.starts + 1;
        let commits = state.before.len().saturating_sub(1);
        if let Some((_, kept)) = state
            .before
            .get(commits.saturating_sub(choose(commits)))
            .cloned()
        {
            // The pairing is kept. If a database forgets which hot tier took over, an operator must
            // help. The simulator does not play that case.
            let pairing = std::mem::take(&mut state.tables.pairing);
            state.tables = kept;
            state.tables.pairing = pairing;
        }
        state.tables.starts = starts;
        state.before.clear();
        state.lives += 1;
    }

    /// Commits a landing.
    pub fn land(&self, batch: &Batch) {
        let mut state = self.state();
        state.remember();
        state.tables.take(batch);
        if let Some(commits) = &self.commits {
            commits.committed(batch, &state.tables);
        }
    }

    /// Its ailments.
    #[must_use]
    pub fn ails(&self) -> Ails {
        self.state().ails
    }

    /// Changes its ailments.
    pub fn ail(&self, change: impl FnOnce(&mut Ails)) {
        change(&mut self.state().ails);
    }

    /// Breaks all connections and the transactions on them.
    pub fn break_connections(&self) {
        self.state().lives += 1;
    }

    /// The number of times that connections broke. A transaction with another number has ended.
    #[must_use]
    pub fn lives(&self) -> u64 {
        self.state().lives
    }

    /// Whether it rejects a row.
    #[must_use]
    pub fn refuses(&self, row: &Row) -> bool {
        self.state().ails.refuses && row.field.as_str() == "poison"
    }

    /// Waits for a lock.
    pub async fn lock(&self, what: Lockable) -> Held {
        let lock = Arc::clone(locked(&self.locks).entry(what).or_default());
        lock.lock_owned().await
    }
}
