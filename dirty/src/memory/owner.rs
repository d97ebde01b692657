//! Owners: marks, evictions and times to live. Reads, writes, observations and fills have files of
//! their own.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::sabotage::is_kept;
use storage_model::{Epoch, Evicted, Mutation, Owner, Partition};

use super::partition::in_epoch;
use super::state::{PartState, Present};
use super::store::MemoryStore;
use super::{fill, observe, read};
use crate::{Filled, HotError, HotRead, Load, Mutated, Observed, Owners, Read};

#[async_trait]
impl Owners for MemoryStore {
    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>> {
        let one = |asked: &Read| {
            self.run_for(&asked.owner, "read", |state, _, _| {
                read::read(state, &asked.owner, &asked.fields)
            })
        };
        reads.iter().map(one).collect()
    }

    async fn mutate(&self, mutations: &[(Mutation, Vec<Load>)]) -> Vec<Result<Mutated, HotError>> {
        mutations
            .iter()
            .map(|(mutation, loads)| self.mutate_one(mutation, loads))
            .collect()
    }

    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "observe", |state, present, partition| {
                observe::observe(state, present, partition, owner)
            })?
        };
        owners.iter().map(one).collect()
    }

    async fn lease(&self, owners: &[Owner], _: Duration) -> Vec<Result<bool, HotError>> {
        // No other process can reach this engine, and within one process loads are shared.
        owners.iter().map(|_| Ok(true)).collect()
    }

    async fn release(&self, _: &[Owner]) -> Result<(), HotError> {
        Ok(())
    }

    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        let one = |load: &Load| {
            self.run_for(&load.owner, "fill", |state, now, at| {
                fill::fill(state, now, at, load)
            })?
        };
        loads.iter().map(one).collect()
    }

    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>> {
        let one = |owner: &Owner| {
            self.run_for(owner, "marked", |state, _, at| {
                marked(state, at, owner, epoch)
            })?
        };
        owners.iter().map(one).collect()
    }

    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>> {
        owners
            .iter()
            .map(|owner| self.run_for(owner, "evict", |state, _, _| evict(state, owner)))
            .collect()
    }

    async fn refresh_ttl(&self, owners: &[Owner]) -> Result<(), HotError> {
        owners.iter().try_for_each(|owner| {
            self.run_for(owner, "refresh_ttl", |state, now, _| {
                refresh_ttl(state, now, owner)
            })
        })
    }
}

/// Whether a map names the owner.
///
/// # Errors
/// `Unprepared` or `EpochMoved`, if an epoch is given.
pub fn marked(
    state: &PartState,
    partition: Partition,
    owner: &Owner,
    epoch: Option<Epoch>,
) -> Result<bool, HotError> {
    if let Some(epoch) = epoch {
        in_epoch(state, partition, epoch, "marked")?;
    }
    Ok(state.marks.names(owner))
}

/// Drops the hash. A hash that must stay is dropped once no map names its owner and no session
/// holds it.
pub fn evict(state: &mut PartState, owner: &Owner) -> Evicted {
    if state.keeps(owner) && state.hashes.get(owner).is_some() && is_kept("R2-evicts") {
        state.marks.evict_later(owner);
        return Evicted::WhenLanded;
    }
    state.hashes.remove(owner);
    Evicted::Gone
}

/// Restores the full time to live of a hash that has one.
pub fn refresh_ttl(state: &mut PartState, present: &Present, owner: &Owner) {
    let end = present.now.plus(present.hash_ttl);
    if state
        .hashes
        .get(owner)
        .is_some_and(|hash| hash.expires.is_some())
    {
        state.hashes.edit(owner, |hash| hash.expires = Some(end));
    }
}
