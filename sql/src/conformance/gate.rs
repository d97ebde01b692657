//! Intercepts for tests: one holds a statement, one loses it.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};

use storage_model::{Broken, Intercept};

use crate::registry;

/// Holds one kind of statement back until the gate is opened.
#[derive(Debug)]
pub struct Gate {
    statement: &'static str,
    reached: Notify,
    opened: Semaphore,
}

impl Gate {
    /// A closed gate before the statement of this name. There must be one.
    #[must_use]
    pub fn before(statement: &'static str) -> Self {
        assert!(
            registry::statements().any(|known| known.name == statement),
            "no module declares a statement {statement:?}"
        );
        Self {
            statement,
            reached: Notify::new(),
            opened: Semaphore::new(0),
        }
    }

    /// Waits until a statement stands before the gate.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets all statements pass from now on.
    pub fn open(&self) {
        self.opened.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

#[async_trait]
impl Intercept for Gate {
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken> {
        if names.contains(&self.statement) {
            self.reached.notify_one();
            self.opened.acquire().await.unwrap().forget();
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// The place where a statement is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// It is never sent.
    Before,
    /// It is executed, and its reply is lost.
    After,
}

/// Loses the n-th statement that passes, once armed.
#[derive(Debug)]
pub struct Losing {
    lost: Lost,
    /// How many statements still pass. The one that finds 0 is lost.
    left: AtomicUsize,
}

impl Losing {
    /// An intercept that loses nothing until it is armed.
    #[must_use]
    pub fn new(lost: Lost) -> Self {
        Self {
            lost,
            left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Loses the statement that follows this many others.
    pub fn arm(&self, passing: usize) {
        self.left.store(passing, Ordering::SeqCst);
    }

    /// Whether the armed loss has not happened. Loses nothing from now on.
    pub fn disarm(&self) -> bool {
        self.left.swap(usize::MAX, Ordering::SeqCst) < usize::MAX / 2
    }

    fn pass(&self, here: Lost) -> Result<(), Broken> {
        if here != self.lost || self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(Broken)
    }
}

#[async_trait]
impl Intercept for Losing {
    async fn before(&self, _: &[&'static str]) -> Result<(), Broken> {
        self.pass(Lost::Before)
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        self.pass(Lost::After)
    }
}
