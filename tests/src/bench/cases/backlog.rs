//! A worker's memory while it lands a large backlog.

use anyhow::{Context as _, Result};
use async_trait::async_trait;

use crate::bench::case::{Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::cpu::peak_memory;
use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

struct BacklogMemory;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(BacklogMemory)]
}

/// Marks of the baseline's backlog.
const FEW: usize = 100;

struct BacklogRig {
    place: Place,
    /// The worker that lands, or has just landed.
    landers: Option<Landers>,
    marks: usize,
    round: u64,
}

#[async_trait]
impl Case for BacklogMemory {
    fn plan(&self) -> Plan {
        Plan {
            name: "worker-memory".to_owned(),
            ours: "the most memory of a worker that lands 10,000,000 marks of 64 B (200,000 in a quick run) that waited for it"
                .to_owned(),
            baseline: "a worker that lands 100".to_owned(),
            figure: Figure::Counted,
            unit: "MiB",
            goal: Goal { judged: Judged::OursAtMost, must: 256.0, aim: 96.0 },
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        let marks = arena.scale.pick(1_000, 200_000, 10_000_000);
        Ok(Box::new(BacklogRig { place, landers: None, marks, round: 0 }))
    }
}

impl BacklogRig {
    fn marks_of(&self, side: Side) -> usize {
        if side == Side::Ours { self.marks } else { FEW }
    }
}

#[async_trait]
impl Rig for BacklogRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        if let Some(landers) = self.landers.take() {
            landers.stop().await?;
        }
        self.round += 1;
        fill(&self.place, "o", self.marks_of(side), &fields(1, 64, self.round)).await?;
        self.landers = Some(Landers::start(&self.place, 1).await?);
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let landers = self.landers.as_mut().context("a worker was started")?;
        landers.landed().await?;
        let peak = peak_memory(*landers.pids().first().context("a worker")?)?;
        Ok(Sample::counted(u64::try_from(self.marks_of(side))?, peak / f64::from(1 << 20)))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes { children: self.landers.iter().flat_map(Landers::pids).collect(), ..self.place.processes() }
    }
}
