//! Landing workers, in the steps of the real one. They share a lock, so that nothing keeps them from overlapping.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use storage_dirty::memory::{Present, landing, lock as lease, park, probation, read, record};
use storage_dirty::{Acquit, Collected, Entry, Map, Mark, Park, Probation, Settle, Snapshot, Window};
use storage_landing::batch::{self, Faults, Part, Rows};
use storage_landing::tiers::{Need, need};
use storage_model::sabotage::broken;
use storage_model::{Bytes, Cell, Field, Owner, Row, Timestamp, Version};
use storage_sql::Fence;

use super::bounds::Bounds;
use super::load::{Loading, Went};
use super::names::{PARTITION, PRESENT, lock};
use super::world::World;
use super::{Take, step};

/// What a worker is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Scan,
    Collect(Arc<Part>),
    Heal(Arc<Part>, Loading),
    /// Only where value and version are read apart.
    Version(Arc<Batch>),
    /// Only where marks are settled before the commit.
    Early(Arc<Batch>),
    Commit(Arc<Batch>),
    Prove(Arc<Landed>),
    Settle(Arc<Landed>),
    Park(Arc<Park>),
    /// The marks of this window have been on probation for long enough, if the database is still the same.
    Verify(Window),
    Acquit(Arc<Acquit>),
}

/// What was read of marked fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    pub(super) part: Part,
    pub(super) collected: Collected,
    pub(super) rows: Rows,
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Landed {
    batch: Batch,
    versions: BTreeMap<(Owner, Field), Version>,
    refused: Vec<(Owner, Field)>,
    reached: Version,
}

/// All that workers can do next.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    let idle = world.workers.iter().position(|worker| *worker == Worker::Idle);
    for (at, worker) in world.workers.iter().enumerate() {
        // All idle workers are alike.
        if *worker == Worker::Idle && idle != Some(at) {
            continue;
        }
        let mut worker = Working { bounds, world, at, take: &mut *take };
        worker.step();
    }
    for (at, worker) in world.workers.iter().enumerate() {
        if *worker != Worker::Idle && world.left.crashes > 0 {
            let mut next = world.clone();
            next.left.crashes -= 1;
            next.workers[at] = Worker::Idle;
            take(step("worker", at, "stops anywhere"), Ok(next));
        }
    }
}

/// One worker's next step.
struct Working<'a, 'b> {
    bounds: &'a Bounds,
    world: &'a World,
    at: usize,
    take: Take<'b>,
}

impl Working<'_, '_> {
    fn step(&mut self) {
        match &self.world.workers[self.at] {
            Worker::Idle => self.begin(),
            Worker::Scan => self.scan(),
            Worker::Collect(part) => self.collect(part),
            Worker::Heal(part, at) => self.heal(part, at),
            Worker::Version(batch) => self.versions(batch),
            Worker::Early(batch) => self.early(batch),
            Worker::Commit(batch) => self.commit(batch),
            Worker::Prove(landed) => self.prove(landed),
            Worker::Settle(landed) => self.settle(landed),
            Worker::Park(parked) => self.park(parked),
            Worker::Verify(window) => self.verify(*window),
            Worker::Acquit(acquit) => self.acquit(acquit),
        }
    }

    fn to(&mut self, what: &'static str, mut world: World, worker: Worker) {
        world.workers[self.at] = worker;
        (self.take)(step("worker", self.at, what), Ok(world));
    }

    fn begin(&mut self) {
        let peek = read::peek(&self.world.hot, &PRESENT);
        let mut next = self.world.clone();
        lease::lock(next.hot(), &PRESENT, &lock(), Duration::from_secs(1));
        if peek.live + peek.snapshot > 0 {
            if broken("R4-overwrite") {
                // What is left over goes, as under a rename.
                settle(&mut next, whole(&self.world.clone(), Version::ZERO));
            }
            match landing::snapshot(next.hot(), &PRESENT, PARTITION, &lock()) {
                Ok(Snapshot::Taken) => self.to("takes a snapshot", next.clone(), Worker::Scan),
                Ok(Snapshot::Leftover) => self.to("finds a snapshot left over", next.clone(), Worker::Scan),
                Ok(Snapshot::Empty) | Err(_) => {}
            }
        }
        match peek.relive {
            true => self.relive(),
            false if peek.probation > 0 => self.begin_probation(),
            false => {}
        }
        if peek.errors > 0 {
            let errors = park::errors(&self.world.hot, 0, usize::MAX).entries;
            let entries = errors.into_iter().filter_map(|error| {
                let (owner, field) = error.target?;
                Some(Entry { raw: error.raw, mark: Some(Mark { owner, fields: vec![field] }), version: error.version })
            });
            let part = Part { partition: PARTITION, entries: entries.collect(), replay: true };
            self.to("tries what was refused", self.world.clone(), Worker::Collect(Arc::new(part)));
        }
    }

