//! Landing workers, in the steps of the real one. They share a lock, so nothing stops them from
//! overlapping.

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::memory::{self, lock as lease, partition, reject};
use storage_dirty::{Collected, Entry, Expire, Map, Mark, Reject, Snapshot, SnapshotId, Window};
use storage_landing::marks::{self, LandingPart, Rows};
use storage_model::sabotage::broken;
use storage_model::{Bytes, Cell, Field, Owner, Row, Version};

use crate::bounds::Bounds;
use crate::land::{self, Values, commit, fence, is_suspect};
use crate::load::{Loading, Went};
use crate::names::{PARTITION, fields, lock};
use crate::settle;
use crate::world::World;
use crate::{Take, step};

/// The number of attempts to land a rejected field.
const ATTEMPTS_MAX: u32 = 3;

/// The next step of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Scan(SnapshotId),
    Collect(Arc<LandingPart>),
    Check(Arc<LandingPart>, Arc<Values>),
    /// Reads all marked fields in one step, since a mark names more than the part.
    Whole(Arc<LandingPart>),
    Reconcile(Arc<LandingPart>, Loading),
    /// Settles marks before the commit. Only a broken rule does this.
    Early(Arc<Batch>),
    Commit(Arc<Batch>),
    Fenced(Arc<LandingPart>),
    Settle(Arc<Landed>),
    Reject(Arc<Reject>),
    /// The marks of this window have been on probation for long enough, if the database is still
    /// the same.
    Verify(Window),
    Expire(Arc<Expire>),
}

impl Worker {
    /// Begins an open collection again.
    pub(super) fn loses_its_connection(&mut self) {
        if let Self::Check(part, _) = self {
            *self = Self::Collect(Arc::clone(part));
        }
    }
}

/// The values of marked fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    pub(super) part: LandingPart,
    pub(super) collected: Collected,
    pub(super) rows: Rows,
    /// Whether the database has rejected a field before. Then the owner may land in parts.
    pub(super) is_rejected: bool,
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Landed {
    pub(super) batch: Batch,
    pub(super) refused: Vec<(Owner, Field)>,
    pub(super) reached: Version,
}

/// All next steps of workers.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    // All idle workers are alike.
    let idle = world
        .workers
        .iter()
        .position(|worker| *worker == Worker::Idle);
    for (at, worker) in world.workers.iter().enumerate() {
        let mut working = Working {
            bounds,
            world,
            at,
            take: &mut *take,
        };
        if *worker != Worker::Idle {
            working.go_on(worker);
            working.stop();
        } else if idle == Some(at) {
            working.begin();
        }
    }
}

/// One worker's next step.
pub(super) struct Working<'a, 'b> {
    pub(super) bounds: &'a Bounds,
    pub(super) world: &'a World,
    at: usize,
    take: Take<'b>,
}

impl Working<'_, '_> {
    pub(super) fn to(&mut self, what: &'static str, mut world: World, worker: Worker) {
        if let Some(slot) = world.workers.get_mut(self.at) {
            *slot = worker;
        }
        (self.take)(step("worker", self.at, what), Ok(world));
    }

    pub(super) fn wrong(&mut self, what: &'static str, wrong: String) {
        (self.take)(step("worker", self.at, what), Err(wrong));
    }

    fn go_on(&mut self, worker: &Worker) {
        match worker {
            Worker::Idle => {}
            Worker::Scan(snapshot) => self.scan(*snapshot),
            Worker::Collect(part) => self.collect(part),
            Worker::Check(part, read) => self.check(part, read),
            Worker::Whole(part) => self.whole(part),
            Worker::Reconcile(part, at) => self.reconcile(part, at),
            Worker::Early(batch) => self.early(batch),
            Worker::Commit(batch) => self.commit(batch),
            Worker::Fenced(part) if self.world.is_prepared(self.bounds) => {
                self.to(
                    "finds the partition prepared",
                    self.world.clone(),
                    Worker::Collect(Arc::clone(part)),
                );
            }
            Worker::Fenced(_) => {}
            Worker::Settle(landed) => self.settle(landed),
            Worker::Reject(rejected) => self.reject(rejected),
            Worker::Verify(window) => self.verify(*window),
            Worker::Expire(expire) => self.expire(expire),
        }
    }

    fn stop(&mut self) {
        if self.world.left.crashes > 0 {
            let mut next = self.world.clone();
            next.left.crashes -= 1;
            self.to("stops and begins again", next, Worker::Idle);
        }
    }

