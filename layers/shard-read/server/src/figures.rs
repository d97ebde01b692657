//! What a server has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) calls: Counter,
    pub(crate) keys: Counter,
    pub(crate) misdirected: Counter,
    pub(crate) refused: Counter,
    pub(crate) stale: Counter,
    pub(crate) late: Counter,
    pub(crate) panics: Counter,
    pub(crate) claims: Counter,
    pub(crate) claims_lost: Counter,
    pub(crate) loads_failed: Counter,
}

/// What a server has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerFigures {
    /// Requests with keys.
    pub calls: u64,
    /// Keys that were answered.
    pub keys: u64,
    /// Requests with a key of another range.
    pub misdirected: u64,
    /// Requests above the limit of keys under way.
    pub refused: u64,
    /// Requests for values that are younger than those of the service.
    pub stale: u64,
    /// Requests whose time was up.
    pub late: u64,
    /// Keys that failed by a panic of the service.
    pub panics: u64,
    /// Ranges that the server has claimed.
    pub claims: u64,
    /// Claims that the server has lost.
    pub claims_lost: u64,
    /// Loads of a range that failed.
    pub loads_failed: u64,
}

impl Figures {
    pub(crate) fn read(&self) -> ServerFigures {
        ServerFigures {
            calls: self.calls.read(),
            keys: self.keys.read(),
            misdirected: self.misdirected.read(),
            refused: self.refused.read(),
            stale: self.stale.read(),
            late: self.late.read(),
            panics: self.panics.read(),
            claims: self.claims.read(),
            claims_lost: self.claims_lost.read(),
            loads_failed: self.loads_failed.read(),
        }
    }
}
