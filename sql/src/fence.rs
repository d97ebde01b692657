//! Fences: the proof that the database's records are the ones that were read with a batch (R14).

use storage_model::{DatabaseId, Epoch, Partition, Stamp, Version};

use crate::Fence;
use crate::engine::{Arg, Exec, Fault, Session, Statement, statement};

static FENCE: Statement = statement!("fence").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&FENCE];

/// Takes the fences, which ascend. Returns the partitions with another record, or all if the hooks
/// of the database have another number of definitions.
///
/// Without such a partition, each record now holds how far the batch reaches, and stays locked
/// until the transaction ends.
pub(crate) async fn hold<S: Session>(
    exec: &mut Exec<S>,
    fences: &[Fence],
    definitions: u64,
) -> Result<Vec<Partition>, Fault> {
    let mut moved = Vec::new();
    for fence in fences {
        if !holds(exec, fence, definitions).await? {
            moved.push(fence.partition);
        }
    }
    moved.dedup();
    Ok(moved)
}

/// Whether the partition's record is the one that was read with the batch, and the definitions are
/// the known ones. If so, the record now holds how far the batch reaches.
async fn holds<S: Session>(
    exec: &mut Exec<S>,
    fence: &Fence,
    definitions: u64,
) -> Result<bool, Fault> {
    let numbers = [
        fence.reaches.get(),
        u64::from(fence.partition.0),
        fence.epoch.0,
        fence.landed.get(),
        u64::from(fence.partition.0),
        fence.stamp.0,
        definitions,
    ];
    let matched = exec.execute(&FENCE, 1, &numbers.map(Arg::Number)).await?;
    Ok(matched == 1)
}

/// The partitions that have landed to another database so far. This database may lack commits of
/// the other one. So nothing can be added here before the hot tier knows (H33).
pub(crate) fn elsewhere(fences: &[Fence], here: DatabaseId) -> Vec<Partition> {
    let other = |fence: &&Fence| fence.database.is_some_and(|database| database != here);
    fences
        .iter()
        .filter(other)
        .map(|fence| fence.partition)
        .collect()
}

/// The fences by partition. Two fences of the same record become one that reaches as far as both.
pub(crate) fn ascending(fences: &[Fence]) -> Vec<Fence> {
    let mut fences = fences.to_vec();
    fences.sort_unstable_by_key(|fence| (claim(fence), fence.reaches));
    fences.dedup_by(|later, kept| {
        let same = claim(later) == claim(kept);
        if same {
            kept.reaches = later.reaches;
        }
        same
    });
    fences
}

/// The record that a fence asks for.
fn claim(fence: &Fence) -> (Partition, Epoch, Stamp, Version) {
    (fence.partition, fence.epoch, fence.stamp, fence.landed)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn fences_ascend_and_equal_claims_become_one() {
        let fence = |partition, epoch, landed, reaches| Fence {
            partition: Partition(partition),
            epoch: Epoch(epoch),
            stamp: Stamp::NONE,
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