    /// A window of probation ends; or a period later its marks may go, if the database kept what it had committed.
    fn begin_probation(&mut self) {
        let mut next = self.world.clone();
        let (present, period) = (Present { now: self.world.windows, ..PRESENT }, Duration::ZERO);
        let leaving = !landing::scan(&self.world.hot, Map::Leaving, 0, 1).entries.is_empty();
        if (leaving && !self.world.cold.has_kept()) || (!leaving && self.world.left.windows == 0) {
            return;
        }
        let ended = probation::probation(next.hot(), &present, PARTITION, &lock(), period);
        match ended {
            Ok(Probation::Ended(window)) if leaving => self.to("waits a period", next, Worker::Verify(window)),
            Ok(Probation::Ended(_)) => {
                next.left.windows -= 1;
                next.windows = Timestamp(next.windows.0 + 1);
                next.cold.begin_period();
                self.to("ends a window", next, Worker::Idle);
            }
            _ => {}
        }
    }

    fn relive(&mut self) {
        let mut next = self.world.clone();
        for map in [Map::Leaving, Map::Landed] {
            let entries = landing::scan(&next.hot, map, 0, usize::MAX).entries;
            if probation::relive(next.hot(), &PRESENT, PARTITION, &lock(), &entries).is_err() {
                return;
            }
        }
        self.to("makes landed marks live again", next, Worker::Idle);
    }

    fn verify(&mut self, window: Window) {
        let state = record::partition_state(&self.world.hot);
        if need(&state, self.world.cold.record, true) == Need::Nothing || broken("H33-unasked") {
            let entries = landing::scan(&self.world.hot, Map::Leaving, 0, usize::MAX).entries;
            let acquit = Acquit { partition: PARTITION, lock: lock(), window, entries };
            self.to("finds the same database", self.world.clone(), Worker::Acquit(Arc::new(acquit)));
        }
    }

    fn acquit(&mut self, acquit: &Acquit) {
        let mut next = self.world.clone();
        let what =
            if probation::acquit(next.hot(), &PRESENT, acquit).is_ok() { "ends probation" } else { "may not end probation" };
        self.to(what, next, Worker::Idle);
    }

    fn scan(&mut self) {
        let page = landing::scan(&self.world.hot, Map::Snapshot, 0, self.bounds.page);
        let part = Part { partition: PARTITION, entries: page.entries, replay: false };
        let group = batch::cut(vec![part], usize::MAX).pop().and_then(|mut group| group.pop());
        let worker = group.map_or(Worker::Idle, |part| Worker::Collect(Arc::new(part)));
        self.to("reads marks", self.world.clone(), worker);
    }

    fn collect(&mut self, part: &Arc<Part>) {
        let wanted = part.wanted();
        let Ok(collected) = landing::collect(&self.world.hot, PARTITION, &wanted) else { return };
        let suspect = collected.reads.iter().any(|read| read.header.is_some_and(|header| header.suspect));
        if suspect && !broken("R14-trusting") {
            return self.to("meets a suspect hash", self.world.clone(), Worker::Heal(Arc::clone(part), Loading::Observe));
        }
        let rows = self.rows(part, &wanted, &collected);
        let batch = Arc::new(Batch { part: (**part).clone(), collected, rows });
        let worker = match batch {
            batch if broken("R3-apart") => Worker::Version(batch),
            batch if broken("R5-early") => Worker::Early(batch),
            batch => Worker::Commit(batch),
        };
        self.to("collects", self.world.clone(), worker);
    }

    fn rows(&self, part: &Part, wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
        let mut rows = batch::rows(wanted, collected);
        let marked = |field: &Field| {
            let marks = part.entries.iter().filter(|entry| entry.mark.as_ref().is_some_and(|mark| mark.fields.contains(field)));
            marks.map(|entry| entry.version).max().unwrap_or_default()
        };
        if broken("R3-mark-version") {
            rows.rows.iter_mut().for_each(|row| row.version = marked(&row.field));
        }
        if broken("R6-null") {
            let missing: Vec<_> = rows.missing.drain(..).collect();
            rows.rows.extend(missing.into_iter().map(|(owner, field)| {
                let version = marked(&field);
                Row { owner, field, cell: Cell::Removed(Bytes::new()), version }
            }));
        }
        rows
    }

