//! The landing transaction: fences first, then the rows.

use storage_model::{DatabaseId, Partition, Row};

use crate::canary;
use crate::classify::Class;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::session::{Arg, Session};
use crate::split::{BYTES_MAX, ordered, row_bytes, split};
use crate::{Batch, Fence, LandError, RowFault, Statement};

/// MySQL's number for a packet that is too large. Also for a row that is rejected before it is
/// sent.
const PACKET_TOO_LARGE: u32 = 1153;

/// Why a transaction ends early.
enum Stop {
    Fenced(Vec<Partition>),
    /// The answer to a statement that writes rows.
    Rows(Fault),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why a batch did not land.
pub(crate) enum Unlanded {
    /// The error for the caller.
    Known(LandError),
    /// A statement that writes rows was cut. One of the rows may be at fault.
    Cut(Fault),
}

impl From<LandError> for Unlanded {
    fn from(error: LandError) -> Self {
        Self::Known(error)
    }
}

impl From<Stop> for Unlanded {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Fenced(partitions) => Self::Known(LandError::Fenced(partitions)),
            Stop::Rows(fault) if fault.is_cut() => Self::Cut(fault),
            Stop::Rows(fault) | Stop::Fault(fault) => Self::Known(fault.into_land()),
        }
    }
}

/// How often one owner's rows are sent before they count as the cause of cuts.
const CUTS_MAX: u32 = 3;

/// How often a batch is sent before its rows count as the cause of cuts. A batch of several owners
/// is halved after the first cut, because its parts are sent again anyway. The rows of one owner
/// stay together as long as possible (R16).
pub(crate) fn cuts_max(batch: &Batch) -> u32 {
    let one_owner = batch
        .rows
        .windows(2)
        .all(|pair| matches!(pair, [one, next] if one.owner == next.owner));
    if one_owner { CUTS_MAX } else { 1 }
}

/// The limit of a value for this limit of a statement. It is half, so that names and lengths fit
/// beside the value.
pub(crate) const fn value_bytes_max(packet_bytes_max: usize) -> usize {
    packet_bytes_max / 2
}

/// Writes the rows that are newer than the table's, if every fence matches.
pub(crate) async fn land<S: Session>(exec: &mut Exec<S>, batch: &Batch) -> Result<(), Unlanded> {
    let rows = ordered(&batch.rows);
    refuse_too_large(&rows, value_bytes_max(exec.packet_bytes_max()))?;
    let fences = ascending(&batch.fences);
    let elsewhere = elsewhere(&fences, exec.server().id);
    if !elsewhere.is_empty() {
        return Err(LandError::Fenced(elsewhere).into());
    }
    match transaction(exec, &fences, &rows).await {
        Err(Stop::Rows(fault)) if fault.may_be_of_rows() && rows.len() > 1 => {
            Err(fault.of_rows().into())
        }
        Err(Stop::Rows(fault)) if fault.may_be_of_rows() && exec.is_between_transactions() => {
            // Only a single row counts as the cause, and only while another row succeeds.
            canary::check(exec).await.map_err(Fault::into_land)?;
            if fault.class == Class::Refused {
                return Err(fault.of_rows().into());
            }
            // The meaning of the number is unknown, so the fault may have passed.
            match transaction(exec, &fences, &rows).await {
                Err(Stop::Rows(again)) if again.code == fault.code => Err(again.of_rows().into()),
                other => Ok(other?),
            }
        }
        other => Ok(other?),
    }
}

async fn transaction<S: Session>(
    exec: &mut Exec<S>,
    fences: &[Fence],
    rows: &[&Row],
) -> Result<(), Stop> {
    exec.begin().await?;
    let work = write(exec, fences, rows).await;
    exec.end(work).await
}

async fn write<S: Session>(
    exec: &mut Exec<S>,
    fences: &[Fence],
    rows: &[&Row],
) -> Result<(), Stop> {
    // ORDER: fences before rows, fences ascending, rows in key order. Overlapping transactions then
    // wait for each other and never in a circle. The fences' locks last until the commit, so no row
    // is written under an epoch that was raised meanwhile.
    let mut moved = Vec::new();
    for fence in fences {
        if !holds(exec, fence).await? {
            moved.push(fence.partition);
        }
    }
    if !moved.is_empty() {
        moved.dedup();
        return Err(Stop::Fenced(moved));
    }
    for (size, args) in upserts(rows, value_bytes_max(exec.packet_bytes_max())) {
        exec.execute(Statement::Upsert, size, &args)
            .await
            .map_err(Stop::Rows)?;
    }
    Ok(())
}

