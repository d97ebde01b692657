//! First writes of owners whose changes have landed: alone, and together with their landing.

use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use super::landing_cpu::{clear, mark};
use super::ours::{Call, Ours};
use super::{at_least, at_most};
use crate::bench::case::{Case, Figure, Goal, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::lander::{HELD, Landers};
use crate::bench::load::count;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::{Command, Plain, fields};

/// Each owner is written once, after all earlier writes have landed.
struct Once {
    name: &'static str,
    /// Tasks that write, and those of the baseline.
    tasks: usize,
    plain_tasks: usize,
    /// Whether the writes land in the same measurement.
    lands: bool,
    figure: Figure,
    goal: Goal,
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    let (micros, rate) = (Figure::RedisMicros, Figure::Rate);
    // 128 tasks over 8 partitions are 16 writes for each call.
    let alone = Once {
        name: "clean-redis-cpu",
        tasks: 128,
        plain_tasks: 32,
        lands: false,
        figure: micros,
        goal: at_most(7.0, 6.0),
    };
    let landed = Once {
        name: "once-redis-cpu",
        tasks: 64,
        plain_tasks: 64,
        lands: true,
        figure: micros,
        goal: at_most(4.0, 3.0),
    };
    let first = Once {
        name: "update-64-first",
        tasks: 64,
        plain_tasks: 64,
        lands: false,
        figure: rate,
        goal: at_least(0.2, 0.3),
    };
    vec![Box::new(alone), Box::new(landed), Box::new(first)]
}

struct OnceRig {
    place: Place,
    landers: Landers,
    connection: MultiplexedConnection,
    keys: Vec<String>,
    ours: Ours,
    plain: Plain,
    once: (usize, usize, bool),
    round: u64,
}

#[async_trait]
impl Case for Once {
    fn plan(&self) -> Plan {
        let Self {
            tasks,
            plain_tasks,
            lands,
            figure,
            ..
        } = self;
        let (ours, plain) = if *lands {
            (
                ", then its landing",
                ", then HSCAN, HMGET and HDEL of as many marks",
            )
        } else {
            ("", "")
        };
        Plan {
            name: self.name.to_owned(),
            ours: format!(
                "update of 1 field of 64 B of each of 20,000 owners that have landed, {tasks} tasks{ours}"
            ),
            baseline: format!("HSET of the same, {plain_tasks} tasks{plain}"),
            figure: *figure,
            unit: if *figure == Figure::Rate {
                "updates/s"
            } else {
                "µs of Redis"
            },
            goal: Some(self.goal),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        let (owners, fields) = (arena.scale.pick(200, 20_000, 20_000), fields(1, 64, 0));
        let ours = Ours::warm(&place, owners, &fields, Call::Update).await?;
        let plain = Plain::new(&place, Command::Hset, owners, fields).await?;
        count(&plain, self.plain_tasks, owners).await?;
        let (landers, connection) = (Landers::start(&place, 1).await?, place.plain().await?);
        let keys = place.plain_keys("o", owners).to_vec();
        let once = (self.tasks, self.plain_tasks, self.lands);
        Ok(Box::new(OnceRig {
            place,
            landers,
            connection,
            keys,
            ours,
            plain,
            once,
            round: 0,
        }))
    }
}

#[async_trait]
impl Rig for OnceRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        if self.landers.is_held() {
            self.landers.let_go()?;
        }
        self.landers.hold().await?;
        self.round += 1;
        if side == Side::Baseline && self.once.2 {
            mark(&mut self.connection, &self.keys, self.round).await?;
        }
        self.landers.rested().await;
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let ((tasks, plain_tasks, lands), begun, owners) =
            (self.once, Instant::now(), self.keys.len());
        match side {
            Side::Ours => {
                count(&self.ours, tasks, owners).await?;
                if lands {
                    self.landers.let_go()?;
                    self.landers.landed().await?;
                }
            }
            Side::Baseline => {
                count(&self.plain, plain_tasks, owners).await?;
                if lands {
                    clear(&mut self.connection).await?;
                }
            }
        }
        Ok(Sample {
            operations: u64::try_from(owners)?,
            seconds: begun.elapsed().as_secs_f64(),
            ..Sample::default()
        })
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
