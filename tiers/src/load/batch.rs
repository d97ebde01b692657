//! One load of several owners: observe, read in one statement, fill.

use std::sync::Arc;

use storage_dirty::{Fields, Filled, HotError, HotKind, HotRead, Load, Observed, Read};
use storage_model::{Owner, Partition, times};
use storage_sql::{ColdError, ColdKind, Loaded};

use super::{Answer, FullLoad, load_of};
use crate::{TierError, Tiers};

/// The result of an observation, as [`Tiers::observe`] gives it.
type Observation = Result<Option<Observed>, TierError>;

/// The result of one load.
pub(super) struct Loading {
    /// By owner. An owner without an answer changed meanwhile, and must be loaded again.
    pub(super) answers: Result<Vec<Option<Answer>>, TierError>,
    /// The owners whose leases this process holds.
    pub(super) held: Vec<Owner>,
}

impl Tiers {
    /// Answers owners from the hot tier if their hashes are back, else with one load. The caller
    /// returns the leases by [`Tiers::release`].
    pub(super) async fn load_batch(&self, owners: &[Owner]) -> Loading {
        let (observed, leased) = tokio::join!(
            self.observe_each(owners),
            self.hot.owners.lease(owners, times::LOAD_LEASE)
        );
        let held: Vec<Owner> = owners
            .iter()
            .zip(&leased)
            .filter(|(_, leased)| **leased == Ok(true))
            .map(|(owner, _)| owner.clone())
            .collect();
        // At the memory limit no lease can be taken. Then every process loads. An owner whose
        // partition was not prepared is loaded by the next attempt.
        let leased: Vec<bool> = leased
            .into_iter()
            .map(|leased| leased.unwrap_or(true))
            .zip(&observed)
            .map(|(leased, seen)| leased && *seen != Ok(None))
            .collect();
        let answers = self.load_leased(owners, observed, &leased).await;
        Loading { answers, held }
    }

    /// Returns the leases of a load.
    // ORDER: after the fill, so that the next lease holder finds the hash.
    pub(super) async fn release(&self, held: &[Owner]) {
        if !held.is_empty()
            && let Err(error) = self.hot.owners.release(held).await
        {
            tracing::debug!(%error, "load leases were not released: they expire");
        }
    }

    /// Answers owners whose hash is back. Loads the other owners that this process has a lease for.
    async fn load_leased(
        &self,
        owners: &[Owner],
        observed: Vec<Observation>,
        leased: &[bool],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        // The caller's miss can be older than the load that just ended, so a hash that is there now
        // is read again.
        // ORDER: after the observation. A write in between then voids a mutation that builds on
        // this read, as it does with rows.
        let is_there = |seen: &Observation| matches!(seen, Ok(Some(seen)) if seen.present);
        let reads: Vec<Read> = owners
            .iter()
            .zip(&observed)
            .filter(|(_, seen)| is_there(seen))
            .map(|(owner, _)| Read {
                owner: owner.clone(),
                fields: Fields::All,
            })
            .collect();
        let mut hot = if reads.is_empty() {
            Vec::new().into_iter()
        } else {
            self.hot.owners.read(&reads).await.into_iter()
        };
        let answer = |(owner, seen): (&Owner, &Observation)| {
            let hash = if is_there(seen) { hot.next() } else { None };
            match seen {
                // R8: the database had no row a short while ago, and any later write would have
                // replaced this marker.
                Ok(Some(seen)) if seen.marker.is_absent() => Some(Ok(Some(absent(owner, *seen)))),
                Ok(Some(seen)) => back(owner, *seen, hash?),
                Ok(None) => None,
                Err(error) => Some(Err(error.clone())),
            }
        };
        let back: Vec<Option<Answer>> = owners.iter().zip(&observed).map(answer).collect();
        let cold: Vec<(Owner, Observed)> = owners
            .iter()
            .zip(observed)
            .zip(back.iter().zip(leased))
            .filter(|(_, (back, leased))| back.is_none() && **leased)
            .filter_map(|((owner, observed), _)| Some((owner.clone(), observed.ok()??)))
            .collect();
        let mut loaded = self.load_cold(&cold).await?.into_iter();
        let next = |(back, leased): (Option<Answer>, &bool)| match back {
            None if *leased => loaded.next().flatten(),
            back => back,
        };
        Ok(back.into_iter().zip(leased).map(next).collect())
    }

