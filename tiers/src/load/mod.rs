//! Hot-loading: bringing cold owners back, once for all waiters (R12), with proof (R7, R8, R15).
//!
//! Misses of a process queue up. A miss that finds no load of its owner starts a carrier, which is
//! a task. The carrier takes the waiting owners, observes the markers, reads all the owners in one
//! statement, fills them, and answers all waiters.
//!
//! A further miss of the same owner joins a load that has not begun. So an answer is never older
//! than its call. A miss that comes after the load began waits for the next load. That load reads
//! the hash first, and mostly finds it filled.

mod batch;
mod large;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{HotKind, HotRead, Load, Observed};
use storage_model::{Owner, Row};
use tokio::time::sleep;

use self::queue::Carrier;
pub(crate) use self::queue::Loader;
use crate::caught::caught;
use crate::{TierError, Tiers};

/// An attempt fails only if a write of the same owner came in between.
const TRIES_MAX: u32 = 64;
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
    /// Loads a whole owner into the hot tier and answers its content. `None` if the owner has more
    /// rows than one load takes. See [`Tiers::load_fields`] and [`Tiers::load_large`].
    ///
    /// # Errors
    /// A tier is away, or concurrent writes of the owner came first at each attempt.
    ///
    /// # Cancel safety
    /// The load goes on for the other waiters. Nothing else remains.
    pub async fn load(&self, owner: &Owner) -> Answer {
        let (mut answer, queued) = self.loader.join(owner);
        if queued {
            let (tiers, carrier) = (self.clone(), self.loader.carrier());
            self.home.spawn(async move { tiers.carry(carrier).await });
        }
        answer
            .recv()
            .await
            .unwrap_or_else(|_| Err(contended(owner)))
    }

    /// Carries queued loads in batches, until none is left.
    async fn carry(&self, _carrier: Carrier) {
        let Some(_permit) = self.loader.permit().await else {
            return;
        };
        while !self.loader.is_idle() {
            // A panic fails only the owners of its batch. The other loads go on.
            let carried = async {
                self.carry_batch().await;
                Ok(())
            };
            if let Err(error) = caught(self.loader.panics(), carried).await {
                tracing::error!(%error, "a load failed: its waiters get an error");
            }
        }
    }

    async fn carry_batch(&self) {
        let mut carried = self.loader.take();
        let mut pause = WAIT_MIN;
        for _ in 0..TRIES_MAX {
            if carried.owners.is_empty() {
                return;
            }
            let before = carried.owners.len();
            match self.load_batch(&carried.owners).await {
                Ok(answers) => {
                    let mut answers = answers.into_iter();
                    carried
                        .owners
                        .retain(|owner| match answers.next().flatten() {
                            Some(answer) => {
                                self.loader.answer(owner, answer);
                                false
                            }
                            None => true,
                        });
                }
                Err(error) => {
                    carried
                        .owners
                        .drain(..)
                        .for_each(|owner| self.loader.answer(&owner, Err(error.clone())));
                    return;
                }
            }
            if carried.owners.len() == before {
                // Another process loads the owners, or concurrent writes came first.
                sleep(pause).await;
                pause = (pause * 2).min(WAIT_MAX);
            }
        }
    }

    /// Observes owners before the database is asked. Prepares partitions that need it.
    pub(crate) async fn observe(&self, owners: &[Owner]) -> Result<Vec<Observed>, TierError> {
        for _ in 0..TRIES_MAX {
            let mut unprepared = Vec::new();
            let mut observed = Vec::with_capacity(owners.len());
            for result in self.hot.observe(owners).await {
                match result {
                    Ok(seen) => observed.push(seen),
                    Err(error) => match error.kind {
                        HotKind::Unprepared(partition) => unprepared.push(partition),
                        _ => return Err(error.into()),
                    },
                }
            }
            if unprepared.is_empty() {
                return Ok(observed);
            }
            self.prepare(&unprepared).await?;
        }
        Err(TierError::Contended {
            what: "observe".into(),
            tries: TRIES_MAX,
        })
    }

    /// All rows of an observed owner, for a call that brings them to the hot tier itself. `None` if
    /// there are too many.
    ///
    /// # Errors
    /// The database is away, or a row can't be read.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn load_observed(
        &self,
        owner: &Owner,
        observed: Observed,
    ) -> Result<Option<Load>, TierError> {
        let loaded = self
            .rows_of_each(std::slice::from_ref(owner), self.loader.rows_max)
            .await?;
        self.loader.count(1);
        let Some(loaded) = loaded.into_iter().next() else {
            return Err(contended(owner));
        };
        let loaded = loaded?;
        Ok(loaded
            .complete
            .then(|| load_of(owner, observed, loaded.rows, true)))
    }

    /// How many loads this process has made since it started.
    #[must_use]
    pub fn load_counts(&self) -> LoadCounts {
        self.loader.counts()
    }
}

pub(crate) fn contended(owner: &Owner) -> TierError {
    TierError::Contended {
        what: format!("load {owner}"),
        tries: TRIES_MAX,
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
