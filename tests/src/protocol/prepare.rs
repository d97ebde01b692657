//! R14, in the steps of `Tiers::prepare`; and what makes it necessary.

use std::sync::Arc;

use storage_dirty::memory::{PartState, record};
use storage_dirty::{Adopt, PartitionState};
use storage_landing::tiers::{Need, need};
use storage_model::{Epoch, Version};
use storage_sql::PartitionRecord;

use super::bounds::Bounds;
use super::cold::Cold;
use super::flush::Flush;
use super::names::{PARTITION, fields};
use super::worker::Worker;
use super::world::{World, held};
use super::{Take, step};

/// What somebody who prepares the partition is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Preparer {
    Idle,
    Compare(Arc<PartitionState>),
    Raise(Arc<PartitionState>, Epoch),
    Adopt(Arc<Adopt>),
    Landed(Epoch, Version),
}

/// What can happen next to the partition's record.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    let (mut next, present) = (world.clone(), world.present());
    let by = |what| step("preparer", 0, what);
    let what = match &world.preparer {
        Preparer::Idle => {
            let fenced = |worker: &Worker| matches!(worker, Worker::Fenced(_) | Worker::Verify(_));
            let asked = world.workers.iter().any(fenced) || matches!(world.flush, Flush::Fenced(_));
            if world.is_prepared(bounds) || !(asked || !world.is_ready()) {
                return;
            }
            next.preparer = Preparer::Compare(Arc::new(record::partition_state(&world.hot)));
            "looks at the hot tier"
        }
        Preparer::Compare(state) => {
            let record = world.cold.record;
            next.preparer = match need(state, record, bounds.probation) {
                Need::Nothing => Preparer::Idle,
                Need::Raise(epoch) => Preparer::Raise(Arc::clone(state), epoch),
                Need::Adopt => Preparer::Adopt(Arc::new(adoption(bounds, &world.cold, state))),
                Need::Landed => Preparer::Landed(record.epoch, record.last_version),
            };
            "looks at the database"
        }
        Preparer::Raise(state, epoch) => {
            next.cold.raise(*epoch);
            next.preparer = Preparer::Adopt(Arc::new(adoption(bounds, &next.cold, state)));
            "raises the epoch"
        }
        Preparer::Adopt(adopt) => {
            record::adopt(next.hot(), &present, adopt);
            next.preparer = Preparer::Idle;
            "adopts"
        }
        Preparer::Landed(epoch, landed) => {
            let _ = record::raise_landed(next.hot(), PARTITION, *epoch, *landed);
            next.preparer = Preparer::Idle;
            "raises what has landed"
        }
    };
    take(by(what), Ok(next));
}

pub(super) fn adoption(bounds: &Bounds, cold: &Cold, seen: &PartitionState) -> Adopt {
    let PartitionRecord { epoch, last_version, database, .. } = cold.record;
    let database = bounds.probation.then_some(database);
    Adopt { partition: PARTITION, seen: seen.clone(), epoch, last_version, database }
}

/// Replication, and what happens to the server itself.
pub(super) fn faults(bounds: &Bounds, world: &World, take: Take<'_>) {
    if world.left.failovers == 0 {
        return;
    }
    if world.copy.as_ref() != Some(&world.hot) {
        let mut next = world.clone();
        next.copy = Some(Arc::clone(&world.hot));
        take(step("replica", 0, "catches up"), Ok(next));
    }
    if let Some(copy) = &world.copy {
        take(step("replica", 0, "takes over"), Ok(replaced(bounds, world, copy)));
    }
    if bounds.wipes {
        let empty = PartState::new("".into());
        take(step("server", 0, "loses everything"), Ok(replaced(bounds, world, &empty)));
    }
}

/// The world with another hot tier. What nobody has any more is forgotten.
fn replaced(bounds: &Bounds, world: &World, hot: &PartState) -> World {
    let mut next = world.clone();
    let mut hot = hot.clone();
    next.replaced += 1;
    hot.move_to(next.replaced.to_string().into());
    next.hot = Arc::new(hot);
    next.copy = None;
    next.left.failovers -= 1;
    next.truth.forget();
    let read = next.read();
    for field in fields(bounds.fields) {
        next.truth.reaches(&field, next.cold.cell(&field));
        next.truth.reaches(&field, held(&read, &field));
    }
    let left = next.truth.places();
    if let Flush::Collect(asked)
    | Flush::Heal(asked, _)
    | Flush::Check(asked, _)
    | Flush::Commit(asked, _)
    | Flush::Fenced(asked) = &mut next.flush
    {
        asked.iter_mut().zip(left).for_each(|(asked, left)| *asked = left.min(*asked));
    }
    next
}