/// The upserts of the rows, in their order: the number of rows of each, and its arguments.
pub(crate) fn upserts<'a>(
    rows: &'a [&'a Row],
    bytes_max: usize,
) -> impl Iterator<Item = (usize, Vec<Arg<'a>>)> {
    let bytes: Vec<usize> = rows.iter().map(|row| row_bytes(row)).collect();
    split(&bytes, BYTES_MAX.min(bytes_max))
        .into_iter()
        .map(move |range| {
            let rows = rows.get(range).unwrap_or_default();
            (
                rows.len(),
                rows.iter().flat_map(|row| row_args(row)).collect(),
            )
        })
}

/// The partitions that have landed to another database so far. This database may lack commits of
/// the other one. So nothing can be added here before the hot tier knows (H33).
fn elsewhere(fences: &[Fence], here: DatabaseId) -> Vec<Partition> {
    let other = |fence: &&Fence| fence.database.is_some_and(|database| database != here);
    fences
        .iter()
        .filter(other)
        .map(|fence| fence.partition)
        .collect()
}

/// Whether the partition's record is the one that was read with the batch. If so, the record now
/// holds how far the batch reaches.
async fn holds<S: Session>(exec: &mut Exec<S>, fence: &Fence) -> Result<bool, Fault> {
    let numbers = [
        fence.reaches.get(),
        u64::from(fence.partition.0),
        fence.epoch.0,
        fence.landed.get(),
    ];
    let matched = exec
        .execute(Statement::Fence, 1, &numbers.map(Arg::Number))
        .await?;
    Ok(matched == 1)
}

pub(crate) fn row_args(row: &Row) -> [Arg<'_>; 8] {
    let owner = &row.owner;
    [
        owner.app().into(),
        owner.region().into(),
        owner.logic_type().into(),
        owner.id().into(),
        row.field.as_str().into(),
        Arg::Bytes(row.cell.value()),
        Arg::Number(row.version.get()),
        Arg::Number(u64::from(row.cell.is_del())),
    ]
}

/// The fences by partition. Two fences of the same record become one that reaches as far as both.
fn ascending(fences: &[Fence]) -> Vec<Fence> {
    let mut fences = fences.to_vec();
    fences
        .sort_unstable_by_key(|fence| (fence.partition, fence.epoch, fence.landed, fence.reaches));
    fences.dedup_by(|later, kept| {
        let same = (later.partition, later.epoch, later.landed)
            == (kept.partition, kept.epoch, kept.landed);
        if same {
            kept.reaches = later.reaches;
        }
        same
    });
    fences
}

/// Rejects a value that would break the connection instead of getting an error answer.
fn refuse_too_large(rows: &[&Row], limit: usize) -> Result<(), LandError> {
    let Some(row) = rows.iter().find(|row| row.cell.value().len() > limit) else {
        return Ok(());
    };
    let bytes = row.cell.value().len();
    let message = format!(
        "field {} of {} has a value of {bytes} bytes, but the database takes {limit}, half of max_allowed_packet: split the value, or raise max_allowed_packet",
        row.field, row.owner
    );
    Err(LandError::Refused(RowFault {
        code: PACKET_TOO_LARGE,
        message,
    }))
}

#[cfg(test)]
mod tests {
    use storage_model::{Epoch, Version};

    use super::*;

    #[test]
    fn fences_ascend_and_equal_claims_become_one() {
        let fence = |partition, epoch, landed, reaches| Fence {
            partition: Partition(partition),
            epoch: Epoch(epoch),
            landed: Version::new(landed).unwrap(),
            reaches: Version::new(reaches).unwrap(),
            database: None,
        };
        let got = ascending(&[
            fence(7, 1, 5, 9),
            fence(2, 1, 0, 3),
            fence(7, 1, 5, 12),
            fence(7, 2, 5, 6),
        ]);
        assert_eq!(
            got,
            [fence(2, 1, 0, 3), fence(7, 1, 5, 12), fence(7, 2, 5, 6)]
        );
    }
}