    /// Loads owners with one attempt.
    async fn load_cold(
        &self,
        cold: &[(Owner, Observed)],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        if cold.is_empty() {
            return Ok(Vec::new());
        }
        let owners: Vec<Owner> = cold.iter().map(|(owner, _)| owner.clone()).collect();
        let bound = self.loader.bound;
        let loaded = self.rows_of_each(&owners, bound.rows).await?;
        self.loader.count(owners.len());
        let loaded: Vec<Result<Loaded, ColdError>> = loaded
            .into_iter()
            .map(|loaded| loaded.map(|loaded| bound.kept(loaded)))
            .collect();
        let complete: Vec<Result<bool, ColdError>> = loaded
            .iter()
            .map(|loaded| {
                loaded
                    .as_ref()
                    .map(|loaded| loaded.complete)
                    .map_err(Clone::clone)
            })
            .collect();
        let load = |((owner, observed), loaded): (&(Owner, Observed), Result<Loaded, _>)| {
            let loaded = loaded.ok().filter(|loaded| loaded.complete)?;
            Some(load_of(owner, *observed, loaded.rows, true))
        };
        let loads: Vec<Load> = cold.iter().zip(loaded).filter_map(load).collect();
        let mut filled = self.hot.owners.fill(&loads).await.into_iter().zip(loads);
        let answer = |complete| match complete {
            Err(error) => Some(Err(TierError::from(error))),
            Ok(false) => Some(Ok(None)),
            Ok(true) => match filled.next() {
                None => Some(Ok(None)),
                Some((Ok(Filled::Accepted(read)), load)) => {
                    Some(Ok(Some(Arc::new(FullLoad { load, read }))))
                }
                Some((Ok(Filled::Refused), _)) => None,
                Some((Err(error), _)) if matches!(error.kind, HotKind::Unprepared(_)) => None,
                Some((Err(error), _)) => Some(Err(error.into())),
            },
        };
        Ok(complete.into_iter().map(answer).collect())
    }

    /// The rows of owners, read together. If one owner has an unreadable row, each owner is read by
    /// itself, so that the others succeed.
    pub(crate) async fn rows_of_each(
        &self,
        owners: &[Owner],
        rows_max: usize,
    ) -> Result<Vec<Result<Loaded, ColdError>>, ColdError> {
        match self.cold.rows.load(owners, rows_max).await {
            Ok(loaded) => return Ok(loaded.into_iter().map(Ok).collect()),
            Err(error) if error.kind == ColdKind::Unreadable => {}
            Err(error) => return Err(error),
        }
        let mut each = Vec::with_capacity(owners.len());
        for owner in owners {
            let alone = self
                .cold
                .rows
                .load(std::slice::from_ref(owner), rows_max)
                .await;
            each.push(alone.map(|loaded| loaded.into_iter().next().unwrap_or_default()));
        }
        Ok(each)
    }

    /// As [`Tiers::observe`], with a result for each owner. An owner with broken data or an
    /// unreachable node does not fail the others.
    async fn observe_each(&self, owners: &[Owner]) -> Vec<Observation> {
        let seen = self.hot.owners.observe(owners).await;
        let unprepared = |seen: &Result<Observed, HotError>| match seen {
            Err(HotError {
                kind: HotKind::Unprepared(partition),
                ..
            }) => Some(*partition),
            _ => None,
        };
        // In one call, so that each partition is prepared once for all its owners.
        let late: Vec<Partition> = seen.iter().filter_map(unprepared).collect();
        let prepared = if late.is_empty() {
            Ok(())
        } else {
            self.prepare(&late).await
        };
        let one = |seen| match unprepared(&seen) {
            Some(_) => prepared.clone().map(|()| None),
            None => Ok(Some(seen?)),
        };
        seen.into_iter().map(one).collect()
    }
}

/// The answer for an owner whose hash is complete: the load holds the whole hash. If the hash is
/// evicted meanwhile, a mutation with this load asks for another load.
pub(super) fn back(
    owner: &Owner,
    observed: Observed,
    hot: Result<HotRead, HotError>,
) -> Option<Answer> {
    let read = hot.ok()?;
    let header = read
        .header
        .filter(|header| header.complete && !header.suspect)?;
    let rows = read
        .cells
        .iter()
        .map(|(field, cell)| (field.clone(), cell.clone(), header.version))
        .collect();
    let load = Load {
        owner: owner.clone(),
        observed,
        rows,
        complete: true,
    };
    Some(Ok(Some(Arc::new(FullLoad { load, read }))))
}

/// The answer for an owner that has no row.
fn absent(owner: &Owner, observed: Observed) -> Arc<FullLoad> {
    Arc::new(FullLoad {
        load: load_of(owner, observed, Vec::new(), true),
        read: HotRead::default(),
    })
}
