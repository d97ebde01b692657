//! Attempts of a write while other writers change the same document.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Call, Error, Kind, Path, Result};

/// The attempts of one call.
pub(crate) struct Attempts<'a> {
    path: &'a Path,
    begun: Instant,
    within: Duration,
}

impl<'a> Attempts<'a> {
    pub(crate) fn begin(path: &'a Path, call: &Call) -> Self {
        Self {
            path,
            begun: Instant::now(),
            within: call.within,
        }
    }

    /// The time for the next attempt.
    ///
    /// # Errors
    /// `Contended`: there is none left.
    pub(crate) fn left(&self) -> Result<Duration> {
        let left = self.within.saturating_sub(self.begun.elapsed());
        if left.is_zero() {
            let message = format!(
                "other writers changed {} at each attempt; try again later",
                self.path
            );
            return Err(Error::new(Kind::Contended, message));
        }
        Ok(left)
    }

    /// The end of an attempt: the change, or `None` if another writer was faster.
    ///
    /// # Errors
    /// The attempt failed for another reason.
    pub(crate) async fn ended<T>(&mut self, attempt: Result<T>) -> Result<Option<T>> {
        match attempt {
            Err(error) if is_conflict(&error) => {
                tokio::task::yield_now().await;
                Ok(None)
            }
            done => done.map(Some),
        }
    }
}

fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), Kind::Storage(error) if error.is_conflict())
}
