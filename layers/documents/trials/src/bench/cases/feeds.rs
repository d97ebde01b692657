//! The memory of a gateway with many clients of the feed.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_tests::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use storage_tests::bench::cpu::memory;
use storage_tests::bench::place::{Arena, Place};

use crate::bench::body::document;
use crate::bench::feed::Feed;
use crate::bench::requests;
use crate::bench::served::Served;

const MIB: f64 = 1_048_576.0;
/// The writes before the feeds open, so that the gateway has the memory that it needs for them.
const WRITES: usize = 1_000;

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Feeds)
}

struct Feeds;

#[async_trait]
impl Case for Feeds {
    fn plan(&self) -> Plan {
        Plan {
            name: "feeds-memory".to_owned(),
            ours: "resident memory of a new gateway after 1,000 PUTs of 1,024 B, with 1,000 feeds open, each of which was told of one more PUT"
                .to_owned(),
            baseline: "the same of another new gateway without feeds".to_owned(),
            figure: Figure::Counted,
            unit: "MiB",
            goal: Some(Goal { judged: Judged::ExcessAtMost, must: 32.0, aim: 10.0 }),
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        Ok(Box::new(FeedsRig {
            gateway: Served::gateway(&place).await?,
            feeds: arena.scale.pick(20, 1_000, 1_000),
            place,
        }))
    }
}

struct FeedsRig {
    place: Place,
    gateway: Served,
    feeds: usize,
}

impl FeedsRig {
    async fn write(&self, times: usize) -> Result<()> {
        let (mut writer, put) = (
            self.gateway.connect().await?,
            requests::put("guilds/red", &document(0)),
        );
        for _ in 0..times {
            writer.call(&put).await?;
        }
        Ok(())
    }

    /// The resident memory, in MiB.
    fn memory(&self) -> Result<f64> {
        let pid = self.gateway.pid().context("the gateway has ended")?;
        Ok(memory(pid)? / MIB)
    }
}

#[async_trait]
impl Rig for FeedsRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.gateway = Served::gateway(&self.place).await?;
        self.write(WRITES).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let count = if side == Side::Ours { self.feeds } else { 0 };
        let mut feeds = Vec::new();
        for _ in 0..count {
            feeds.push(Feed::open(&self.gateway, "guilds/").await?);
        }
        self.write(1).await?;
        for feed in &mut feeds {
            feed.change().await?;
        }
        Ok(Sample::counted(u64::try_from(self.feeds)?, self.memory()?))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            gateway: self.gateway.pid(),
            ..self.place.processes()
        }
    }
}
