//! Two operations by the same number of tasks for the same time.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::bench::case::{Processes, Rig, Sample, Side};
use crate::bench::load::{Operation, drive};
use crate::bench::place::{Arena, Place};

/// The number of owners that operations use: those of a busy game server. A multiple of every
/// number of tasks.
pub(super) const OWNERS: usize = 4_096;

/// The same number, except in a smoke test.
pub(super) fn owner_count(arena: &Arena) -> usize {
    arena.scale.pick(256, OWNERS, OWNERS)
}

/// Two operations at one place.
pub(super) struct Pair<A, B> {
    pub(super) place: Place,
    pub(super) ours: A,
    pub(super) baseline: B,
    pub(super) tasks: usize,
    pub(super) time: Duration,
}

impl<A: Operation + Sync, B: Operation + Sync> Pair<A, B> {
    pub(super) fn rig(
        place: Place,
        ours: A,
        baseline: B,
        tasks: usize,
        time: Duration,
    ) -> Box<dyn Rig> {
        Box::new(Self {
            place,
            ours,
            baseline,
            tasks,
            time,
        })
    }
}

#[async_trait]
impl<A: Operation + Sync, B: Operation + Sync> Rig for Pair<A, B> {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        match side {
            Side::Ours => drive(&self.ours, self.tasks, self.time).await,
            Side::Baseline => drive(&self.baseline, self.tasks, self.time).await,
        }
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}
