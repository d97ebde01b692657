//! The searches: bounds within which everything holds, and rules that break within some.

use super::{Bounds, Kind, Protocol, Searched, search};

/// A search of the protocol as it is.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What may happen in it.
    pub name: &'static str,
    /// How much of it.
    pub bounds: Bounds,
}

use Kind::{Incr, Purge, Remove, Restore, Set, SetAll, SetIfLast, SetIfStale};

/// What fits a test.
pub const CASES: &[Case] = &[
    Case { name: "overlapping workers", bounds: Bounds { workers: 2, crashes: 1, reads: 1, ..Bounds::LEAST } },
    Case {
        name: "two fields",
        bounds: Bounds { fields: 2, writes: 2, kinds: &[Set, SetAll], workers: 2, crashes: 1, ..Bounds::LEAST },
    },
    Case { name: "removal and purge", bounds: Bounds { fields: 2, kinds: &[Set, Remove, Restore, Purge], ..Bounds::LEAST } },
    Case { name: "counters", bounds: Bounds { kinds: &[Set, Incr, Remove], clients: 2, replies: 1, ..Bounds::LEAST } },
    Case { name: "conditions", bounds: Bounds { kinds: &[Set, SetIfLast, SetIfStale], clients: 2, replies: 1, ..Bounds::LEAST } },
    Case { name: "flush", bounds: Bounds { kinds: &[Set, Incr], flushes: 1, crashes: 1, ..Bounds::LEAST } },
    Case {
        name: "refused rows",
        bounds: Bounds { fields: 2, writes: 2, kinds: &[Set, SetAll], refusals: 2, flushes: 1, ..Bounds::LEAST },
    },
    Case { name: "single fields", bounds: Bounds { fields: 2, kinds: &[Set, Incr, Remove], partial: true, ..Bounds::LEAST } },
    Case { name: "failover", bounds: Bounds { failovers: 1, ..Bounds::LEAST } },
];

impl Case {
    /// Searches it.
    #[must_use]
    pub fn search(&self, states_max: usize) -> Searched {
        search(&Protocol { bounds: self.bounds }, states_max)
    }
}
