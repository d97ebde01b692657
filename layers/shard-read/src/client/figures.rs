//! Figures of a client.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) calls: Counter,
    pub(crate) requests: Counter,
    pub(crate) hedges: Counter,
    pub(crate) retries: Counter,
    pub(crate) misdirected: Counter,
    pub(crate) budget_empty: Counter,
}

/// How many calls and requests a client has made since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientFigures {
    /// Calls of the program.
    pub calls: u64,
    /// Requests with keys.
    pub requests: u64,
    /// Requests to a further replica, because the first took long.
    pub hedges: u64,
    /// Requests to a further replica, because the first failed.
    pub retries: u64,
    /// Requests to a server that did not hold all their keys.
    pub misdirected: u64,
    /// Hedges and retries that the budget did not allow.
    pub budget_empty: u64,
}

impl Figures {
    pub(crate) fn read(&self) -> ClientFigures {
        ClientFigures {
            calls: self.calls.get(),
            requests: self.requests.get(),
            hedges: self.hedges.get(),
            retries: self.retries.get(),
            misdirected: self.misdirected.get(),
            budget_empty: self.budget_empty.get(),
        }
    }
}
