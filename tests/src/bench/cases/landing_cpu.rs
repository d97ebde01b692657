//! The cost of landing for Redis, against the bare commands that read and clear as many marks.

use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use super::at_most;
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::load::count;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::{Command, Plain, fields};

struct RedisOfLanding;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(RedisOfLanding)]
}

struct MarksRig {
    place: Place,
    landers: Landers,
    connection: MultiplexedConnection,
    keys: Vec<String>,
    marks: usize,
    round: u64,
}

/// The one dirty map of the baseline.
const MAP: &str = "plain-dirty";
/// The number of marks that are read at once, and that are cleared at once.
const PAGE: usize = 1_000;
const CLEARED: usize = 200;

#[async_trait]
impl Case for RedisOfLanding {
    fn plan(&self) -> Plan {
        Plan {
            name: "landing-redis-cpu".to_owned(),
            ours: "Redis' CPU time for landing a mark of 1 field of 64 B: snapshot, scan, read, settle".to_owned(),
            baseline: "the bare commands: HSCAN of 1,000, pipelines of 1,000 HMGETs, HDEL of 200".to_owned(),
            figure: Figure::RedisMicros,
            unit: "µs a mark",
            goal: Some(at_most(2.4, 2.1)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        let marks = arena.scale.pick(200, 20_000, 50_000);
        let plain = Plain::new(&place, Command::Hset, marks, fields(1, 64, 0)).await?;
        count(&plain, 64, marks).await?;
        let (landers, connection) = (Landers::start(&place, 1).await?, place.plain().await?);
        let keys = place.plain_keys("o", marks).to_vec();
        Ok(Box::new(MarksRig {
            place,
            landers,
            connection,
            keys,
            marks,
            round: 0,
        }))
    }
}

/// Marks these keys in the map of the baseline.
pub(super) async fn mark(
    connection: &mut MultiplexedConnection,
    keys: &[String],
    round: u64,
) -> Result<()> {
    for keys in keys.chunks(PAGE) {
        let mut command = redis::cmd("HSET");
        command.arg(MAP);
        for key in keys {
            command.arg(format!("{key}\u{1f}field0")).arg(round);
        }
        command.query_async::<u64>(connection).await?;
    }
    Ok(())
}

/// Reads the marks in the map of the baseline, and clears them.
pub(super) async fn clear(connection: &mut MultiplexedConnection) -> Result<()> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(MAP).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, marks): (u64, Vec<(String, u64)>) = scan.query_async(connection).await?;
        let mut read = redis::Pipeline::with_capacity(marks.len());
        for (mark, _) in &marks {
            read.cmd("HMGET")
                .arg(mark.split('\u{1f}').collect::<Vec<_>>());
        }
        read.query_async::<redis::Value>(connection).await?;
        for marks in marks.chunks(CLEARED) {
            let names: Vec<&str> = marks.iter().map(|(mark, _)| mark.as_str()).collect();
            redis::cmd("HDEL")
                .arg(MAP)
                .arg(names)
                .query_async::<u64>(connection)
                .await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

#[async_trait]
impl Rig for MarksRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        self.landers.hold().await?;
        self.round += 1;
        match side {
            Side::Ours => {
                fill(&self.place, "o", self.marks, &fields(1, 64, self.round)).await?;
                self.landers.rested().await;
                Ok(())
            }
            Side::Baseline => mark(&mut self.connection, &self.keys, self.round).await,
        }
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let begun = Instant::now();
        match side {
            Side::Ours => {
                self.landers.let_go()?;
                self.landers.landed().await?;
            }
            Side::Baseline => clear(&mut self.connection).await?,
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Sample {
            operations: u64::try_from(self.marks)?,
            seconds,
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
