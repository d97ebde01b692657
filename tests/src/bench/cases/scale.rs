//! What the number of owners costs: the same work among few and among many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;

use super::at_most;
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::fill::{Fill, fill};
use crate::bench::lander::{HELD, Landers};
use crate::bench::load::{Operation, drive};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

const TASKS: usize = 64;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Work::Update), Box::new(Work::Landing), Box::new(Work::Idle)]
}

/// What is done among few and among many owners.
#[derive(Debug, Clone, Copy)]
enum Work {
    Update,
    Landing,
    Idle,
}

/// A place with so many owners, all of them landed and still in Redis.
struct World {
    place: Place,
    landers: Landers,
    owners: usize,
    written: usize,
    round: u64,
}

impl World {
    async fn open(arena: &Arena, owners: usize) -> Result<Self> {
        let place = arena.place_with(HELD).await?;
        let mut landers = Landers::start(&place, 1).await?;
        fill(&place, "o", owners, &fields(1, 64, 0)).await?;
        landers.landed().await?;
        Ok(Self { place, landers, owners, written: 0, round: 0 })
    }
}

/// An update of another owner each time, all over the world.
#[derive(Clone)]
struct Scattered {
    fill: Arc<Fill>,
    owners: usize,
    from: usize,
}

impl Operation for Scattered {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        self.fill.write(std::iter::once((self.from + turn) % self.owners)).await
    }
}

struct ScaleRig {
    work: Work,
    few: World,
    many: World,
    time: Duration,
    rows: usize,
}

#[async_trait]
impl Case for Work {
    fn plan(&self) -> Plan {
        let (name, what, unit) = match self {
            Self::Update => ("owners-update", "CPU of client, Redis and database for an update of 64 B, 64 tasks", "µs/update"),
            Self::Landing => ("owners-landing", "CPU of worker, Redis and database for a landed row of 64 B", "µs/row"),
            Self::Idle => ("owners-idle", "CPU of an idle worker (interval 50 ms) and Redis", "µs/ms"),
        };
        Plan {
            name: name.to_owned(),
            ours: format!("{what}, among 10,000,000 owners (100,000 in a quick run)"),
            baseline: "the same among 10,000".to_owned(),
            figure: Figure::AllMicros,
            unit,
            goal: at_most(1.25, 1.05),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let few = World::open(arena, arena.scale.pick(200, 10_000, 10_000)).await?;
        let many = World::open(arena, arena.scale.pick(600, 100_000, 10_000_000)).await?;
        let time = match self {
            Self::Idle => Duration::from_millis(arena.scale.pick(120, 500, 5_000)),
            Self::Update | Self::Landing => arena.scale.slice(),
        };
        Ok(Box::new(ScaleRig { work: *self, few, many, time, rows: arena.scale.pick(100, 5_000, 10_000) }))
    }
}

impl ScaleRig {
    fn world(&self, side: Side) -> &World {
        if side == Side::Ours { &self.many } else { &self.few }
    }
}

#[async_trait]
impl Rig for ScaleRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        // The other world's worker would only be in the way.
        self.few.landers.hold().await?;
        self.many.landers.hold().await?;
        let (work, rows) = (self.work, self.rows);
        let world = if side == Side::Ours { &mut self.many } else { &mut self.few };
        world.round += 1;
        match work {
            Work::Update => {}
            Work::Landing => {
                let fill = Fill::new(&world.place, "o", world.owners, &fields(1, 64, world.round))?;
                for number in (world.written..world.written + rows).step_by(100) {
                    fill.write((number..number + 100).map(|number| number % world.owners)).await?;
                }
                world.written += rows;
                world.landers.rested().await;
            }
            Work::Idle => world.landers.let_go()?,
        }
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let (work, time, rows) = (self.work, self.time, self.rows);
        let world = if side == Side::Ours { &mut self.many } else { &mut self.few };
        match work {
            Work::Update => {
                let fill = Fill::new(&world.place, "o", world.owners, &fields(1, 64, world.round))?;
                let operation = Scattered { fill: Arc::new(fill), owners: world.owners, from: world.written };
                let sample = drive(&operation, TASKS, time).await?;
                world.written += usize::try_from(sample.operations)?;
                // What was written here must not wait in the next repetition.
                world.landers.let_go()?;
                Ok(sample)
            }
            Work::Landing => {
                let begun = Instant::now();
                world.landers.let_go()?;
                world.landers.landed().await?;
                let seconds = begun.elapsed().as_secs_f64();
                Ok(Sample { operations: u64::try_from(rows)?, seconds, ..Sample::default() })
            }
            Work::Idle => {
                tokio::time::sleep(time).await;
                let operations = u64::try_from(time.as_millis())?;
                Ok(Sample { operations, seconds: time.as_secs_f64(), ..Sample::default() })
            }
        }
    }

    fn processes(&self, side: Side) -> Processes {
        let world = self.world(side);
        Processes { children: world.landers.pids(), ..world.place.processes() }
    }
}
