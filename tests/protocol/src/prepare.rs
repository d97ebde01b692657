//! R14, in the steps of `Tiers::prepare`, and the faults that make it necessary.

use std::sync::Arc;

use storage_dirty::memory::{PartState, partition};
use storage_dirty::{Adopt, PartitionState};
use storage_model::sabotage::broken;
use storage_model::{Epoch, Version};
use storage_sql::{PartitionRecord, Raise};
use storage_tiers::{Need, landed_here, need};

use crate::bounds::Bounds;
use crate::cold::Cold;
use crate::flush::Flush;
use crate::names::PARTITION;
use crate::worker::Worker;
use crate::world::World;
use crate::{Take, step};

/// Processes that prepare at once can overtake each other again and again. Beyond this epoch only
/// the first one goes on.
const OVERTAKEN_MAX: Epoch = Epoch(4);

/// The next step of a process that prepares the partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Preparer {
    Idle,
    Compare(Arc<PartitionState>),
    Raise(Arc<PartitionState>, Raise),
    Adopt(Arc<Adopt>),
    Landed(Epoch, Version),
}

/// The next steps of the partition's record.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    // All idle ones are alike.
    let idle = world
        .preparers
        .iter()
        .position(|preparer| *preparer == Preparer::Idle);
    for (at, preparer) in world.preparers.iter().enumerate() {
        if *preparer != Preparer::Idle || (idle == Some(at) && is_called(bounds, world)) {
            let mut next = world.clone();
            let (what, then) = preparer.step(bounds, at, &mut next);
            if let Some(slot) = next.preparers.get_mut(at) {
                *slot = then;
            }
            take(step("preparer", at, what), Ok(next));
        }
    }
}

/// Whether a call was rejected because of the record, and the record is not in order.
fn is_called(bounds: &Bounds, world: &World) -> bool {
    let waits = |worker: &Worker| matches!(worker, Worker::Fenced(_) | Worker::Verify(_));
    // A worker looks at the database again and again while marks are on probation.
    let on_probation = partition::peek(&world.hot, &world.present()).probation > 0;
    let waiting =
        on_probation || world.workers.iter().any(waits) || matches!(world.flush, Flush::Fenced(_));
    (waiting || !world.is_ready()) && !world.is_prepared(bounds)
}

impl Preparer {
    /// Makes the next step. Returns its name and the state after it.
    fn step(&self, bounds: &Bounds, at: usize, world: &mut World) -> (&'static str, Self) {
        let present = world.present();
        match self {
            Self::Idle => (
                "looks at the hot tier",
                Self::Compare(Arc::new(partition::partition_state(&world.hot))),
            ),
            Self::Compare(state) => {
                let cold = world.cold.record;
                let then = match need(state, cold, bounds.probation, false) {
                    // The first look was at a server that has ended since.
                    Need::Nothing | Need::Replaced => Self::Idle,
                    Need::Raise(raise) if at == 0 || cold.epoch < OVERTAKEN_MAX => {
                        Self::Raise(Arc::clone(state), raise)
                    }
                    Need::Raise(_) => Self::Idle,
                    Need::Landed => Self::Landed(cold.epoch, cold.last_version),
                };
                ("looks at the database", then)
            }
            Self::Raise(state, raise) => {
                if !world.cold.raise(*raise) && !broken("R14-joined") {
                    return ("finds the epoch raised", Self::Idle);
                }
                (
                    "raises the epoch",
                    Self::Adopt(Arc::new(adoption(bounds, &world.cold, state, *raise))),
                )
            }
            Self::Adopt(adopt) => {
                partition::adopt(world.hot(), &present, adopt);
                ("adopts", Self::Idle)
            }
            Self::Landed(epoch, landed) => {
                // A record that has moved in between is looked at again.
                let _ = partition::raise_landed(world.hot(), PARTITION, *epoch, *landed);
                ("raises landed", Self::Idle)
            }
        }
    }
}

pub(super) fn adoption(bounds: &Bounds, cold: &Cold, seen: &PartitionState, raise: Raise) -> Adopt {
    let PartitionRecord {
        epoch,
        stamp,
        last_version,
        database,
        ..
    } = cold.record;
    let database = bounds.probation.then_some(database);
    let (seen, landed_here) = (seen.clone(), landed_here(seen, raise, cold.record));
    Adopt {
        partition: PARTITION,
        seen,
        epoch,
        stamp,
        until: storage_model::Timestamp(u64::MAX),
        last_version,
        landed_here,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database,
    }
}

/// Replication, and faults of the server itself.
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
        take(
            step("replica", 0, "takes over"),
            Ok(replaced(bounds, world, copy)),
        );
    }
    if bounds.wipes {
        let empty = PartState::new("".into());
        take(
            step("server", 0, "loses everything"),
            Ok(replaced(bounds, world, &empty)),
        );
    }
}

/// The world with another hot tier. Data that no part has any more is forgotten.
fn replaced(bounds: &Bounds, world: &World, hot: &PartState) -> World {
    let mut next = world.clone();
    let mut hot = hot.clone();
    next.replaced += 1;
    hot.move_to(next.replaced.to_string().into());
    next.hot = Arc::new(hot);
    next.copy = bounds.swaps.then(|| Arc::clone(&world.hot));
    next.left.failovers -= 1;
    next.truth.forget();
    // Values that were read over a broken connection are never paired with a record, because a
    // collection is one pipeline.
    next.workers
        .iter_mut()
        .for_each(Worker::loses_its_connection);
    if let Flush::Check(asked, ..) = &next.flush {
        next.flush = Flush::Collect(asked.clone());
    }
    next.goes_on();
    let left = next.truth.places();
    if let Flush::Collect(asked)
    | Flush::Look(asked, _)
    | Flush::Reconcile(asked, _)
    | Flush::Check(asked, ..)
    | Flush::Commit(asked, _)
    | Flush::Fenced(asked) = &mut next.flush
    {
        asked
            .iter_mut()
            .zip(left)
            .for_each(|(asked, left)| *asked = left.min(*asked));
    }
    next
}
