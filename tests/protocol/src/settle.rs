//! The steps of a worker with marks whose rows were committed or rejected.

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::memory::{self, observe, reject};
use storage_dirty::{Collected, Entry, LandedRow, Map, Reject, Settle, Snapshot, SnapshotId};
use storage_landing::marks::{self, Faults};
use storage_model::Version;
use storage_model::sabotage::broken;

use crate::names::{PARTITION, lock};
use crate::worker::{Batch, Landed, Worker, Working};
use crate::world::World;

impl Working<'_, '_> {
    pub(super) fn settle(&mut self, landed: &Landed) {
        let Landed {
            batch:
                Batch {
                    part,
                    collected,
                    rows,
                    ..
                },
            refused,
            reached,
        } = landed;
        let faults: Faults = refused
            .iter()
            .map(|key| (key.clone(), (1_406, "too long".to_owned())))
            .collect();
        let mut verdict = marks::judge(part, rows, &faults, true);
        verdict
            .rows
            .extend(marks::landed_beside(part, rows, &faults));
        let (partition, epoch, second) = (PARTITION, collected.epoch, Duration::from_secs(1));
        let probation = self.bounds.probation && !broken("H33-off");
        let snapshot = part.snapshot;
        let reject = Reject {
            partition,
            lock: lock(),
            epoch,
            snapshot,
            retry_min: second,
            retry_max: second,
            probation,
            rejected: verdict.reject,
        };
        let then = if reject.rejected.is_empty() {
            Worker::Idle
        } else {
            Worker::Reject(Arc::new(reject))
        };
        if verdict.settle.is_empty() && verdict.rows.is_empty() {
            return self.to("has nothing to settle", self.world.clone(), then);
        }
        let mut next = self.world.clone();
        let marks = if broken("R4-whole") {
            all_of(&next)
        } else {
            verdict.settle
        };
        let settle = Settle {
            partition,
            lock: Some(lock()),
            epoch,
            snapshot,
            landed: *reached,
            marks,
            rows: verdict.rows,
            probation,
        };
        let present = next.present();
        match memory::marks::settle(next.hot(), &present, &settle) {
            Err(_) => self.to("may not settle", next, Worker::Idle),
            Ok(_) => match kept(&next, &settle.rows) {
                Some(wrong) => self.wrong("settles", wrong),
                None => self.to("settles", next, then),
            },
        }
    }

    /// Settles marks before the commit. Only a broken rule does this.
    pub(super) fn early(&mut self, batch: &Arc<Batch>) {
        let mut next = self.world.clone();
        let marks = batch.part.entries.clone();
        let Collected { epoch, landed, .. } = batch.collected;
        let (partition, lock, present) = (PARTITION, Some(lock()), next.present());
        let snapshot = batch.part.snapshot;
        let settle = Settle {
            partition,
            lock,
            epoch,
            snapshot,
            landed,
            marks,
            rows: Vec::new(),
            probation: false,
        };
        let _ = memory::marks::settle(next.hot(), &present, &settle);
        self.to("settles", next, Worker::Commit(Arc::clone(batch)));
    }

    pub(super) fn reject(&mut self, rejected: &Reject) {
        let mut next = self.world.clone();
        let present = next.present();
        let Ok(is_there) = reject::reject(next.hot(), &present, rejected) else {
            return self.to("may not reject", next, Worker::Idle);
        };
        let there = rejected
            .rejected
            .iter()
            .zip(is_there)
            .filter_map(|(rejected, is_there)| is_there.then_some(rejected));
        for fault in there
            .flat_map(|rejected| &rejected.faults)
            .filter(|fault| fault.code == 0)
        {
            if !next.truth.tell(&fault.field, fault.version) {
                return self.wrong(
                    "rejects",
                    format!(
                        "{} is said to have vanished, and was not deleted",
                        fault.field
                    ),
                );
            }
        }
        self.to("rejects", next, Worker::Idle);
    }
}

/// An error mark that the committed rows should have cleared. Without the hash that the field was
/// written to, a mark stays.
fn kept(world: &World, rows: &[LandedRow]) -> Option<String> {
    let born = world.read().header?.born;
    reject::errors(&world.hot, 0, usize::MAX)
        .entries
        .into_iter()
        .find_map(|error| {
            let (owner, field) = error.target?;
            let newer = rows.iter().find(|row| {
                (&row.owner, &row.field) == (&owner, &field)
                    && error.version <= row.version
                    && row.from.max(born) <= error.version
            })?;
            Some(format!(
                "{field} was landed at version {}, and its error mark of version {} stays",
                newer.version, error.version
            ))
        })
}

/// Every entry of the snapshot, to be settled without a check.
pub(super) fn all_of(world: &World) -> Vec<Entry> {
    memory::marks::scan(&world.hot, Map::Snapshot, 0, usize::MAX).entries
}

/// Settles every entry of the snapshot, landed or not.
pub(super) fn all(world: &mut World) {
    let Ok(epoch) = observe::epoch(&world.hot, PARTITION) else {
        return;
    };
    let (marks, snapshot, present, lock) =
        (all_of(world), number(world), world.present(), Some(lock()));
    let (partition, landed) = (PARTITION, Version::ZERO);
    let settle = Settle {
        partition,
        lock,
        epoch,
        snapshot,
        landed,
        marks,
        rows: Vec::new(),
        probation: false,
    };
    let _ = memory::marks::settle(world.hot(), &present, &settle);
}

/// The number of the present snapshot.
pub(super) fn number(world: &World) -> SnapshotId {
    let present = world.present();
    match memory::marks::snapshot(world.clone().hot(), &present, PARTITION, &lock()) {
        Ok(Snapshot::Leftover(number)) => number,
        _ => SnapshotId::default(),
    }
}
