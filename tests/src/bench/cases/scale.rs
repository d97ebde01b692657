//! The cost of a number of owners: the same work among few and among many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;

use super::at_most;
use super::world::{Held, Shared, World};
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::fill::Fill;
use crate::bench::load::{Operation, drive};
use crate::bench::place::Arena;
use crate::bench::plain::fields;

const TASKS: usize = 64;

pub(super) fn cases(worlds: &Shared) -> Vec<Box<dyn Case>> {
    let case = |work| -> Box<dyn Case> {
        Box::new(AmongOwners {
            work,
            worlds: worlds.clone(),
        })
    };
    vec![case(Work::Update), case(Work::Landing), case(Work::Idle)]
}

struct AmongOwners {
    work: Work,
    worlds: Shared,
}

/// The work among few and among many owners.
#[derive(Debug, Clone, Copy)]
enum Work {
    Update,
    Landing,
    Idle,
}

/// An update of another owner each time, across the whole world.
#[derive(Clone)]
struct Scattered {
    fill: Arc<Fill>,
    owners: usize,
    from: usize,
}

impl Operation for Scattered {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        self.fill
            .write(std::iter::once((self.from + turn) % self.owners))
            .await
    }
}

struct ScaleRig {
    work: Work,
    worlds: Held,
    time: Duration,
    rows: usize,
}

#[async_trait]
impl Case for AmongOwners {
    fn plan(&self) -> Plan {
        let (name, what, unit) = match self.work {
            Work::Update => (
                "owners-update",
                "CPU of client, Redis and database for an update of 64 B, 64 tasks",
                "µs/update",
            ),
            Work::Landing => (
                "owners-landing",
                "CPU of worker, Redis and database for a landed row of 64 B",
                "µs/row",
            ),
            Work::Idle => (
                "owners-idle",
                "CPU of an idle worker (interval 50 ms) and Redis",
                "µs/ms",
            ),
        };
        Plan {
            name: name.to_owned(),
            ours: format!("{what}, among 10,000,000 owners (100,000 in a quick run)"),
            baseline: "the same among 10,000".to_owned(),
            figure: Figure::AllMicros,
            unit,
            goal: Some(at_most(1.25, 1.05)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let mut worlds = self.worlds.open(arena).await?;
        worlds.many.landers().await?.landed().await?;
        arena.say(format_args!("{} owners are landed", worlds.many.owners));
        let time = match self.work {
            Work::Idle => Duration::from_millis(arena.scale.pick(120, 500, 3_000)),
            Work::Update | Work::Landing => arena.scale.slice(),
        };
        Ok(Box::new(ScaleRig {
            work: self.work,
            worlds,
            time,
            rows: arena.scale.pick(100, 5_000, 10_000),
        }))
    }
}

impl ScaleRig {
    fn world(&self, side: Side) -> &World {
        if side == Side::Ours {
            &self.worlds.many
        } else {
            &self.worlds.few
        }
    }

    fn world_mut(&mut self, side: Side) -> &mut World {
        if side == Side::Ours {
            &mut self.worlds.many
        } else {
            &mut self.worlds.few
        }
    }
}

#[async_trait]
impl Rig for ScaleRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        // The other world's worker would only take time away.
        self.worlds.few.running()?.hold().await?;
        self.worlds.many.running()?.hold().await?;
        let (work, rows) = (self.work, self.rows);
        let world = self.world_mut(side);
        world.round += 1;
        match work {
            Work::Update => {}
            Work::Landing => {
                let fill = Fill::new(&world.place, "o", world.owners, &fields(1, 64, world.round))?;
                for number in (world.written..world.written + rows).step_by(100) {
                    fill.write((number..number + 100).map(|number| number % world.owners))
                        .await?;
                }
                world.written += rows;
                world.running()?.rested().await;
            }
            Work::Idle => world.running()?.let_go()?,
        }
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let (work, time, rows) = (self.work, self.time, self.rows);
        let world = self.world_mut(side);
        match work {
            Work::Update => {
                let fill = Fill::new(&world.place, "o", world.owners, &fields(1, 64, world.round))?;
                let operation = Scattered {
                    fill: Arc::new(fill),
                    owners: world.owners,
                    from: world.written,
                };
                let sample = drive(&operation, TASKS, time).await?;
                world.written += usize::try_from(sample.operations)?;
                // The writes of this repetition must not wait in the next one.
                world.running()?.let_go()?;
                Ok(sample)
            }
            Work::Landing => {
                let begun = Instant::now();
                let landers = world.running()?;
                landers.let_go()?;
                landers.landed().await?;
                let seconds = begun.elapsed().as_secs_f64();
                Ok(Sample {
                    operations: u64::try_from(rows)?,
                    seconds,
                    ..Sample::default()
                })
            }
            Work::Idle => {
                tokio::time::sleep(time).await;
                let operations = u64::try_from(time.as_millis())?;
                Ok(Sample {
                    operations,
                    seconds: time.as_secs_f64(),
                    ..Sample::default()
                })
            }
        }
    }

    fn processes(&self, side: Side) -> Processes {
        let world = self.world(side);
        Processes {
            children: world.pids(),
            ..world.place.processes()
        }
    }
}
