//! A landing worker dies while it holds partitions in which marks wait.

use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use rustix::process::Signal;
use storage_landing::Backlog;
use tokio::time::sleep;

use super::{LOOK, MARKS, plan, sample, within};
use crate::bench::case::{Case, Plan, Processes, Rig, Sample, Side};
use crate::bench::fill::fill;
use crate::bench::lander::{self, DirtyMaps};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;
use crate::torture::children::Running;

const SETTINGS: &str = "[landing]\ninterval = \"50ms\"\nlock_ttl = \"1s\"\n";
/// The worker that dies.
const DOOMED: &str = "doomed";

pub(super) struct Worker;

struct WorkerRig {
    place: Place,
    maps: DirtyMaps,
    doomed: Option<Running>,
    heir: Running,
    round: u64,
}

#[async_trait]
impl Case for Worker {
    fn plan(&self) -> Plan {
        plan(
            "worker",
            "from the death of 1 of 2 workers (SIGKILL, while it holds partitions with marks) until all of 1,000 marks have landed; \
             interval 50 ms, lock_ttl 1 s instead of 10",
            "the lock's time to live",
            1_000.0,
            250.0,
        )
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(SETTINGS).await?;
        let (maps, heir) = (
            DirtyMaps::of(&place).await?,
            lander::worker(&place, "heir")?,
        );
        Ok(Box::new(WorkerRig {
            place,
            maps,
            doomed: None,
            heir,
            round: 0,
        }))
    }
}

impl WorkerRig {
    async fn backlog(&self) -> Result<Backlog> {
        Ok(Backlog::read(self.place.storage.tiers().hot()).await?)
    }

    /// Waits until each worker holds its half of the partitions.
    async fn shared(&self) -> Result<()> {
        loop {
            let partitions = self.backlog().await?.partitions;
            let held = |name| {
                partitions
                    .iter()
                    .filter(|(_, peek)| peek.holder.as_deref() == name)
                    .count()
            };
            if held(None) == 0 && held(Some(DOOMED)) == partitions.len() / 2 {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// Writes until the doomed worker stands still and holds a partition with marks. Stops it
    /// there.
    async fn stop_with_marks(&mut self, doomed: &mut Running) -> Result<()> {
        loop {
            self.round += 1;
            fill(&self.place, "o", MARKS, &fields(1, 64, self.round)).await?;
            // Only a worker that stands still keeps the state that was seen.
            doomed.signal(Signal::STOP)?;
            let backlog = self.backlog().await?;
            let mut held = backlog
                .partitions
                .iter()
                .filter(|(_, peek)| peek.holder.as_deref() == Some(DOOMED));
            if held.any(|(_, peek)| peek.live + peek.snapshot > 0) {
                return Ok(());
            }
            doomed.signal(Signal::CONT)?;
        }
    }
}

#[async_trait]
impl Rig for WorkerRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        if side == Side::Ours {
            self.doomed = Some(lander::worker(&self.place, DOOMED)?);
            within("both workers hold their share", self.shared()).await?;
        }
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        if side == Side::Baseline {
            return Ok(sample(self.place.settings.landing.lock_ttl));
        }
        let mut doomed = self.doomed.take().context("a worker was started")?;
        within(
            "the worker holds a partition with marks",
            self.stop_with_marks(&mut doomed),
        )
        .await?;
        let killed = Instant::now();
        doomed.kill().await?;
        within("the other worker lands the marks", self.maps.empty())
            .await
            .with_context(|| self.heir.tail())?;
        Ok(sample(killed.elapsed()))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.heir.pid().into_iter().collect(),
            ..self.place.processes()
        }
    }
}
