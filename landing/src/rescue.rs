//! Landing from a hot tier that takes no writes, for example a Redis that can't save. It takes no
//! lock and no snapshot, and clears no mark.
//!
//! Locks only save work. The rows have fences and versions as in any landing. The marks stay, so
//! the rows land once more when the hot tier takes writes again. For the hot tier this looks like a
//! worker that died between its commit and its settle.

use std::collections::{BTreeMap, BTreeSet};

use storage_dirty::{Fields, HotKind, HotRead, Links, Map, Read};
use storage_model::{Epoch, Field, Owner, Partition, Row};
use storage_sql::{Fence, LandError, PartitionRecord};

use storage_tiers::bisect::{self, Noted};
use storage_tiers::is_suspect;
use storage_tiers::{TierError, Tiers, Units};

/// Marks of one request to the hot tier.
const MARKS: usize = 200;
/// Owners that are read whole and land in one transaction.
const OWNERS: usize = 50;
/// The most owners that are followed from mark to mark, beside [`MARKS`].
const LINKED: usize = 4_096;
/// The maps that hold marks. Marks on probation have landed once, but the database may have
/// forgotten them.
const MAPS: [Map; 5] = [
    Map::Dirty,
    Map::Snapshot,
    Map::Error,
    Map::Landed,
    Map::Expiring,
];

/// The result of a rescue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Rows committed.
    pub rows: usize,
    /// How much nobody can land: rejected rows, marked fields that the hot tier lost, and
    /// unreadable marks and owners.
    pub refused: usize,
    /// Partitions that were skipped: unreachable ones, ones whose server or database was replaced,
    /// and ones that another worker landed meanwhile.
    pub skipped: usize,
}

/// Whether the failure shows that the hot tier can be read but takes no writes.
#[must_use]
pub fn hot_tier_takes_no_writes(error: &TierError) -> bool {
    matches!(error, TierError::Hot(error) if error.kind == HotKind::NoWrites)
}

/// Commits all marked data, and writes nothing to the hot tier.
///
/// # Errors
/// The tiers do not belong together, or the database is away. A fault of one partition is no error.
/// See [`Rescued::skipped`].
///
/// # Cancel safety
/// A dropped call has landed a part. Repeating it is harmless.
pub async fn rescue(tiers: &Tiers) -> Result<Rescued, TierError> {
    tiers.compare_pairing().await?;
    let mut rescued = Rescued::default();
    for partition in (0..tiers.hot().partitions.partition_count()).map(Partition) {
        match rescue_one(tiers, partition, &mut rescued).await {
            Ok(()) => {}
            Err(TierError::Cold(error)) => return Err(error.into()),
            Err(error) => {
                rescued.skipped += 1;
                tracing::warn!(partition = partition.0, %error, "a partition could not be rescued");
            }
        }
    }
    Ok(rescued)
}

async fn rescue_one(
    tiers: &Tiers,
    partition: Partition,
    rescued: &mut Rescued,
) -> Result<(), TierError> {
    let MarkedOwners { owners, unreadable } = marked(tiers, partition).await?;
    rescued.refused += unreadable;
    let mut owners: Vec<_> = owners.into_iter().collect();
    let units = units_of(tiers, partition, &owners).await?;
    owners.sort_by(|(one, _), (other, _)| units.lead(one).cmp(units.lead(other)));
    for some in batches(&owners, &units) {
        let landed = land_owners(tiers, partition, some, &units).await?;
        let Some(LandedRows { rows, refused }) = landed else {
            rescued.skipped += 1;
            break;
        };
        rescued.rows += rows;
        rescued.refused += refused;
    }
    Ok(())
}

