//! The records of partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use storage_model::{DatabaseId, Epoch, Partition, Version};

use crate::engine::{Arg, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement};
use crate::read::version;
use crate::{PartitionRecord, Raise, Raised};

static PARTITIONS: Statement = statement!("partitions").through("PRIMARY");
static ADD_PARTITIONS: Statement = statement!("add_partitions");
static RAISE_PARTITIONS: Statement = statement!("raise_partitions").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&PARTITIONS, &ADD_PARTITIONS, &RAISE_PARTITIONS];

/// The records of these partitions, in the requested order.
pub(crate) async fn records<S: Session>(
    exec: &mut Exec<S>,
    partitions: &[Partition],
) -> Result<Vec<PartitionRecord>, Fault> {
    let database = exec.server().id;
    let mut found = HashMap::new();
    for chunk in partitions.chunks(MANY_MAX) {
        let ids = padded(chunk);
        let args: Vec<_> = ids.iter().copied().map(id).collect();
        let read = |row: &dyn Record| record(row, database);
        let records = exec.fetch(&PARTITIONS, ids.len(), &args, read).await?;
        found.extend(records.into_iter().map(|record| (record.partition, record)));
    }
    let none = |partition| PartitionRecord {
        partition,
        epoch: Epoch(0),
        last_version: Version::ZERO,
        landed_epoch: Epoch(0),
        database,
    };
    Ok(partitions
        .iter()
        .map(|&partition| {
            found
                .get(&partition)
                .copied()
                .unwrap_or_else(|| none(partition))
        })
        .collect())
}

/// Raises the epoch of each partition that still has the seen one. Returns all records after it, in
/// the given order. Each tells whether this call raised it.
pub(crate) async fn raise<S: Session>(
    exec: &mut Exec<S>,
    raises: &[Raise],
) -> Result<Vec<Raised>, Fault> {
    exec.transaction(async |exec| raise_open(exec, raises).await)
        .await
}

/// Creates and locks the records of these partitions, which ascend.
pub(crate) async fn lock<S: Session>(
    exec: &mut Exec<S>,
    partitions: &[Partition],
) -> Result<(), Fault> {
    for chunk in partitions.chunks(MANY_MAX) {
        let ids = padded(chunk);
        let args: Vec<_> = ids.iter().copied().map(id).collect();
        exec.execute(&ADD_PARTITIONS, ids.len(), &args).await?;
    }
    Ok(())
}

async fn raise_open<S: Session>(
    exec: &mut Exec<S>,
    raises: &[Raise],
) -> Result<Vec<Raised>, Fault> {
    // ORDER: all records are locked first, in ascending order like the fences of landings. This
    // waits for the landings under way.
    let all: BTreeSet<Partition> = raises.iter().map(|raise| raise.partition).collect();
    let all: Vec<Partition> = all.into_iter().collect();
    lock(exec, &all).await?;
    let asked: Vec<Partition> = raises.iter().map(|raise| raise.partition).collect();
    let before = records(exec, &asked).await?;
    for ((seen, next), partitions) in by_epoch(raises) {
        for chunk in partitions.chunks(MANY_MAX) {
            let ids = padded(chunk);
            let mut args = vec![Arg::Number(next.0), Arg::Number(seen.0)];
            args.extend(ids.iter().copied().map(id));
            exec.execute(&RAISE_PARTITIONS, ids.len(), &args).await?;
        }
    }
    let after = records(exec, &asked).await?;
    let moved = raises
        .iter()
        .zip(before)
        .map(|(raise, before)| before.epoch == raise.seen);
    Ok(after
        .into_iter()
        .zip(moved)
        .map(|(record, moved)| Raised { record, moved })
        .collect())
}

/// The partitions by their seen and next epoch, the highest seen epoch first. So no partition that
/// is named twice is raised twice.
fn by_epoch(raises: &[Raise]) -> impl Iterator<Item = ((Epoch, Epoch), Vec<Partition>)> {
    let mut groups: BTreeMap<(Epoch, Epoch), BTreeSet<Partition>> = BTreeMap::new();
    for raise in raises {
        let next = Epoch(raise.seen.max(raise.above).0.saturating_add(1));
        groups
            .entry((raise.seen, next))
            .or_default()
            .insert(raise.partition);
    }
    groups
        .into_iter()
        .rev()
        .map(|(epochs, partitions)| (epochs, partitions.into_iter().collect()))
}

fn id(partition: Partition) -> Arg<'static> {
    Arg::Number(u64::from(partition.0))
}

fn record(record: &dyn Record, database: DatabaseId) -> Result<PartitionRecord, Fault> {
    let number = u32::try_from(record.number(0)?)
        .map_err(|_| Fault::operator("a partition's number is too large"))?;
    Ok(PartitionRecord {
        partition: Partition(number),
        epoch: Epoch(record.number(1)?),
        last_version: version(record.number(2)?)?,
        landed_epoch: Epoch(record.number(3)?),
        database,
    })
}
