//! Concurrent misses of different owners, against the same misses one by one.

use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use storage_sdk::ByteOwner;

use super::at_least;
use super::cold::{chill, cold_owners, read_all};
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::place::{Arena, Place};

/// The number of concurrent misses.
const AT_ONCE: usize = 16;

struct HotLoad;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(HotLoad)]
}

struct HotLoadRig {
    place: Place,
    owners: Vec<ByteOwner>,
}

#[async_trait]
impl Case for HotLoad {
    fn plan(&self) -> Plan {
        Plan {
            name: "hot-load".to_owned(),
            ours: "get_all of cold owners with 8 fields of 64 B, 16 different ones at once"
                .to_owned(),
            baseline: "the same owners, one by one".to_owned(),
            figure: Figure::Rate,
            unit: "owners/s",
            goal: Some(at_least(3.5, 5.0)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = cold_owners(&place, arena.scale.pick(2, 20, 100) * AT_ONCE).await?;
        Ok(Box::new(HotLoadRig { place, owners }))
    }
}

#[async_trait]
impl Rig for HotLoadRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        chill(&self.place, &self.owners).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let loads = || self.place.storage.tiers().load_counts().owners;
        let (begun, before, mut latencies) = (Instant::now(), loads(), Vec::new());
        let at_once = if side == Side::Ours { AT_ONCE } else { 1 };
        for owners in self.owners.chunks(at_once) {
            let begun = Instant::now();
            read_all(owners).await?;
            latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        let operations = u64::try_from(self.owners.len())?;
        anyhow::ensure!(loads() - before >= operations, "some owners were hot");
        Ok(Sample {
            operations,
            seconds: begun.elapsed().as_secs_f64(),
            latencies,
            counted: 0.0,
        })
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}
