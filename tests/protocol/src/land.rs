//! The common steps of workers and flushes: collecting, and the transaction.

use std::sync::Arc;

use storage_dirty::memory::{marks, partition};
use storage_dirty::{Bound, Collected, Fields, HotRead, Linked, SnapshotId};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Row};
use storage_sql::Fence;
use storage_tiers::bisect;

use crate::names::PARTITION;
use crate::world::World;

/// The values of a collection, and the server that it read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Values {
    read: Collected,
    server: u8,
}

/// Reads the wanted fields. None if the partition must be prepared first.
pub(super) fn read(
    world: &World,
    wanted: &[(Owner, Vec<Field>)],
    known: Option<SnapshotId>,
) -> Option<Arc<Values>> {
    let read = marks::collect(&world.hot, PARTITION, wanted, known).ok()?;
    Some(Arc::new(Values {
        read,
        server: world.replaced,
    }))
}

/// Ends a collection. Redis reads the partition's record and the marks after the values, not in one
/// step with them, but on the same connection. None as above, or if the server was replaced in
/// between.
pub(super) fn checked(
    world: &mut World,
    wanted: &[(Owner, Vec<Field>)],
    known: Option<SnapshotId>,
    values: &Values,
) -> Option<Collected> {
    let later = marks::collect(&world.hot, PARTITION, wanted, known)
        .ok()
        .filter(|_| values.server == world.replaced)?;
    partition::collects(world.hot());
    let generation = partition::partition_state(&world.hot).record?.generation;
    let mut reads = values.read.reads.clone();
    for header in reads.iter_mut().filter_map(|read| read.header.as_mut()) {
        header.suspect = header.generation < generation && !broken("R14-trusting");
    }
    if broken("R3-apart") {
        let version = |read: &HotRead| read.header.map(|header| header.version);
        for (read, later) in reads.iter_mut().zip(&later.reads) {
            if let (Some(header), Some(version)) = (&mut read.header, version(later)) {
                header.version = version;
            }
        }
    }
    Some(Collected { reads, ..later })
}

/// Reads the owner in one step, with all fields that its marks name. None as in [`read`].
pub(super) fn whole(world: &mut World, wanted: &[(Owner, Vec<Field>)]) -> Option<Whole> {
    let asked =
        |(owner, fields): &(Owner, Vec<Field>)| (owner.clone(), Fields::Cells(fields.clone()));
    let wanted: Vec<_> = wanted.iter().map(asked).collect();
    let bound = Bound {
        rows: usize::MAX,
        bytes: usize::MAX,
    };
    let present = world.present();
    let linked = marks::collect_linked(&world.hot, &present, PARTITION, &wanted, bound, true);
    let Ok(Linked::Closed(collected, members)) = linked else {
        return None;
    };
    partition::collects(world.hot());
    let is_rejected = members.iter().any(|member| member.rejected_for.is_some());
    let wanted = members.into_iter().map(|member| match member.fields {
        Fields::Cells(fields) => (member.owner, fields),
        _ => (member.owner, Vec::new()),
    });
    let wanted = wanted.collect();
    Some(Whole {
        wanted,
        collected,
        is_rejected,
    })
}

/// The owner as it was read in one step.
pub(super) struct Whole {
    /// The fields that were read.
    pub(super) wanted: Vec<(Owner, Vec<Field>)>,
    pub(super) collected: Collected,
    /// Whether the database has rejected a field before.
    pub(super) is_rejected: bool,
}

pub(super) fn is_suspect(collected: &Collected) -> bool {
    collected
        .reads
        .iter()
        .any(|read| read.header.is_some_and(|header| header.suspect))
}

/// The fence of one batch.
pub(super) fn fence(collected: &Collected, rows: &[Row]) -> Fence {
    bisect::fence(PARTITION, collected, rows.iter())
}

/// Commits rows, `in_parts` if the owner was rejected for too long. Returns whether the fence
/// matched, or the fault that the rows put into the database.
pub(super) fn commit(
    world: &mut World,
    fence: &Fence,
    rows: &[Row],
    in_parts: bool,
) -> Result<bool, String> {
    if rows.is_empty() {
        return Ok(true);
    }
    if let Some(row) = rows.iter().find(|row| world.truth.is_antedated(row)) {
        return Err(format!(
            "{} lands with the version of an older write",
            row.field
        ));
    }
    // A restored value stands in the story twice. So the earlier place before is compared with the
    // later place after.
    let before: Vec<_> = world
        .truth
        .fields()
        .map(|(field, _)| world.truth.first_place(field, world.cold.cell(field)))
        .collect();
    if !world.cold.land(fence, rows) {
        return Ok(false);
    }
    let after = world
        .truth
        .fields()
        .map(|(field, _)| world.truth.place(field, world.cold.cell(field)));
    let regresses = |((field, _), (before, after)): ((&Field, _), (Option<usize>, _))| {
        let truth = &world.truth;
        after < before && !truth.is_deleted(field) && !truth.is_forsaken(field, before)
    };
    if world
        .truth
        .fields()
        .zip(before.into_iter().zip(after))
        .any(regresses)
    {
        return Err("a landed row regressed".to_owned());
    }
    let rows_now = world
        .truth
        .fields()
        .map(|(field, _)| world.cold.cell(field).cloned());
    let rows_now = rows_now.collect();
    let version = rows.iter().map(|row| row.version).max();
    world
        .truth
        .lands(rows_now, version.unwrap_or_default(), in_parts)?;
    // After a failover: the data that only an open landing still had is there after all.
    let cold = &world.cold;
    world
        .truth
        .goes_on_from(cold.newest(), |field| cold.cell(field).cloned());
    Ok(true)
}