    fn heal(&mut self, part: &Arc<Part>, at: &Loading) {
        let mut next = self.world.clone();
        let suspect = self.world.read().header.is_some_and(|header| header.suspect);
        if matches!(at, Loading::Look(_)) && !suspect {
            return self.to("finds the hash compared", next, Worker::Collect(Arc::clone(part)));
        }
        match at.step(&mut next, &None) {
            Err(wrong) => (self.take)(step("worker", self.at, "compares"), Err(wrong)),
            Ok((_, Went::Waits)) => {}
            Ok((what, Went::On(at))) => self.to(what, next, Worker::Heal(Arc::clone(part), at)),
            Ok((what, Went::Brought(_))) => self.to(what, next, Worker::Collect(Arc::clone(part))),
        }
    }

    fn versions(&mut self, batch: &Batch) {
        let Ok(later) = landing::collect(&self.world.hot, PARTITION, &batch.part.wanted()) else { return };
        let mut batch = batch.clone();
        let version = later.reads.iter().find_map(|read| read.header).map(|header| header.version);
        batch.rows.rows.iter_mut().for_each(|row| row.version = version.unwrap_or(row.version));
        self.to("reads the version", self.world.clone(), Worker::Commit(Arc::new(batch)));
    }

    fn early(&mut self, batch: &Arc<Batch>) {
        let mut next = self.world.clone();
        let marks = batch.part.entries.iter().map(|entry| (entry.clone(), entry.version)).collect();
        let Collected { epoch, landed, .. } = batch.collected;
        settle(
            &mut next,
            Settle { partition: PARTITION, lock: Some(lock()), epoch, landed, marks, rows: Vec::new(), probation: false },
        );
        self.to("settles", next, Worker::Commit(Arc::clone(batch)));
    }

    /// The transaction; and the same with a row that the database refuses.
    fn commit(&mut self, batch: &Arc<Batch>) {
        let rows = &batch.rows.rows;
        if rows.is_empty() {
            let landed = landed(batch, &[], Version::ZERO.max(batch.collected.landed));
            return self.to("has nothing to commit", self.world.clone(), Worker::Prove(Arc::new(landed)));
        }
        self.commit_but(batch, &[]);
        if self.world.left.refusals > 0 {
            for refused in super::names::fields(self.bounds.fields) {
                if rows.iter().any(|row| row.field == refused) {
                    self.commit_but(batch, &[refused]);
                }
            }
        }
    }

    fn commit_but(&mut self, batch: &Arc<Batch>, refused: &[Field]) {
        let mut next = self.world.clone();
        let fine: Vec<Row> = batch.rows.rows.iter().filter(|row| !refused.contains(&row.field)).cloned().collect();
        let what = if refused.is_empty() { "commits" } else { "is refused a row" };
        next.left.refusals -= u8::from(!refused.is_empty());
        let fence = fence(&batch.collected, &batch.rows.rows);
        match commit(&mut next, &fence, &fine) {
            Err(wrong) => (self.take)(step("worker", self.at, what), Err(wrong)),
            Ok(false) => self.to("is fenced", next, Worker::Collect(Arc::new(batch.part.clone()))),
            Ok(true) if broken("R5-early") => self.to(what, next, Worker::Idle),
            Ok(true) => {
                let reached = if fine.is_empty() { batch.collected.landed } else { fence.reaches };
                let landed = Arc::new(landed(batch, refused, reached));
                let worker = if batch.rows.missing.is_empty() { Worker::Settle(landed) } else { Worker::Prove(landed) };
                self.to(what, next, worker);
            }
        }
    }

    fn prove(&mut self, landed: &Landed) {
        let mut landed = landed.clone();
        for (owner, field) in landed.batch.rows.missing.clone() {
            if let Some(version) = self.world.cold.version(&field) {
                landed.versions.insert((owner, field), version);
            }
        }
        self.to("looks up what is missing", self.world.clone(), Worker::Settle(Arc::new(landed)));
    }

