//! Hot-loading: bringing cold owners back, once for all who wait (R12), with proof (R7, R8, R15).
//!
//! Misses of a process queue up. Whoever finds no batch under way carries the next one: it takes
//! what waits, observes the markers, reads all the owners in one statement, fills them, and answers
//! everyone. Further misses of the same owner join a load that has not begun; so an answer is never
//! older than the call it answers. Those that come later wait for the next load, which looks at the
//! hash first and mostly finds it filled.

mod batch;
mod large;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{HotKind, HotRead, Load, Observed};
use storage_model::sabotage::broken;
use storage_model::{Owner, Row};
use tokio::time::sleep;

use self::queue::Carrier;
pub(crate) use self::queue::Loader;
use crate::caught::caught;
use crate::{TierError, Tiers};

/// Each try fails only if a write of the same owner came in between.
const TRIES_MAX: u32 = 64;
/// The waits for another process' load; they double.
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(64);

/// A load that was accepted: what it brought, and the owner as it is with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullLoad {
    /// Rows and proof, for a mutation that builds on them.
    pub load: Load,
    /// Rows and hash taken together.
    pub read: HotRead,
}

/// How many loads there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadCounts {
    /// Owners read from the database.
    pub owners: u64,
    /// Statements that read them.
    pub statements: u64,
    /// Panics that ended a load, whose owners were answered with an error.
    pub panics: u64,
}

type Answer = Result<Option<Arc<FullLoad>>, TierError>;

impl Tiers {
    /// Brings a whole owner into the hot tier and answers what it holds. None if it has more rows
    /// than one load takes; see [`Tiers::load_fields`] and [`Tiers::load_large`].
    ///
    /// # Errors
    /// A tier is away, or writes of the same owner came in between each time.
    ///
    /// # Cancel safety
    /// The load goes on for the others who wait for it; nothing else is left.
    pub async fn load(&self, owner: &Owner) -> Answer {
        if broken("R12-alone")
            && let Some(Some(answer)) = self.load_batch(std::slice::from_ref(owner)).await?.pop()
        {
            return answer;
        }
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

    /// Carries queued loads in batches, as long as there are any.
    async fn carry(&self, _carrier: Carrier) {
        let Some(_permit) = self.loader.permit().await else {
            return;
        };
        while !self.loader.is_idle() {
            // A panic answers whom it befell; the others' loads go on.
            let carried = async {
                self.carry_batch().await;
                Ok(())
            };
            if let Err(error) = caught(self.loader.panics(), carried).await {
                tracing::error!(%error, "a load ended without an answer");
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
                // Another process is loading them, or they are written all the time.
                sleep(pause).await;
                pause = (pause * 2).min(WAIT_MAX);
            }
        }
    }

    /// What to remember before the database is asked; prepares partitions that need it.
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

    /// All rows of an owner that was observed, for a call that brings them to the hot tier itself.
    /// None if it has too many.
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

    /// How many loads this process made since it started.
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
