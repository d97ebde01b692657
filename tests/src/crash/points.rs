//! The points at which a process may end: every pipeline to Redis and every statement to the
//! database, numbered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use storage_model::{Broken, Intercept};
use tokio::sync::watch;

/// What happens at the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The process ends before the request is sent.
    Before,
    /// The process ends after the request was carried out, before it sees the reply.
    After,
    /// In place of the request comes an error, and the process goes on.
    Instead,
    /// The request is carried out, in place of the reply comes an error, and the process goes on.
    Lost,
    /// The process stands still before the request, longer than its locks last, while another does
    /// its work; then it goes on.
    Late,
    /// The request is carried out twice, and the second reply is seen.
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

/// The numbered points of one process, and the one at which something happens.
#[derive(Debug)]
pub struct Points {
    kind: Kind,
    /// The point, from 1.
    at: usize,
    /// Nothing is counted until then.
    armed: AtomicBool,
    passed: AtomicUsize,
    /// The process stands still: no request of it is sent, and no reply is seen.
    still: watch::Sender<bool>,
    /// Whether a transaction of the database is open, which keeps others from landing.
    transaction: AtomicBool,
}

impl Points {
    /// Something happens at point `at`, from 1.
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

    /// Nothing ever happens.
    #[must_use]
    pub fn never() -> Self {
        Self::new(Kind::Before, usize::MAX)
    }

    /// What happens.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Begins to count.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Ends to count: nothing happens any more.
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

    /// Whether a call of the database that was carried out is to be repeated.
    pub(super) fn again(&self) -> bool {
        self.is_at(&[Kind::Twice])
    }

    /// Counts a point, if points of these kinds lie here; whether it is the one.
    fn is_at(&self, here: &[Kind]) -> bool {
        here.contains(&self.kind)
            && self.armed.load(Ordering::SeqCst)
            && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.at
    }

    /// Passes a place where points of these kinds lie; an error if it is to take the place of what
    /// comes next.
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
        // A lease names no caller. So the call that repeats it waits until the lease runs out.
        !names.contains(&"lease") && Points::again(self)
    }
}
