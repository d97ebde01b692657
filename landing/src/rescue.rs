//! Landing from a hot tier that takes no writes, such as a Redis that can't save: no lock, no snapshot, no mark cleared.
//!
//! Locks only save work. The rows are fenced and versioned as those of any landing, and the marks that stay have them landed once more when
//! the hot tier takes writes again. For the hot tier it is as if a worker had died between its commit and its settle.

use std::collections::BTreeSet;

use storage_dirty::{Fields, HotKind, Map, Read};
use storage_model::{Owner, Partition, Row};
use storage_sql::{Batch, Fence, LandError, PartitionRecord};

use crate::tiers::is_suspect;
use crate::{TierError, Tiers};

/// Marks that the hot tier is asked for at once, and owners that land in one transaction.
const AT_ONCE: usize = 200;
/// Where marks wait.
const MAPS: [Map; 3] = [Map::Dirty, Map::Snapshot, Map::Error];

/// What a rescue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Rows committed.
    pub rows: usize,
    /// Owners of which the database refuses something.
    pub refused: usize,
    /// Partitions that could not be landed so: their server was replaced, or another worker landed them meanwhile.
    pub skipped: usize,
}

/// Whether a failure says that the hot tier can be read and takes no writes.
#[must_use]
pub fn hot_tier_takes_no_writes(error: &TierError) -> bool {
    matches!(error, TierError::Hot(error) if error.kind == HotKind::NoWrites)
}

/// Commits all that is marked, and writes nothing to the hot tier.
///
/// # Errors
/// A tier is away.
///
/// # Cancel safety
/// Dropped, some of it has landed. Repeating it is harmless.
pub async fn rescue(tiers: &Tiers) -> Result<Rescued, TierError> {
    let mut rescued = Rescued::default();
    for partition in (0..tiers.hot().partition_count()).map(Partition) {
        let owners: Vec<Owner> = marked(tiers, partition).await?.into_iter().collect();
        for some in owners.chunks(AT_ONCE) {
            match land(tiers, partition, some).await? {
                Landed::Rows(rows) => rescued.rows += rows,
                Landed::Skipped => {
                    rescued.skipped += 1;
                    break;
                }
                Landed::Refused => {
                    for owner in some {
                        match land(tiers, partition, std::slice::from_ref(owner)).await? {
                            Landed::Rows(rows) => rescued.rows += rows,
                            Landed::Refused | Landed::Skipped => rescued.refused += 1,
                        }
                    }
                }
            }
        }
    }
    Ok(rescued)
}

/// How a transaction ended.
enum Landed {
    Rows(usize),
    Refused,
    Skipped,
}

/// The owners that any mark of a partition names.
async fn marked(tiers: &Tiers, partition: Partition) -> Result<BTreeSet<Owner>, TierError> {
    let mut owners = BTreeSet::new();
    for map in MAPS {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = tiers.hot().scan(partition, map, from, AT_ONCE).await?;
            cursor = page.next;
            owners.extend(page.entries.into_iter().filter_map(|entry| Some(entry.mark?.owner)));
        }
    }
    Ok(owners)
}

async fn land(tiers: &Tiers, partition: Partition, owners: &[Owner]) -> Result<Landed, TierError> {
    // ORDER: the database's record first. A landing in between moves it, and the fence matches nothing.
    let Some(record) = tiers.cold().partitions(&[partition]).await?.pop() else { return Ok(Landed::Skipped) };
    let Some(epoch) = current(tiers, partition, &record).await? else { return Ok(Landed::Skipped) };
    let reads: Vec<Read> = owners.iter().map(|owner| Read { owner: owner.clone(), fields: Fields::All }).collect();
    let mut rows = Vec::new();
    for (owner, read) in owners.iter().zip(tiers.hot().read(&reads).await) {
        let read = read?;
        let Some(header) = read.header.filter(|_| !is_suspect(&read)) else { continue };
        let row = |(field, cell)| Row { owner: owner.clone(), field, cell, version: header.version };
        rows.extend(read.cells.into_iter().map(row));
    }
    // The server may have been replaced since.
    if current(tiers, partition, &record).await? != Some(epoch) {
        return Ok(Landed::Skipped);
    }
    let reaches = rows.iter().map(|row| row.version).max().unwrap_or_default();
    let fence = Fence { partition, epoch, landed: record.last_version, reaches, database: Some(record.database) };
    let count = rows.len();
    match tiers.cold().land(&Batch { fences: vec![fence], rows }).await {
        Ok(()) => Ok(Landed::Rows(count)),
        Err(LandError::Fenced(_)) => Ok(Landed::Skipped),
        Err(LandError::Refused(_)) => Ok(Landed::Refused),
        Err(LandError::Cold(error)) => Err(error.into()),
    }
}

/// The epoch that both tiers agree on, if the hot tier's record is of the server that holds it.
async fn current(
    tiers: &Tiers,
    partition: Partition,
    record: &PartitionRecord,
) -> Result<Option<storage_model::Epoch>, TierError> {
    let state = tiers.hot().partition_states(&[partition]).await.pop().transpose()?;
    let hot = state.filter(|state| state.is_current()).and_then(|state| state.record);
    Ok(hot.filter(|hot| hot.epoch == record.epoch).map(|hot| hot.epoch))
}
