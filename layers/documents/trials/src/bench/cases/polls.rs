//! The statements of polls that wait for a change.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_tests::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use storage_tests::bench::lander::HELD;
use storage_tests::bench::place::{Arena, Place};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::bench::requests;
use crate::bench::served::Served;

/// The time in which all polls have begun to wait.
const BEGIN: Duration = Duration::from_secs(2);

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Polls)
}

struct Polls;

#[async_trait]
impl Case for Polls {
    fn plan(&self) -> Plan {
        Plan {
            name: "idle-polls".to_owned(),
            ours: "statements of the database a second, all clients of it together, while 500 GETs of _changes?since=now&wait=60 wait, no writes, no worker"
                .to_owned(),
            baseline: "the same while one such GET waits".to_owned(),
            figure: Figure::Counted,
            unit: "statements/s",
            goal: Some(Goal { judged: Judged::RatioAtMost, must: 3.0, aim: 1.0 }),
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        Ok(Box::new(PollsRig {
            gateway: Served::gateway(&place).await?,
            polls: arena.scale.pick(20, 500, 500),
            time: Duration::from_secs(arena.scale.pick(1, 10, 20)),
            place,
        }))
    }
}

struct PollsRig {
    place: Place,
    gateway: Served,
    polls: usize,
    time: Duration,
}

impl PollsRig {
    async fn begin(&self, polls: usize) -> Result<Vec<TcpStream>> {
        let poll = requests::get("_changes?since=now&wait=60");
        let mut waiting = Vec::new();
        for _ in 0..polls {
            waiting.push(self.gateway.connect().await?.stream_of(&poll).await?);
        }
        sleep(BEGIN).await;
        Ok(waiting)
    }

    /// The statements that the database has answered.
    async fn statements(&self) -> Result<f64> {
        let status = self
            .place
            .sql("SHOW GLOBAL STATUS LIKE 'Questions'")
            .await?;
        let count = status.split_whitespace().last().context("a number")?;
        Ok(count.parse()?)
    }
}

#[async_trait]
impl Rig for PollsRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.gateway = Served::gateway(&self.place).await?;
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let polls = if side == Side::Ours { self.polls } else { 1 };
        let waiting = self.begin(polls).await?;
        let (begun, before) = (Instant::now(), self.statements().await?);
        sleep(self.time).await;
        let statements = self.statements().await? - before;
        let rate = statements / begun.elapsed().as_secs_f64();
        for poll in &waiting {
            let answered = poll.try_read(&mut [0; 1]).is_ok();
            anyhow::ensure!(!answered, "a poll was answered before its time");
        }
        Ok(Sample::counted(u64::try_from(polls)?, rate))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            gateway: self.gateway.pid(),
            ..self.place.processes()
        }
    }
}
