//! Updates of several owners in one call, against HSETs one by one and in a pipeline.

use anyhow::Result;
use async_trait::async_trait;
use storage_sdk::ByteStorage;

use super::at_least;
use super::ours::{Call, Ours, owner_of};
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Goal, Plan, Repetitions, Rig};
use crate::bench::load::Operation;
use crate::bench::place::Arena;
use crate::bench::plain::{Command, Plain, fields};

/// The number of owners of one call.
const AT_ONCE: usize = 8;
const TASKS: usize = 64;

struct Bulk {
    name: &'static str,
    baseline: &'static str,
    command: Command,
    goal: Goal,
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    let pipeline = Command::HsetPipeline(AT_ONCE);
    vec![
        Box::new(Bulk {
            name: "bulk",
            baseline: "HSET, one a call",
            command: Command::Hset,
            goal: at_least(1.1, 1.6),
        }),
        Box::new(Bulk {
            name: "bulk-pipeline",
            baseline: "pipelines of 8 HSETs",
            command: pipeline,
            goal: at_least(0.5, 0.7),
        }),
    ]
}

/// A bulk for each turn.
#[derive(Clone)]
struct OurBulk {
    storage: ByteStorage,
    ours: Ours,
}

impl Operation for OurBulk {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let mut bulk = self.storage.bulk();
        for number in 0..AT_ONCE {
            bulk = bulk.update(
                owner_of(self.ours.owners(), turn * AT_ONCE + number)?,
                self.ours.fields(),
            );
        }
        for ack in bulk.await {
            ack?;
        }
        Ok(u64::try_from(AT_ONCE)?)
    }
}

#[async_trait]
impl Case for Bulk {
    fn plan(&self) -> Plan {
        Plan {
            name: self.name.to_owned(),
            ours: "bulks of 8 owners, 1 field of 64 B each, 64 tasks, 4,096 owners; per update"
                .to_owned(),
            baseline: format!("{} of the same, 64 tasks; per HSET", self.baseline),
            figure: Figure::Rate,
            unit: "updates/s",
            goal: Some(self.goal),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, fields) = (arena.place().await?, fields(1, 64, 0));
        let ours = Ours::warm(&place, owner_count(arena), &fields, Call::Update).await?;
        let ours = OurBulk {
            storage: place.storage.world("game", "eu")?.bytes(),
            ours,
        };
        let baseline = Plain::new(&place, self.command, owner_count(arena), fields).await?;
        Ok(Pair::rig(place, ours, baseline, TASKS, arena.scale.slice()))
    }
}
