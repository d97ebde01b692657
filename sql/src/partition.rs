//! The records of partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use storage_model::sabotage::keeps;
use storage_model::{DatabaseId, Epoch, HotId, Partition, Stamp, Version};

use crate::engine::{Arg, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement};
use crate::read::version;
use crate::{HotTier, PartitionRecord, Raise, Raised, hot};

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
        stamp: Stamp::NONE,
        hot: HotId::NONE,
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
        hot::add_stamps(exec, ids.len(), &args).await?;
    }
    Ok(())
}

async fn raise_open<S: Session>(
    exec: &mut Exec<S>,
    raises: &[Raise],
) -> Result<Vec<Raised>, Fault> {
    let asked: Vec<Partition> = raises.iter().map(|raise| raise.partition).collect();
    let mut ascending = asked.clone();
    ascending.sort_unstable();
    ascending.dedup();
    // ORDER: all records are locked first, in ascending order like the fences of landings. This
    // waits for the landings under way.
    lock(exec, &ascending).await?;
    let before = records(exec, &asked).await?;
    let known = if raises.iter().any(|raise| raise.if_silent.is_some()) {
        hot::read(exec).await?
    } else {
        Vec::new()
    };
    let before: HashMap<Partition, PartitionRecord> = before
        .into_iter()
        .map(|record| (record.partition, record))
        .collect();
    let fits = |raise: &Raise| {
        let record = before.get(&raise.partition);
        record.is_some_and(|record| fits(raise, record, &known))
    };
    let fits = together(raises, raises.iter().map(fits).collect());
    let fitting = raises.iter().zip(&fits).filter(|(_, fits)| **fits);
    raise_groups(exec, &groups(fitting.map(|(raise, _)| raise))).await?;
    let after = records(exec, &asked).await?;
    Ok(after
        .into_iter()
        .zip(fits)
        .map(|(record, moved)| Raised { record, moved })
        .collect())
}

/// Whether the record is the one that the raise was decided for. It is locked.
///
/// A program of a hot tier that was silent can use it again at this moment. It then learns of this
/// raise by its next comparison, as if it had come a moment later.
fn fits(raise: &Raise, record: &PartitionRecord, known: &[HotTier]) -> bool {
    let is_silent = |within| {
        let mut known = known.iter();
        !known.any(|hot| hot.id == record.hot && hot.id != raise.by && hot.is_heard(within))
    };
    let same = (record.epoch, record.stamp) == (raise.seen, raise.seen_stamp);
    keeps("R14-raised-blindly", same)
        && raise.reach.is_none_or(|reach| reach == record.last_version)
        && raise.if_silent.is_none_or(is_silent)
}

/// Which raises are made. Those with a reach are made together or not at all: a copy that has
/// everything takes all partitions of another hot tier. A landing in one of them makes it one that
/// lacks landed data.
fn together(raises: &[Raise], fits: Vec<bool>) -> Vec<bool> {
    let each = || raises.iter().zip(&fits);
    let all = each().all(|(raise, fits)| *fits || raise.reach.is_none());
    each()
        .map(|(raise, fits)| *fits && (raise.reach.is_none() || keeps("R14-whole", all)))
        .collect()
}

/// The common part of raises that are one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    next: Epoch,
    stamp: Stamp,
    by: HotId,
}

// ORDER: the records of all groups, then the hot tiers by number, then the row of the last raise.
// Raises for several servers lock the same rows in the same order, so none waits for another in a
// circle.
async fn raise_groups<S: Session>(
    exec: &mut Exec<S>,
    groups: &BTreeMap<Group, Vec<Partition>>,
) -> Result<(), Fault> {
    for (group, partitions) in groups {
        raise_group(exec, group, partitions).await?;
    }
    let by: BTreeSet<HotId> = groups.keys().map(|group| group.by).collect();
    for hot in by {
        hot::touch(exec, hot).await?;
    }
    match groups.keys().next_back() {
        Some(last) => hot::told(exec, last.stamp).await,
        None => Ok(()),
    }
}

async fn raise_group<S: Session>(
    exec: &mut Exec<S>,
    group: &Group,
    partitions: &[Partition],
) -> Result<(), Fault> {
    for chunk in partitions.chunks(MANY_MAX) {
        let ids = padded(chunk);
        let mut args = vec![Arg::Number(group.next.0)];
        args.extend(ids.iter().copied().map(id));
        exec.execute(&RAISE_PARTITIONS, ids.len(), &args).await?;
        let mut args = vec![Arg::Number(group.stamp.0), Arg::Number(group.by.0)];
        args.extend(ids.iter().copied().map(id));
        hot::stamp(exec, ids.len(), &args).await?;
    }
    Ok(())
}

/// The partitions of each group. A partition that is named twice is raised once.
fn groups<'a>(raises: impl Iterator<Item = &'a Raise>) -> BTreeMap<Group, Vec<Partition>> {
    let (mut groups, mut named): (BTreeMap<Group, Vec<Partition>>, _) =
        (BTreeMap::new(), BTreeSet::new());
    for raise in raises.filter(|raise| named.insert(raise.partition)) {
        let group = Group {
            next: Epoch(raise.seen.max(raise.above).0.saturating_add(1)),
            stamp: raise.stamp,
            by: raise.by,
        };
        groups.entry(group).or_default().push(raise.partition);
    }
    groups
}

fn id(partition: Partition) -> Arg<'static> {
    Arg::Number(u64::from(partition.0))
}

/// The partition in this column.
pub(crate) fn partition_in(record: &dyn Record, column: usize) -> Result<Partition, Fault> {
    u32::try_from(record.number(column)?)
        .map(Partition)
        .map_err(|_| Fault::operator("a partition's number is too large"))
}

fn record(record: &dyn Record, database: DatabaseId) -> Result<PartitionRecord, Fault> {
    Ok(PartitionRecord {
        partition: partition_in(record, 0)?,
        epoch: Epoch(record.number(1)?),
        last_version: version(record.number(2)?)?,
        landed_epoch: Epoch(record.number(3)?),
        stamp: Stamp(record.number(4)?),
        hot: HotId(record.number(5)?),
        database,
    })
}
