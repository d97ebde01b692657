//! The memory of sorts: one budget for all that run at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, Kind, Result};

/// The bytes that all sorts may keep together, unless the program says otherwise.
const BYTES: usize = 256 << 20;

/// The budget of all sorts.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl Budget {
    pub(crate) fn of(limit: usize) -> Self {
        let used = AtomicUsize::new(0);
        Self { limit, used }
    }

    /// The share of a sort that begins.
    pub(super) fn share(&self) -> Share<'_> {
        let bytes = 0;
        Share {
            budget: self,
            bytes,
        }
    }
}

/// What one sort keeps. Its end gives it back.
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Share<'_> {
    /// Keeps more.
    ///
    /// # Errors
    /// `Busy`: all sorts together keep more than the budget.
    pub(super) fn add(&mut self, bytes: usize) -> Result<()> {
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        if used.saturating_add(bytes) <= self.budget.limit {
            return Ok(());
        }
        let message = format!(
            "the sorts that run now keep more than {} bytes of items; try again later, narrow the filter, or sort by id",
            self.budget.limit
        );
        Err(Error::new(Kind::Busy, message))
    }

    /// The bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_beyond_the_budget_of_all_is_refused_until_another_ends() {
        let budget = Budget::of(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.add(60).is_ok() && other.add(40).is_ok());
        assert_eq!(other.add(1).unwrap_err().kind(), &Kind::Busy);
        drop(other);
        let mut next = budget.share();
        assert!(next.add(40).is_ok() && next.add(1).is_err());
        drop((one, next));
        assert!(budget.share().add(100).is_ok());
    }
}
