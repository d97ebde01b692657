//! Hot keys: the number of rows that reach the database when the same owners are written again and
//! again.

use anyhow::Result;
use async_trait::async_trait;
use storage_landing::LandingWorker;
use storage_model::RandomIds;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::at_most;
use super::ours::{Call, Ours};
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::lander::DirtyMaps;
use crate::bench::load::count;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

const OWNERS: usize = 100;
const TASKS: usize = 64;

struct HotKeys;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(HotKeys)]
}

struct HotKeysRig {
    place: Place,
    maps: DirtyMaps,
    ours: Ours,
    increments: usize,
    worker: LandingWorker,
    /// The worker stops when this is dropped.
    _stop: oneshot::Sender<()>,
    _running: JoinHandle<()>,
}

#[async_trait]
impl Case for HotKeys {
    fn plan(&self) -> Plan {
        Plan {
            name: "hot-keys".to_owned(),
            ours: "rows that 1 worker with the default interval writes for increments of 100 owners' fields by 64 tasks (1,000,000 in a \
                   full run, 100,000 in a quick one)"
                .to_owned(),
            baseline: "a row for each increment".to_owned(),
            figure: Figure::Counted,
            unit: "rows",
            goal: Some(at_most(0.01, 0.001)),
            repetitions: Repetitions::Once,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let ours = Ours::warm(&place, OWNERS, &fields(1, 64, 0), Call::Incr).await?;
        let landing = place
            .settings
            .landing
            .clone()
            .with(|landing| landing.worker_name = Some("bench".to_owned()));
        let (tiers, sessions) = (place.storage.tiers().clone(), &place.settings.sessions);
        let worker = LandingWorker::new(tiers, &landing, sessions, &RandomIds);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = worker.clone();
        let running = tokio::spawn(async move { running.run(async { drop(stopped.await) }).await });
        let increments = arena.scale.pick(1_000, 100_000, 1_000_000);
        let maps = DirtyMaps::of(&place).await?;
        Ok(Box::new(HotKeysRig {
            place,
            maps,
            ours,
            increments,
            worker,
            _stop: stop,
            _running: running,
        }))
    }
}

#[async_trait]
impl Rig for HotKeysRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.maps.empty().await
    }

    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let increments = u64::try_from(self.increments)?;
        if side == Side::Baseline {
            return Ok(Sample::counted(increments, increments as f64));
        }
        let before = self.worker.counts().rows;
        count(&self.ours, TASKS, self.increments).await?;
        self.maps.empty().await?;
        Ok(Sample::counted(
            increments,
            (self.worker.counts().rows - before) as f64,
        ))
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}