/// The owners that must land together (G1).
async fn units_of(
    tiers: &Tiers,
    partition: Partition,
    owners: &[(Owner, BTreeSet<Field>)],
) -> Result<Units, TierError> {
    let states = tiers
        .hot()
        .partitions
        .partition_states(&[partition])
        .await
        .pop();
    let record = states.transpose()?.and_then(|state| state.record);
    let Some(epoch) = record.map(|record| record.epoch) else {
        return Ok(Units::default()); // nothing can land
    };
    let mut all = Links::default();
    for some in owners.chunks(MARKS) {
        let names: Vec<_> = some.iter().map(|(owner, _)| owner.clone()).collect();
        let links = tiers
            .hot()
            .marks
            .links(partition, epoch, &names, LINKED)
            .await?;
        all.owners.extend(links.owners);
    }
    Ok(Units::joined_by(&all))
}

/// Cuts owners into batches of some [`OWNERS`], and never inside of a unit.
fn batches<'a>(
    mut owners: &'a [(Owner, BTreeSet<Field>)],
    units: &'a Units,
) -> impl Iterator<Item = &'a [(Owner, BTreeSet<Field>)]> {
    std::iter::from_fn(move || {
        let lead = |at: usize| owners.get(at).map(|(owner, _)| units.lead(owner));
        let mut count = owners.len().min(OWNERS);
        while count > 0 && count < owners.len() && lead(count) == lead(count - 1) {
            count += 1;
        }
        let (batch, rest) = owners.split_at_checked(count).filter(|_| count > 0)?;
        owners = rest;
        Some(batch)
    })
}

/// The owners and fields that a partition's marks name.
#[derive(Default)]
struct MarkedOwners {
    owners: BTreeMap<Owner, BTreeSet<Field>>,
    unreadable: usize,
}

/// The owners with changes that have not landed from this partition, or that are on probation. Nothing
/// is written.
///
/// # Errors
/// The hot tier is away.
///
/// # Cancel safety
/// Only reads.
pub async fn marked_owners(tiers: &Tiers, partition: Partition) -> Result<Vec<Owner>, TierError> {
    let marked = marked(tiers, partition).await?;
    if marked.unreadable > 0 {
        tracing::warn!(
            partition = partition.0,
            marks = marked.unreadable,
            "unreadable marks are left out"
        );
    }
    Ok(marked.owners.into_keys().collect())
}

async fn marked(tiers: &Tiers, partition: Partition) -> Result<MarkedOwners, TierError> {
    let mut marked = MarkedOwners::default();
    for map in MAPS {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = tiers.hot().marks.scan(partition, map, from, MARKS).await?;
            cursor = page.next;
            for entry in page.entries {
                match entry.mark {
                    Some(mark) => marked
                        .owners
                        .entry(mark.owner)
                        .or_default()
                        .extend(mark.fields),
                    None => marked.unreadable += 1,
                }
            }
        }
    }
    Ok(marked)
}

/// The result of one transaction.
struct LandedRows {
    rows: usize,
    refused: usize,
}

/// Lands whole owners. `None` if the partition changed meanwhile.
async fn land_owners(
    tiers: &Tiers,
    partition: Partition,
    owners: &[(Owner, BTreeSet<Field>)],
    units: &Units,
) -> Result<Option<LandedRows>, TierError> {
    // ORDER: the database's record first. A landing in between changes the record, and then the
    // fence does not match.
    let Some(record) = tiers
        .cold()
        .partitions
        .partitions(&[partition])
        .await?
        .pop()
    else {
        return Ok(None);
    };
    let Some(epoch) = current(tiers, partition, &record).await? else {
        return Ok(None);
    };
    let (rows, lost, noted) = rows(tiers, partition, owners).await?;
    // The server may have been replaced since.
    if current(tiers, partition, &record).await? != Some(epoch) {
        return Ok(None);
    }
    let count = rows.len();
    if rows.is_empty() {
        return Ok(Some(LandedRows {
            rows: 0,
            refused: lost,
        }));
    }
    let reaches = rows.iter().map(|row| row.version).max().unwrap_or_default();
    let fence = Fence {
        partition,
        epoch,
        stamp: record.stamp,
        landed: record.last_version,
        reaches,
        database: Some(record.database),
    };
    match bisect::land(
        tiers.cold().landing.as_ref(),
        vec![fence],
        rows,
        units,
        noted,
    )
    .await
    {
        Ok(refused) => Ok(Some(LandedRows {
            rows: count - refused.len(),
            refused: lost + refused.len(),
        })),
        Err(LandError::Fenced(_)) => Ok(None),
        Err(LandError::Cold(error)) => Err(error.into()),
        // Bisection ends at single rows, so this is a fault of the database itself.
        Err(LandError::Refused(fault)) => Err(storage_sql::ColdError {
            kind: storage_sql::ColdKind::Unwell,
            operation: "rescue",
            message: format!("{} (error {})", fault.message, fault.code),
        }
        .into()),
    }
}

