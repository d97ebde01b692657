//! The delay of writes on their way to the database, at half of the highest landing rate.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::try_join_all;
use storage_landing::Backlog;
use tokio::time::{interval, sleep};

use crate::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use crate::bench::fill::{Fill, fill};
use crate::bench::lander::Landers;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;
use crate::bench::stats::percentile;

/// The interval of writes, and the largest number of writes of one call.
const TICK: Duration = Duration::from_millis(10);
const AT_ONCE: usize = 100;
/// The time between two looks at the age of the oldest unlanded write.
const LOOK: Duration = Duration::from_millis(20);

struct Lag;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Lag)]
}

struct LagRig {
    place: Place,
    landers: Landers,
    fill: Fill,
    owners: usize,
    /// Writes of each tick: half of the number that landed in that time.
    each_tick: usize,
    time: Duration,
}

#[async_trait]
impl Case for Lag {
    fn plan(&self) -> Plan {
        Plan {
            name: "lag".to_owned(),
            ours: "age of the oldest unlanded write, p99 of looks every 20 ms, while updates of 64 B come at half the rate that 1 worker \
                   landed at just before; without the first quarter, in which the worker wakes up"
                .to_owned(),
            baseline: "the landing interval".to_owned(),
            figure: Figure::Counted,
            unit: "ms",
            goal: Some(Goal { judged: Judged::ExcessAtMost, must: 250.0, aim: 50.0 }),
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = arena.scale.pick(500, 20_000, 200_000);
        let mut landers = Landers::start(&place, 1).await?;
        let fields = fields(1, 64, 0);
        fill(&place, "o", owners, &fields).await?;
        landers.hold().await?;
        fill(&place, "o", owners, &fields).await?;
        landers.rested().await;
        let begun = Instant::now();
        landers.let_go()?;
        landers.landed().await?;
        let ticks = begun.elapsed().as_nanos().div_ceil(TICK.as_nanos());
        let each_tick = (owners / usize::try_from(ticks)?.max(1) / 2).max(1);
        let time = Duration::from_millis(arena.scale.pick(300, 3_000, 20_000));
        Ok(Box::new(LagRig {
            fill: Fill::new(&place, "o", owners, &fields)?,
            place,
            landers,
            owners,
            each_tick,
            time,
        }))
    }
}

impl LagRig {
    async fn play(&self) -> Result<u64> {
        let (begun, mut ticks, mut next) = (Instant::now(), interval(TICK), 0);
        while begun.elapsed() < self.time {
            ticks.tick().await;
            let (from, to) = (next, next + self.each_tick);
            let calls = (from..to).step_by(AT_ONCE).map(|at| {
                let numbers = at..(at + AT_ONCE).min(to);
                self.fill.write(numbers.map(|number| number % self.owners))
            });
            try_join_all(calls).await?;
            next = to;
        }
        Ok(u64::try_from(next)?)
    }

    /// Ages in microseconds.
    async fn watch(&self) -> Result<Vec<u32>> {
        let (begun, mut ages) = (Instant::now(), Vec::new());
        sleep(self.time / 4).await;
        while begun.elapsed() < self.time {
            let backlog = Backlog::read(self.place.storage.tiers().hot()).await?;
            ages.push(u32::try_from(
                backlog.oldest().unwrap_or_default().as_micros(),
            )?);
            sleep(LOOK).await;
        }
        ages.sort_unstable();
        Ok(ages)
    }
}

#[async_trait]
impl Rig for LagRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.landers.landed().await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        if side == Side::Baseline {
            return Ok(Sample::counted(
                1,
                self.place.settings.landing.interval.as_secs_f64() * 1e3,
            ));
        }
        let (written, ages) = tokio::try_join!(self.play(), self.watch())?;
        let oldest = percentile(&ages, 99).context("nothing was looked at")?;
        Ok(Sample::counted(written, f64::from(oldest) / 1e3))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