    fn begin(&mut self) {
        let present = self.world.present();
        let peek = partition::peek(&self.world.hot, &present);
        let mut next = self.world.clone();
        lease::lock(next.hot(), &present, &lock(), Duration::from_secs(1));
        if peek.live + peek.snapshot > 0 {
            if broken("R4-overwrite") {
                settle::all(&mut next); // the rest disappears, as under a rename
            }
            match memory::marks::snapshot(next.hot(), &present, PARTITION, &lock()) {
                Ok(Snapshot::Taken(number)) => {
                    self.to("takes a snapshot", next, Worker::Scan(number))
                }
                Ok(Snapshot::Leftover(number)) => {
                    self.to("finds a snapshot left over", next, Worker::Scan(number))
                }
                Ok(Snapshot::Empty) | Err(_) => {}
            }
        }
        if peek.errors > 0 {
            self.replay();
        }
        if peek.requeue {
            self.requeue();
        } else if peek.probation > 0 {
            self.begin_probation();
        }
    }

    fn replay(&mut self) {
        // A vanished mark vanishes again each time, and is counted each time.
        let errors = reject::errors(&self.world.hot, 0, usize::MAX)
            .entries
            .into_iter()
            .filter(|error| error.attempts < ATTEMPTS_MAX);
        let entries = errors.filter_map(|error| {
            let (owner, field) = error.target?;
            Some(Entry {
                raw: error.raw,
                mark: Some(Mark {
                    owner,
                    fields: vec![field],
                }),
                version: error.version,
            })
        });
        let part = LandingPart {
            partition: PARTITION,
            snapshot: SnapshotId::default(),
            entries: entries.collect(),
            replay: true,
            notes: None,
        };
        if part.entries.is_empty() {
            return;
        }
        self.to(
            "tries the rejected fields again",
            self.world.clone(),
            Worker::Collect(Arc::new(part)),
        );
    }

    fn scan(&mut self, snapshot: SnapshotId) {
        let page = memory::marks::scan(&self.world.hot, Map::Snapshot, 0, self.bounds.page);
        let part = LandingPart {
            partition: PARTITION,
            snapshot,
            entries: page.entries,
            replay: false,
            notes: None,
        };
        let group = marks::cut(vec![part], usize::MAX)
            .pop()
            .and_then(|mut group| group.pop());
        let worker = group.map_or(Worker::Idle, |part| Worker::Collect(Arc::new(part)));
        self.to("reads marks", self.world.clone(), worker);
    }

    fn collect(&mut self, part: &Arc<LandingPart>) {
        if let Some(read) = land::read(self.world, &part.wanted(), known(part)) {
            self.to(
                "reads values",
                self.world.clone(),
                Worker::Check(Arc::clone(part), read),
            );
        }
    }

    fn check(&mut self, part: &Arc<LandingPart>, read: &Values) {
        let wanted = part.wanted();
        let mut next = self.world.clone();
        let Some(collected) = land::checked(&mut next, &wanted, known(part), read) else {
            return self.to("may not collect", next, Worker::Fenced(Arc::clone(part)));
        };
        if !collected.partial.is_empty() {
            return self.to("finds other marks", next, Worker::Whole(Arc::clone(part)));
        }
        self.collected(part, next, &wanted, collected, false);
    }

    fn whole(&mut self, part: &Arc<LandingPart>) {
        let mut next = self.world.clone();
        match land::whole(&mut next, &part.wanted()) {
            Some(whole) => self.collected(
                part,
                next,
                &whole.wanted,
                whole.collected,
                whole.is_rejected,
            ),
            None => self.to("may not collect", next, Worker::Fenced(Arc::clone(part))),
        }
    }

    fn collected(
        &mut self,
        part: &Arc<LandingPart>,
        next: World,
        wanted: &[(Owner, Vec<Field>)],
        collected: Collected,
        is_rejected: bool,
    ) {
        if is_suspect(&collected) {
            return self.to(
                "meets a suspect hash",
                next,
                Worker::Reconcile(Arc::clone(part), Loading::Observe),
            );
        }
        let rows = rows(part, wanted, &collected);
        let batch = Arc::new(Batch {
            part: (**part).clone(),
            collected,
            rows,
            is_rejected,
        });
        let worker = if broken("R5-early") {
            Worker::Early(batch)
        } else {
            Worker::Commit(batch)
        };
        self.to("reads the record", next, worker);
    }

