//! Owners that are only in the database, for the cases that load them.

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use storage_model::Owner;
use storage_sdk::{ByteOwner, Evicted};

use crate::bench::fill::fill;
use crate::bench::lander::Landers;
use crate::bench::place::Place;
use crate::bench::plain::fields;

/// The number of fields of each owner. Each has 64 B.
pub(super) const FIELDS: usize = 8;

/// Writes owners, lands them, and drops them from Redis.
pub(super) async fn cold_owners(place: &Place, count: usize) -> Result<Vec<ByteOwner>> {
    let mut landers = Landers::start(place, 1).await?;
    fill(place, "c", count, &fields(FIELDS, 64, 0)).await?;
    landers.landed().await?;
    let owners = place.owners("c", count)?;
    chill(place, &owners).await?;
    Ok(owners)
}

/// Drops landed owners from Redis.
pub(super) async fn chill(place: &Place, owners: &[ByteOwner]) -> Result<()> {
    let owners: Vec<Owner> = owners.iter().map(|owner| owner.owner().clone()).collect();
    for evicted in place.storage.tiers().hot().owners.evict(&owners).await {
        anyhow::ensure!(evicted? == Evicted::Gone, "an owner is still marked");
    }
    Ok(())
}

/// Reads all of these owners at once. Each read loads its owner.
pub(super) async fn read_all(owners: &[ByteOwner]) -> Result<()> {
    let records = try_join_all(owners.iter().map(ByteOwner::get_all)).await?;
    let whole = records.iter().all(|record| record.len() == FIELDS);
    whole.then_some(()).context("a field is missing")
}
