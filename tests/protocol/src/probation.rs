//! The steps of a worker with landed marks on probation.

use std::sync::Arc;

use storage_dirty::memory::{marks, probation};
use storage_dirty::{Expire, Map, Probation, Window};
use storage_model::sabotage::broken;

use crate::names::{PARTITION, lock};
use crate::worker::{Worker, Working};

impl Working<'_, '_> {
    /// Lets a window of probation leave. A period later its marks may go, if the database kept its
    /// commits.
    pub(super) fn begin_probation(&mut self) {
        let mut next = self.world.clone();
        let present = next.present();
        let expiring = !marks::scan(&next.hot, Map::Expiring, 0, 1)
            .entries
            .is_empty();
        if (expiring && !next.cold.has_kept() && !broken("H33-hasty"))
            || (!expiring && next.left.windows == 0)
        {
            return;
        }
        match probation::probation(next.hot(), &present, PARTITION, &lock()) {
            Ok(Probation::Leaves(window)) if expiring => {
                self.to("has waited a period", next, Worker::Verify(window))
            }
            Ok(Probation::Leaves(_)) => {
                next.left.windows -= 1;
                next.cold.begin_period();
                self.to("lets a window of probation leave", next, Worker::Idle);
            }
            _ => {}
        }
    }

    pub(super) fn verify(&mut self, window: Window) {
        if self.world.is_prepared(self.bounds) || broken("H33-unasked") {
            let entries = marks::scan(&self.world.hot, Map::Expiring, 0, usize::MAX).entries;
            let expire = Expire {
                partition: PARTITION,
                lock: lock(),
                window,
                entries,
            };
            self.to(
                "finds the same database",
                self.world.clone(),
                Worker::Expire(Arc::new(expire)),
            );
        }
    }

    pub(super) fn expire(&mut self, expire: &Expire) {
        let mut next = self.world.clone();
        let present = next.present();
        let what = if probation::expire(next.hot(), &present, expire).is_ok() {
            "ends probation"
        } else {
            "may not end probation"
        };
        self.to(what, next, Worker::Idle);
    }

    pub(super) fn requeue(&mut self) {
        let mut next = self.world.clone();
        let present = next.present();
        for map in [Map::Expiring, Map::Landed] {
            let entries = marks::scan(&next.hot, map, 0, usize::MAX).entries;
            if probation::requeue(next.hot(), &present, PARTITION, &lock(), &entries).is_err() {
                return;
            }
        }
        self.to("makes landed marks live again", next, Worker::Idle);
    }
}