    fn reconcile(&mut self, part: &Arc<LandingPart>, at: &Loading) {
        let mut next = self.world.clone();
        let suspect = self
            .world
            .read()
            .header
            .is_some_and(|header| header.suspect);
        if matches!(at, Loading::Look(_)) && !suspect {
            return self.to(
                "finds the hash compared",
                next,
                Worker::Collect(Arc::clone(part)),
            );
        }
        match at.step(&mut next, &None) {
            Err(wrong) => self.wrong("compares", wrong),
            Ok((_, Went::Waits)) => {}
            Ok((what, Went::On(at))) => {
                self.to(what, next, Worker::Reconcile(Arc::clone(part), at))
            }
            Ok((what, Went::Brought(_))) => self.to(what, next, Worker::Collect(Arc::clone(part))),
        }
    }

    /// The transaction, and the same transaction with a row that the database rejects.
    fn commit(&mut self, batch: &Batch) {
        let rows = &batch.rows.rows;
        if rows.is_empty() {
            let landed = landed(batch, &[], batch.collected.landed);
            return self.to(
                "has nothing to commit",
                self.world.clone(),
                Worker::Settle(Arc::new(landed)),
            );
        }
        self.commit_but(batch, &[]);
        if self.world.left.refusals == 0 {
            return;
        }
        let is_here = |field: &Field| rows.iter().any(|row| row.field == *field);
        let all = fields(self.bounds.fields);
        let all: Vec<Field> = all.into_iter().filter(is_here).collect();
        // A rejected field keeps all others back (R16), until the owner lands in parts.
        if !broken("R16-torn") {
            self.commit_but(batch, &all);
        }
        if all.len() > 1 && (batch.is_rejected || broken("R16-torn")) {
            for refused in all {
                self.commit_but(batch, &[refused]);
            }
        }
    }

    fn commit_but(&mut self, batch: &Batch, refused: &[Field]) {
        let mut next = self.world.clone();
        let fine: Vec<Row> = batch
            .rows
            .rows
            .iter()
            .filter(|row| !refused.contains(&row.field))
            .cloned()
            .collect();
        let what = if refused.is_empty() {
            "commits"
        } else {
            "is refused a row"
        };
        let fence = fence(&batch.collected, &batch.rows.rows);
        let in_parts = !refused.is_empty() && !broken("R16-torn");
        match commit(&mut next, &fence, &fine, in_parts) {
            Err(wrong) => self.wrong(what, wrong),
            Ok(false) => self.to(
                "is fenced",
                next,
                Worker::Fenced(Arc::new(batch.part.clone())),
            ),
            Ok(true) if broken("R5-early") => self.to(what, next, Worker::Idle),
            Ok(true) => {
                next.left.refusals -= u8::from(!refused.is_empty());
                let reached = if fine.is_empty() {
                    batch.collected.landed
                } else {
                    fence.reaches
                };
                self.to(
                    what,
                    next,
                    Worker::Settle(Arc::new(landed(batch, refused, reached))),
                );
            }
        }
    }
}

/// The snapshot whose marks the part has.
fn known(part: &LandingPart) -> Option<SnapshotId> {
    (!part.replay).then_some(part.snapshot)
}

fn rows(part: &LandingPart, wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let mut rows = marks::rows(wanted, collected);
    if broken("R3-mark-version") {
        for row in &mut rows.rows {
            let names = |entry: &&Entry| {
                entry
                    .mark
                    .as_ref()
                    .is_some_and(|mark| mark.fields.contains(&row.field))
            };
            row.version = part
                .entries
                .iter()
                .filter(names)
                .map(|entry| entry.version)
                .max()
                .unwrap_or(row.version);
        }
    }
    if let Some(version) = collected
        .reads
        .iter()
        .find_map(|read| read.header)
        .map(|header| header.version)
        && broken("R6-null")
    {
        let asked = wanted
            .iter()
            .flat_map(|(owner, fields)| fields.iter().map(|field| (owner.clone(), field.clone())));
        let missing: Vec<_> = asked
            .filter(|(_, field)| !rows.rows.iter().any(|row| row.field == *field))
            .collect();
        rows.births.extend(missing.iter().map(|_| Version::ZERO));
        rows.rows
            .extend(missing.into_iter().map(|(owner, field)| Row {
                owner,
                field,
                cell: Cell::Removed(Bytes::new()),
                version,
            }));
    }
    rows
}

fn landed(batch: &Batch, refused: &[Field], reached: Version) -> Landed {
    let key = |row: &Row| (row.owner.clone(), row.field.clone());
    let rows = &batch.rows.rows;
    Landed {
        batch: batch.clone(),
        refused: rows
            .iter()
            .filter(|row| refused.contains(&row.field))
            .map(key)
            .collect(),
        reached,
    }
}