/// The rows of owners, how many of their marked fields are lost, and the places of their last notes.
async fn rows(
    tiers: &Tiers,
    partition: Partition,
    owners: &[(Owner, BTreeSet<Field>)],
) -> Result<(Vec<Row>, usize, Noted), TierError> {
    let reads: Vec<Read> = owners
        .iter()
        .map(|(owner, _)| Read {
            owner: owner.clone(),
            fields: Fields::All,
        })
        .collect();
    let (mut rows, mut lost, mut noted) = (Vec::new(), 0, Noted::default());
    for ((owner, fields), read) in owners.iter().zip(tiers.hot().owners.read(&reads).await) {
        let read = match read {
            // Another program wrote this hash.
            Err(error) if error.kind == HotKind::Corrupt => HotRead::default(),
            // A hash from before a rewind may be behind its rows. So the owner is read together
            // with them.
            Ok(read) if is_suspect(&read) => tiers.glance(owner).await?,
            read => read?,
        };
        lost += fields
            .iter()
            .filter(|field| !read.cells.iter().any(|(held, _)| held == *field))
            .count();
        noted.keep(partition, std::iter::once((owner, &read)));
        let Some(header) = read.header else { continue };
        rows.extend(read.cells.into_iter().map(|(field, cell)| Row {
            owner: owner.clone(),
            field,
            cell,
            version: header.version,
        }));
    }
    Ok((rows, lost, noted))
}

/// The epoch that both tiers agree on. `None` unless the hot tier's record belongs to the present
/// server and the database has all landed data.
async fn current(
    tiers: &Tiers,
    partition: Partition,
    record: &PartitionRecord,
) -> Result<Option<Epoch>, TierError> {
    let state = tiers
        .hot()
        .partitions
        .partition_states(&[partition])
        .await
        .pop()
        .transpose()?;
    let hot = state
        .filter(|state| state.is_current())
        .and_then(|state| state.record);
    let agrees = |hot: &storage_dirty::PartitionRecord| {
        (hot.epoch, hot.stamp) == (record.epoch, record.stamp) && hot.landed <= record.last_version
    };
    Ok(hot.filter(agrees).map(|hot| hot.epoch))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storage_dirty::Member;

    use super::*;

    #[test]
    fn a_batch_ends_between_units() {
        let owner = |id: usize| Owner::new("a", "r", "t", &format!("{id:03}")).unwrap();
        let member = |id: usize, partner: usize| Member {
            owner: owner(id),
            partners: vec![owner(partner)],
            fields: Fields::All,
            rejected_for: None,
            mark: None,
        };
        let links = (OWNERS - 2..OWNERS + 3).map(|id| member(id, id + 1));
        let units = Units::of(&links.collect::<Vec<_>>(), Duration::MAX);
        let owners: Vec<_> = (0..OWNERS + 9)
            .map(|id| (owner(id), BTreeSet::new()))
            .collect();
        let sizes: Vec<_> = batches(&owners, &units).map(<[_]>::len).collect();
        assert_eq!(sizes, [OWNERS + 4, 5]);
        assert_eq!(batches(&[], &units).count(), 0);
    }
}
