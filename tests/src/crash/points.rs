//! The points at which a process may end: every pipeline to Redis and every statement to the
//! database, numbered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use storage_model::{Broken, Intercept};
use tokio::sync::watch;

/// The fault at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The process ends before the request is sent.
    Before,
    /// The process ends after the request was carried out and before it sees the reply.
    After,
    /// An error takes the place of the request, and the process goes on.
    Instead,
    /// The request is carried out. An error takes the place of the reply, and the process goes on.
    Lost,
    /// The process stands still before the request for longer than its locks last. Another process
    /// does its work. Then it goes on.
    Late,
    /// The request is carried out twice, and the process sees the second reply.
    Twice,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Before,
        Self::After,
        Self::Instead,
        Self::Lost,
        Self::Late,
        Self::Twice,
    ];

    /// Whether the process does not go on by itself.
    #[must_use]
    pub fn stops(self) -> bool {
        matches!(self, Self::Before | Self::After | Self::Late)
    }
}

/// The numbered points of one process, and the one with the fault.
#[derive(Debug)]
pub struct Points {
    kind: Kind,
    /// The point, from 1.
    at: usize,
    /// Whether points are counted.
    armed: AtomicBool,
    passed: AtomicUsize,
    /// The process stands still. It sends no request and sees no reply.
    still: watch::Sender<bool>,
    /// Whether a transaction of the database is open, which keeps other processes from landing.
    transaction: AtomicBool,
}

impl Points {
    /// A fault at point `at`, from 1.
    #[must_use]
    pub fn new(kind: Kind, at: usize) -> Self {
        Self {
            kind,
            at,
            armed: AtomicBool::new(false),
            passed: AtomicUsize::new(0),
            still: watch::Sender::new(false),
            transaction: AtomicBool::new(false),
        }
    }

    /// Points without a fault.
    #[must_use]
    pub fn never() -> Self {
        Self::new(Kind::Before, usize::MAX)
    }

    /// The fault.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Begins to count.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Ends to count. No fault happens any more.
    pub fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Whether the point was reached.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.passed.load(Ordering::SeqCst) >= self.at
    }

    /// Ready when the process stands still.
    pub async fn stopped(&self) {
        let _ = self.still.subscribe().wait_for(|still| *still).await;
    }

    /// Lets a process that stands still go on.
    pub fn go_on(&self) {
        self.still.send_replace(false);
    }

    /// Whether a transaction of the database is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.transaction.load(Ordering::SeqCst)
    }

    /// Whether to repeat a call of the database that was carried out.
    pub(super) fn again(&self) -> bool {
        self.is_at(&[Kind::Twice])
    }

    /// Counts a point, if points of these kinds lie here. Returns whether it is the one with the
    /// fault.
    fn is_at(&self, here: &[Kind]) -> bool {
        here.contains(&self.kind)
            && self.armed.load(Ordering::SeqCst)
            && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.at
    }

    /// Passes a place with points of these kinds. Returns an error if the error takes the place of
    /// the next request or reply.
    async fn pass(&self, here: &[Kind]) -> Result<(), Broken> {
        let struck = self.is_at(here);
        if struck && !self.kind.stops() {
            return Err(Broken);
        }
        if struck {
            self.still.send_replace(true);
        }
        let _ = self.still.subscribe().wait_for(|still| !still).await;
        Ok(())
    }
}

const SENDING: &[Kind] = &[Kind::Before, Kind::Instead, Kind::Late];
const ANSWERED: &[Kind] = &[Kind::After, Kind::Lost];

#[async_trait]
impl Intercept for Points {
    async fn before(&self, names: &[&'static str]) -> Result<(), Broken> {
        self.pass(SENDING).await?;
        if names.contains(&"begin") {
            self.transaction.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn after(&self, names: &[&'static str]) -> Result<(), Broken> {
        if names.contains(&"commit") || names.contains(&"rollback") {
            self.transaction.store(false, Ordering::SeqCst);
        }
        self.pass(ANSWERED).await
    }

    async fn again(&self, names: &[&'static str]) -> bool {
        // A lease has no name, so the repeat of a lease waits until the first copy expires.
        !names.contains(&"lease") && Points::again(self)
    }
}
