//! Hot-loading: bringing cold owners back, once for all waiters (R12), with proof (R7, R8, R15).
//!
//! Misses of a process queue up. A miss that finds no load of its owner starts a carrier, which is
//! a task. The carrier takes the waiting owners, observes the markers, reads all the owners in one
//! statement, fills them, answers all waiters, and returns its leases.
//!
//! A further miss of the same owner joins a load that has not begun. So an answer is never older
//! than its call. A miss that comes after the load began waits for the next load. That load reads
//! the hash first, and mostly finds it filled.

mod batch;
mod bound;
mod large;
mod loader;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{HotRead, Load, Observed};
use storage_model::{Owner, Row, tries};
use tokio::time::sleep;

use self::batch::Loading;
pub(crate) use self::bound::LoadBound;
pub(crate) use self::loader::Loader;
use self::loader::Waiters;
use crate::caught::caught;
use crate::{TierError, Tiers};

/// The waits for another process' load. They double from the first to the last.
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(64);

/// An accepted load: its rows, and the owner as it is with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullLoad {
    /// Rows and proof, for a mutation that builds on them.
    pub load: Load,
    /// Rows and hash merged.
    pub read: HotRead,
}

/// How many loads happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadCounts {
    /// Owners read from the database.
    pub owners: u64,
    /// Statements that read them.
    pub statements: u64,
    /// Panics that ended a load. The waiters of its owners got an error.
    pub panics: u64,
}

type Answer = Result<Option<Arc<FullLoad>>, TierError>;

impl Tiers {
    /// Loads a whole owner into the hot tier and returns its content. `None` if the owner has more
    /// rows or bytes than one load takes. See [`Tiers::load_fields`] and [`Tiers::load_large`].
    ///
    /// # Errors
    /// A tier is away, or concurrent writes of the owner came first at each attempt.
    ///
    /// # Cancel safety
    /// The load goes on for the other waiters. Nothing else remains.
    pub async fn load(&self, owner: &Owner) -> Answer {
        let (answered, carrier) = self.loader.waiting.join(owner.clone(), ());
        if let Some(carrier) = carrier {
            let tiers = self.clone();
            self.home.spawn(async move {
                let tiers = &tiers;
                let load = |waiters| async move { tiers.carry(waiters).await };
                carrier.carry(load).await;
            });
        }
        answered.await.unwrap_or_else(|_| Err(contended(owner)))
    }

    /// Loads a batch of owners. A panic fails only these. The other loads go on.
    async fn carry(&self, waiters: Vec<Waiters>) {
        let carried = async {
            self.carry_batch(waiters).await;
            Ok(())
        };
        if let Err(error) = caught(self.loader.panics(), carried).await {
            tracing::error!(%error, "a load failed: its waiters get an error");
        }
    }

    async fn carry_batch(&self, mut left: Vec<Waiters>) {
        let mut pause = WAIT_MIN;
        for _ in 0..tries::OWNER {
            if left.is_empty() {
                return;
            }
            let before = left.len();
            let owners: Vec<Owner> = left.iter().map(|waiters| waiters.key().clone()).collect();
            let Loading { answers, held } = self.load_batch(&owners).await;
            left = answered(left, answers);
            self.release(&held).await;
            if left.len() == before {
                // Another process loads the owners, or concurrent writes came first.
                sleep(pause).await;
                pause = (pause * 2).min(WAIT_MAX);
            }
        }
    }

    /// Observes an owner before the database is asked. `None` if its partition had to be prepared
    /// first. Then the caller begins its attempt again.
    pub(crate) async fn observe(&self, owner: &Owner) -> Result<Option<Observed>, TierError> {
        match self
            .hot
            .owners
            .observe(std::slice::from_ref(owner))
            .await
            .pop()
        {
            Some(Ok(observed)) => Ok(Some(observed)),
            Some(Err(error)) => self.prepare_after(error).await.map(|()| None),
            None => Ok(None),
        }
    }

    /// All rows of an observed owner, for a call that brings them to the hot tier itself.
    ///
    /// # Errors
    /// The database is away, or a row can't be read. `TooLarge`: the owner can't be kept whole.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn load_observed(
        &self,
        owner: &Owner,
        observed: Observed,
    ) -> Result<Load, TierError> {
        let bound = self.loader.bound;
        let loaded = self
            .rows_of_each(std::slice::from_ref(owner), bound.rows)
            .await?;
        self.loader.count(1);
        let Some(loaded) = loaded.into_iter().next() else {
            return Err(contended(owner));
        };
        let rows = bound.whole(owner, loaded?)?;
        Ok(load_of(owner, observed, rows, true))
    }

    /// How many loads this process has made since it started.
    #[must_use]
    pub fn load_counts(&self) -> LoadCounts {
        self.loader.counts()
    }
}

/// Answers the waiters. Returns those of owners without an answer.
fn answered(
    waiters: Vec<Waiters>,
    answers: Result<Vec<Option<Answer>>, TierError>,
) -> Vec<Waiters> {
    let mut answers = match answers {
        Ok(answers) => answers.into_iter(),
        Err(error) => vec![Some(Err(error)); waiters.len()].into_iter(),
    };
    let mut left = Vec::new();
    for waiters in waiters {
        match answers.next().flatten() {
            Some(answer) => waiters.answer_all(answer),
            None => left.push(waiters),
        }
    }
    left
}

pub(crate) fn contended(owner: &Owner) -> TierError {
    TierError::Contended {
        what: format!("load {owner}"),
        tries: tries::OWNER,
    }
}

pub(crate) fn load_of(owner: &Owner, observed: Observed, rows: Vec<Row>, complete: bool) -> Load {
    let rows = rows
        .into_iter()
        .map(|row| (row.field, row.cell, row.version))
        .collect();
    Load {
        owner: owner.clone(),
        observed,
        rows,
        complete,
    }
}
