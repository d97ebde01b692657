//! Attempts of a write while other writers change the same document.

use std::time::Duration;

use tokio::time::{Instant, timeout};

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

    /// Waits for a turn among the callers of this process, no longer than for the attempts.
    ///
    /// # Errors
    /// `Contended`: it has not come in time.
    pub(crate) async fn turn<T>(&self, turn: impl Future<Output = T>) -> Result<T> {
        let turn = timeout(self.left()?, turn).await;
        turn.map_err(|_| {
            let message = format!(
                "calls that came before this one still wait at {}; try again later",
                self.path
            );
            Error::new(Kind::Contended, message)
        })
    }

    /// The end of an attempt: the change, or `None` if another writer was faster.
    ///
    /// # Errors
    /// The attempt failed for another reason.
    pub(crate) async fn ended<T>(&self, attempt: Result<T>) -> Result<Option<T>> {
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
