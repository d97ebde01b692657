//! One load of several owners: observed, read in one statement, filled.

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{Fields, Filled, HotError, HotKind, HotRead, Load, Marker, Observed, Read};
use storage_model::Owner;
use storage_model::sabotage::broken;
use storage_sql::{ColdError, ColdKind, Loaded};

use super::{Answer, FullLoad, load_of};
use crate::{TierError, Tiers};

/// How long the right to load an owner outlives a process that died with it (R12). All tries
/// together take longer.
const LEASE: Duration = Duration::from_secs(2);

impl Tiers {
    /// Answers owners, from the hot tier if they are back in it, else with one load. An owner
    /// without an answer moved meanwhile, and is to be loaded again.
    pub(super) async fn load_batch(
        &self,
        owners: &[Owner],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        let (observed, leased) =
            tokio::join!(self.observe_each(owners), self.hot.lease(owners, LEASE));
        let held: Vec<Owner> = owners
            .iter()
            .zip(&leased)
            .filter(|(_, leased)| **leased == Ok(true))
            .map(|(owner, _)| owner.clone())
            .collect();
        // A lease that can't be asked for, as at the memory limit, spares nobody a load.
        let leased: Vec<bool> = leased
            .into_iter()
            .map(|leased| leased.unwrap_or(true) || broken("R12-unleased") || broken("R12-alone"))
            .collect();
        let answers = self.load_leased(owners, observed, &leased).await;
        // ORDER: after the fill, so that whoever gets the lease next finds the hash.
        if !held.is_empty()
            && let Err(error) = self.hot.release(&held).await
        {
            tracing::debug!(%error, "leases were not given back; they run out");
        }
        answers
    }

    /// Answers owners whose hash is back, and loads those of the others that this process may load.
    async fn load_leased(
        &self,
        owners: &[Owner],
        observed: Vec<Result<Observed, TierError>>,
        leased: &[bool],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        // A caller's miss may be older than the load that just ended, so the hash is looked at once
        // more. ORDER: after the observation, so that a write in between refuses what is built on
        // this read, as it does with rows.
        let reads: Vec<Read> = owners
            .iter()
            .map(|owner| Read {
                owner: owner.clone(),
                fields: Fields::All,
            })
            .collect();
        let hot = self.hot.read(&reads).await;
        let answer = |((owner, seen), hot): ((&Owner, &Result<Observed, TierError>), _)| match seen
        {
            // R8: the database was asked a short while ago, and any write since would have replaced
            // that answer.
            Ok(seen) if seen.marker == Marker::Absent => Some(Ok(Some(absent(owner, *seen)))),
            Ok(seen) => back(owner, *seen, hot),
            Err(error) => Some(Err(error.clone())),
        };
        let back: Vec<Option<Answer>> = owners.iter().zip(&observed).zip(hot).map(answer).collect();
        let cold: Vec<(Owner, Observed)> = owners
            .iter()
            .zip(observed)
            .zip(back.iter().zip(leased))
            .filter(|(_, (back, leased))| back.is_none() && **leased)
            .filter_map(|((owner, observed), _)| Some((owner.clone(), observed.ok()?)))
            .collect();
        let mut loaded = self.load_cold(&cold).await?.into_iter();
        let next = |(back, leased): (Option<Answer>, &bool)| match back {
            None if *leased => loaded.next().flatten(),
            back => back,
        };
        Ok(back.into_iter().zip(leased).map(next).collect())
    }

    /// Loads owners once.
    async fn load_cold(
        &self,
        cold: &[(Owner, Observed)],
    ) -> Result<Vec<Option<Answer>>, TierError> {
        if cold.is_empty() {
            return Ok(Vec::new());
        }
        let owners: Vec<Owner> = cold.iter().map(|(owner, _)| owner.clone()).collect();
        let loaded = self.rows_of_each(&owners, self.loader.rows_max).await?;
        self.loader.count(owners.len());
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
        let mut filled = self.hot.fill(&loads).await.into_iter().zip(loads);
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

    /// The rows of owners, read together; of each by itself if one has a row that can't be read, so
    /// that it fails no other.
    pub(crate) async fn rows_of_each(
        &self,
        owners: &[Owner],
        rows_max: usize,
    ) -> Result<Vec<Result<Loaded, ColdError>>, ColdError> {
        match self.cold.load(owners, rows_max).await {
            Ok(loaded) => return Ok(loaded.into_iter().map(Ok).collect()),
            Err(error) if error.kind == ColdKind::Unreadable => {}
            Err(error) => return Err(error),
        }
        let mut each = Vec::with_capacity(owners.len());
        for owner in owners {
            let alone = self.cold.load(std::slice::from_ref(owner), rows_max).await;
            each.push(alone.map(|loaded| loaded.into_iter().next().unwrap_or_default()));
        }
        Ok(each)
    }

    /// As [`Tiers::observe`], with an answer for each owner: one whose data is broken or whose node
    /// is away fails no other.
    async fn observe_each(&self, owners: &[Owner]) -> Vec<Result<Observed, TierError>> {
        let seen = self.hot.observe(owners).await;
        let unprepared = |seen: &Result<Observed, HotError>| match seen {
            Err(HotError {
                kind: HotKind::Unprepared(partition),
                ..
            }) => Some(*partition),
            _ => None,
        };
        let late: Vec<Owner> = owners
            .iter()
            .zip(&seen)
            .filter(|(_, seen)| unprepared(seen).is_some())
            .map(|(owner, _)| owner.clone())
            .collect();
        // Together, so that a partition is prepared once however many of the owners are in it.
        let prepared = if late.is_empty() {
            Ok(Vec::new())
        } else {
            self.observe(&late).await
        };
        let mut again = prepared.clone().unwrap_or_default().into_iter();
        let one = |seen: Result<Observed, HotError>| match (unprepared(&seen), &prepared) {
            (None, _) => Ok(seen?),
            (Some(_), Err(error)) => Err(error.clone()),
            (Some(_), Ok(_)) => again.next().map_or_else(|| Ok(seen?), Ok),
        };
        seen.into_iter().map(one).collect()
    }
}

/// The answer for an owner whose hash is complete: the load has all that the hash holds. A mutation
/// that comes with it is asked for another one if the hash was evicted meanwhile.
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

/// The answer for an owner that is known to have no row.
fn absent(owner: &Owner, observed: Observed) -> Arc<FullLoad> {
    Arc::new(FullLoad {
        load: load_of(owner, observed, Vec::new(), true),
        read: HotRead::default(),
    })
}
