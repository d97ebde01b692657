//! A worker's memory while it lands a large backlog.

use anyhow::{Context as _, Result};
use async_trait::async_trait;

use super::world::{Held, Shared, World};
use crate::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use crate::bench::cpu::peak_memory;
use crate::bench::place::Arena;

struct BacklogMemory(Shared);

pub(super) fn cases(worlds: &Shared) -> Vec<Box<dyn Case>> {
    vec![Box::new(BacklogMemory(worlds.clone()))]
}

/// Marks of the baseline's backlog.
const FEW: usize = 100;

struct BacklogRig(Held);

#[async_trait]
impl Case for BacklogMemory {
    fn plan(&self) -> Plan {
        Plan {
            name: "worker-memory".to_owned(),
            ours: "the most memory of a worker that lands 10,000,000 marks of 64 B (100,000 in a quick run) that waited for it"
                .to_owned(),
            baseline: "a worker that lands 100".to_owned(),
            figure: Figure::Counted,
            unit: "MiB",
            goal: Some(Goal { judged: Judged::OursAtMost, must: 256.0, aim: 96.0 }),
            repetitions: Repetitions::Once,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        Ok(Box::new(BacklogRig(self.0.open(arena).await?)))
    }
}

impl BacklogRig {
    fn world(&mut self, side: Side) -> (&mut World, usize) {
        match side {
            Side::Ours => {
                let all = self.0.many.owners;
                (&mut self.0.many, all)
            }
            Side::Baseline => (&mut self.0.few, FEW),
        }
    }
}

#[async_trait]
impl Rig for BacklogRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        let (world, marks) = self.world(side);
        world.backlog(marks).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let (world, marks) = self.world(side);
        let landers = world.running()?;
        landers.landed().await?;
        let peak = peak_memory(*landers.pids().first().context("a worker")?)?;
        Ok(Sample::counted(
            u64::try_from(marks)?,
            peak / f64::from(1 << 20),
        ))
    }

    fn processes(&self, side: Side) -> Processes {
        let world = if side == Side::Ours {
            &self.0.many
        } else {
            &self.0.few
        };
        Processes {
            children: world.pids(),
            ..world.place.processes()
        }
    }
}
