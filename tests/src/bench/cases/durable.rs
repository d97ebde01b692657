//! Durable writes as a game server sees them: the rate of acknowledged writes while a worker lands
//! them, against a database alone.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use super::at_least;
use super::ours::{Call, Ours};
use super::pair::owner_count;
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::lander::Landers;
use crate::bench::load::drive;
use crate::bench::place::{Arena, Place, owner_id, value};
use crate::bench::plain::fields;
use crate::bench::straight::{PlainRow, Straight};

const TASKS: usize = 64;

struct Durable;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Durable)]
}

struct DurableRig {
    place: Place,
    landers: Landers,
    ours: Ours,
    straight: Straight,
    rows: Arc<Vec<PlainRow>>,
    owners: usize,
    round: u64,
    time: std::time::Duration,
}

#[async_trait]
impl Case for Durable {
    fn plan(&self) -> Plan {
        Plan {
            name: "durable-writes".to_owned(),
            ours: "updates of 1 field of 64 B by 64 tasks over 4,096 owners, with 1 worker beside them that lands each owner once an \
                   interval (default settings)"
                .to_owned(),
            baseline: "prepared upserts of the same rows, one each, flushed at each commit, 16 connections".to_owned(),
            figure: Figure::Rate,
            unit: "writes/s",
            goal: Some(at_least(6.0, 8.0)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = owner_count(arena);
        Ok(Box::new(DurableRig {
            landers: Landers::start(&place, 1).await?,
            ours: Ours::warm(&place, owners, &fields(1, 64, 0), Call::Update).await?,
            straight: Straight::open(&place, 16, 1).await?,
            rows: Arc::default(),
            owners,
            round: 0,
            time: arena.scale.slice() * 4,
            place,
        }))
    }
}

#[async_trait]
impl Rig for DurableRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.landers.landed().await?;
        self.round += 1;
        let (round, owners) = (self.round, self.owners);
        let row = |number| PlainRow {
            owner_id: owner_id("o", number),
            value: value(64, round),
            version: round,
        };
        self.rows = Arc::new((0..owners).map(row).collect());
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        match side {
            // At most one write of each owner has not landed by then.
            Side::Ours => drive(&self.ours, TASKS, self.time).await,
            Side::Baseline => self.straight.upsert(&self.rows).await,
        }
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