    fn settle(&mut self, landed: &Landed) {
        let Landed { batch: Batch { part, collected, .. }, versions, refused, reached } = landed;
        let versions = versions.iter().map(|(key, version)| (key.clone(), *version)).collect();
        let faults: Faults = refused.iter().map(|key| (key.clone(), (1_406, "too long".to_owned()))).collect();
        let verdict = batch::judge(part, &versions, &faults);
        let (partition, epoch) = (PARTITION, collected.epoch);
        let second = Duration::from_secs(1);
        let park = Park { partition, lock: lock(), epoch, retry_min: second, retry_max: second, parked: verdict.park };
        let then = if park.parked.is_empty() { Worker::Idle } else { Worker::Park(Arc::new(park)) };
        if verdict.settle.is_empty() && verdict.rows.is_empty() {
            return self.to("has nothing to settle", self.world.clone(), then);
        }
        let mut next = self.world.clone();
        let probation = self.bounds.probation && !broken("H33-off");
        let mut settling = Settle {
            partition,
            lock: Some(lock()),
            epoch,
            landed: *reached,
            marks: verdict.settle,
            rows: verdict.rows,
            probation,
        };
        if broken("R4-whole") {
            settling.marks = whole(&next, Version::ZERO).marks;
        }
        let rows = settling.rows.clone();
        let settled = settle(&mut next, settling);
        let kept = park::errors(&next.hot, 0, usize::MAX).entries.into_iter().find(|error| {
            let of = |(owner, field, version): &(Owner, Field, Version)| {
                error.target.as_ref().is_some_and(|target| (&target.0, &target.1) == (owner, field)) && error.version <= *version
            };
            rows.iter().any(of)
        });
        match kept.filter(|_| settled) {
            Some(error) => {
                let wrong = format!("{:?} was landed at or above the version of its error mark, which stays", error.target);
                (self.take)(step("worker", self.at, "settles"), Err(wrong));
            }
            None if settled => self.to("settles", next, then),
            None => self.to("may not settle", next, Worker::Idle),
        }
    }

    fn park(&mut self, parked: &Park) {
        let mut next = self.world.clone();
        let what = if park::park(next.hot(), &PRESENT, parked).is_ok() { "parks" } else { "may not park" };
        self.to(what, next, Worker::Idle);
    }
}

/// The fence of one batch.
pub(super) fn fence(collected: &Collected, rows: &[Row]) -> Fence {
    let Collected { epoch, landed, database, .. } = *collected;
    let reaches = storage_landing::degrade::reaches(rows.iter()).max(landed);
    Fence { partition: PARTITION, epoch, landed, reaches, database }
}

/// Commits rows; answers whether the fence matched, or what must not be in the database.
pub(super) fn commit(world: &mut World, fence: &Fence, rows: &[Row]) -> Result<bool, String> {
    if rows.is_empty() {
        return Ok(true);
    }
    // A value that was restored stands in the story twice, so the earlier place before is compared with the later one after.
    let before: Vec<_> = world.truth.fields().map(|(field, _)| world.truth.first_place(field, world.cold.cell(field))).collect();
    if !world.cold.land(fence, rows) {
        return Ok(false);
    }
    let after = world.truth.fields().map(|(field, _)| world.truth.place(field, world.cold.cell(field)));
    if before.into_iter().zip(after).any(|(before, after)| after < before) {
        return Err("a landed row regressed".to_owned());
    }
    // After a failover: what only a landing under way still had is there after all.
    for row in world.cold.rows() {
        world.truth.reaches(&row.field, Some(&row.cell));
    }
    Ok(true)
}

fn landed(batch: &Batch, refused: &[Field], reached: Version) -> Landed {
    let key = |row: &Row| (row.owner.clone(), row.field.clone());
    let (bad, fine): (Vec<_>, Vec<_>) = batch.rows.rows.iter().partition(|row| refused.contains(&row.field));
    Landed {
        batch: batch.clone(),
        versions: fine.into_iter().chain(bad.iter().copied()).map(|row| (key(row), row.version)).collect(),
        refused: bad.into_iter().map(key).collect(),
        reached,
    }
}

/// Everything that is in the snapshot, to be settled whatever its version.
pub(super) fn whole(world: &World, landed: Version) -> Settle {
    let entries = landing::scan(&world.hot, Map::Snapshot, 0, usize::MAX).entries;
    let epoch = read::observe(&world.hot, PARTITION, &super::names::owner()).map(|seen| seen.epoch).unwrap_or_default();
    let marks = entries.into_iter().map(|entry| (entry.clone(), entry.version)).collect();
    Settle { partition: PARTITION, lock: Some(lock()), epoch, landed, marks, rows: Vec::new(), probation: false }
}

/// Settles; answers whether it was allowed to.
pub(super) fn settle(world: &mut World, settle: Settle) -> bool {
    landing::settle(world.hot(), &PRESENT, &settle).is_ok()
}
