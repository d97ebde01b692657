//! Events of the hot tier apart from its servers: landings, plain writes, expiry, and a return with
//! older or no data.

use std::sync::Arc;

use storage_dirty::memory::{PartState, holder, lock, marks, partition, session};
use storage_dirty::{Adopt, Claimed, Entry, Lock, Map, Mutated, Refusal, Settle};
use storage_model::{Epoch, Timestamp};

use super::world::{At, Hot, Server, Truth, World, field, holder, number_of};
use super::{Sessions, Take, step};
use crate::names::{LATER, PARTITION, owner};

impl World {
    /// Lands all marked data at once.
    pub(super) fn land(&mut self) -> Option<()> {
        let present = self.present();
        let held = Lock {
            holder: "w".into(),
            token: "w".into(),
        };
        lock::lock(
            self.part(),
            &present,
            &held,
            std::time::Duration::from_secs(1),
        );
        let number = match marks::snapshot(self.part(), &present, PARTITION, &held).ok()? {
            storage_dirty::Snapshot::Empty => return None,
            storage_dirty::Snapshot::Taken(number) | storage_dirty::Snapshot::Leftover(number) => {
                number
            }
        };
        let marks: Vec<Entry> = marks::scan(&self.hot.part, Map::Snapshot, 0, 10).entries;
        let collected =
            marks::collect(&self.hot.part, PARTITION, &[(owner(), vec![field()])], None).ok()?;
        partition::collects(self.part());
        let read = collected.reads.first()?;
        if let Some(header) = read.header {
            let value = read.cells.iter().find_map(|(_, cell)| number_of(cell))?;
            if self.row.is_none_or(|(version, _)| version < header.version) {
                self.row = Some((header.version, value));
            }
            self.last_version = self.last_version.max(collected.reaches);
        }
        let settle = Settle {
            partition: PARTITION,
            lock: Some(held.clone()),
            epoch: collected.epoch,
            snapshot: number,
            landed: self.last_version,
            marks,
            rows: Vec::new(),
            probation: false,
        };
        marks::settle(self.part(), &present, &settle).ok()?;
        lock::unlock(self.part(), &present, &held);
        Some(())
    }

    pub(super) fn adopt(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let seen = partition::partition_state(&self.hot.part);
        let adopt = Adopt {
            partition: PARTITION,
            seen,
            epoch: self.epoch,
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version: self.last_version,
            landed_here: true,
            compare_all: false,
            feed: storage_model::Position::ZERO,
            database: None,
        };
        let present = self.present();
        self.adopted = partition::adopt(self.part(), &present, &adopt);
    }
}

impl Sessions {
    pub(super) fn faults(&self, world: &World, take: Take<'_>) {
        if world.left.failovers > 0 && world.copy.is_none() && world.adopted {
            let mut next = world.clone();
            next.copy = Some(world.hot.clone());
            take(step("replica", 0, "has a copy"), Ok(next));
        }
        let back = |hot: Hot, replaced: u8| {
            let mut hot = hot;
            Arc::make_mut(&mut hot.part).move_to(replaced.to_string().into());
            hot
        };
        if let Some(copy) = &world.copy {
            let mut next = world.clone();
            next.left.failovers -= 1;
            next.replaced += 1;
            next.copy = None;
            next.adopted = false;
            next.hot = back(copy.clone(), next.replaced);
            // The row's value is the present one if the row is newer than the hot tier's data.
            if let Some((version, value)) =
                next.row.filter(|(version, _)| *version > next.stored_hot())
            {
                let _ = version;
                next.hot.truth.value = value;
            }
            take(step("hot tier", 0, "comes back older"), Ok(next));
        }
        if world.left.wipes > 0 && world.adopted {
            let mut next = world.clone();
            next.left.wipes -= 1;
            next.replaced += 1;
            next.copy = None;
            next.adopted = false;
            let value = next.row.map(|(_, value)| value).unwrap_or_default();
            let truth = Truth {
                value,
                ..Truth::default()
            };
            next.hot = Hot {
                part: Arc::new(PartState::new(next.replaced.to_string().into())),
                truth,
            };
            take(step("hot tier", 0, "comes back empty"), Ok(next));
        }
        if !world.adopted {
            let mut next = world.clone();
            next.adopt();
            take(step("worker", 0, "adopts the partition"), Ok(next));
        }
    }

    pub(super) fn others(&self, world: &World, take: Take<'_>) {
        if !world.is_ready() {
            return;
        }
        let mut next = world.clone();
        if next.land().is_some() {
            take(step("worker", 0, "lands"), Ok(next));
        }
        if self.evicts {
            let mut next = world.clone();
            let later = Timestamp(LATER.0);
            next.part().sweep(later);
            if next.hot != world.hot {
                take(step("time", 0, "ends what may expire"), Ok(next));
            }
        }
        if world.left.writes > 0 && world.next_value < self.edits {
            let mut next = world.clone();
            next.left.writes -= 1;
            next.next_value += 1;
            let write = next.mutation(next.next_value, next.hot_epoch());
            match next.mutate(&write) {
                Some(Mutated::Applied(_))
                    if session::session_of(&world.hot.part, &owner())
                        .is_some_and(|held| !held.is_lapsed()) =>
                {
                    take(
                        step("client", 0, "writes"),
                        Err("a plain write of an owner that a session holds is applied".to_owned()),
                    );
                }
                Some(Mutated::Applied(_)) => {
                    next.hot.truth.value = next.next_value;
                    next.hot.truth.wrote = Some((next.hot_epoch(), None));
                    take(step("client", 0, "writes"), Ok(next));
                }
                Some(Mutated::Refused(Refusal::Held(_))) => {}
                other => take(
                    step("client", 0, "writes"),
                    Err(format!("a plain write is answered {other:?}")),
                ),
            }
        }
        for at in 0..world.servers.len() {
            if world.left.lapses == 0 {
                break;
            }
            let mut next = world.clone();
            next.left.lapses -= 1;
            let present = next.present();
            if holder::lapse(next.part(), &present, PARTITION, holder(at), 0)
                .is_ok_and(|lapsed| lapsed > 0)
            {
                take(step("worker", at, "says that the holder is gone"), Ok(next));
            }
        }
        // By then, every session that is awake has claimed, or learned that it is lost.
        let claims = |(at, server): (usize, &Server)| match &server.at {
            At::Open(known) if !server.paused => {
                let mut part = PartState::clone(&world.hot.part);
                let claim = known.claim(at);
                known.epoch == world.hot_epoch()
                    || known.claims
                        && matches!(
                            session::claim(&mut part, PARTITION, &claim),
                            Ok(Claimed::Yes { .. })
                        )
                        && part == *world.hot.part
            }
            // A call ends sooner than a grace.
            At::Opening {
                answer: Some(known),
                ..
            } if !server.paused => known.epoch == world.hot_epoch(),
            _ => true,
        };
        if world.servers.iter().enumerate().all(claims) {
            let mut next = world.clone();
            let Ok(adoption) = holder::adoption(next.part(), PARTITION, "end_grace") else {
                return;
            };
            next.servers
                .iter_mut()
                .for_each(|server| server.missed |= server.paused);
            let ended = holder::end_grace(next.part(), PARTITION, adoption);
            if ended == Ok(true) && next.hot != world.hot {
                take(step("worker", 0, "ends the grace"), Ok(next));
            }
        }
    }
}
