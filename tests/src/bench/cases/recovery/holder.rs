//! A game server dies while it holds an owner that another one waits for.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_sdk::{Autosave, OnConflict, SessionOptions};
use tokio::time::sleep;

use super::{LOOK, plan, sample, within};
use crate::bench::case::{Case, Plan, Processes, Rig, Sample, Side};
use crate::bench::place::{Arena, Place};
use crate::torture::children::Running;

const SETTINGS: &str = "[sessions]\nlease = \"2s\"\n";
const OWNER: &str = "held";

pub(super) struct Holder;

struct HolderRig {
    place: Place,
    holder: Option<Running>,
}

#[async_trait]
impl Case for Holder {
    fn plan(&self) -> Plan {
        plan(
            "holder",
            "from the death of a game server (SIGKILL) that saves a session in a loop until another one, which waits for the owner, has \
             it; lease 2 s instead of 10",
            "the lease and its tenth",
            500.0,
            100.0,
        )
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        Ok(Box::new(HolderRig {
            place: arena.place_with(SETTINGS).await?,
            holder: None,
        }))
    }
}

impl HolderRig {
    async fn held(&self) -> Result<()> {
        let owner = self
            .place
            .storage
            .world("game", "eu")?
            .bytes()
            .owner("count", OWNER)?;
        while owner.held_by().await?.is_none() {
            sleep(LOOK).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Rig for HolderRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        if side == Side::Ours {
            let config = self.place.config.display().to_string();
            let args = ["holder", "--config", &config, "--owner", OWNER].map(str::to_owned);
            self.holder = Some(Running::start(
                &self.place.program,
                &args,
                &[],
                "holder.log",
            )?);
            within("the game server holds the owner", self.held()).await?;
        }
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let lease = self.place.settings.sessions.lease;
        if side == Side::Baseline {
            return Ok(sample(lease + lease / 10));
        }
        let mut holder = self.holder.take().context("a game server was started")?;
        let owner = self
            .place
            .storage
            .world("game", "eu")?
            .bytes()
            .owner("count", OWNER)?;
        let on_conflict = OnConflict::Wait {
            at_most: Duration::from_secs(30),
        };
        let options = SessionOptions::new()
            .on_conflict(on_conflict)
            .autosave(Autosave::Off)
            .within(Duration::from_secs(30));
        // The other server waits and watches the holder for a while before the holder dies.
        let waiting = tokio::spawn(async move { owner.session(options).await });
        sleep(lease / 2).await;
        let killed = Instant::now();
        holder.kill().await?;
        let taken = within("the owner is taken", async { Ok(waiting.await??) }).await?;
        let took = killed.elapsed();
        taken.end().await?;
        Ok(sample(took))
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}
