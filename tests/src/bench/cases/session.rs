//! Sessions: a save beside an update of the same bytes, and a start on a cold owner beside its
//! load.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use storage_sdk::{Autosave, ByteOwner, ByteSession, Bytes, OnConflict, SessionOptions};

use super::at_least;
use super::cold::{FIELDS, chill, cold_owners};
use super::ours::{Call, Ours};
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::load::Operation;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

/// Tasks that save, or start sessions.
const TASKS: usize = 64;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(SessionSave), Box::new(SessionStart)]
}

async fn session(owner: &ByteOwner) -> Result<ByteSession> {
    let options = SessionOptions::default()
        .autosave(Autosave::Off)
        .on_conflict(OnConflict::Fail);
    Ok(owner.session(options).await?)
}

/// Sessions of owners, this many at once.
async fn sessions(owners: &[ByteOwner]) -> Result<Vec<ByteSession>> {
    let starts = stream::iter(owners.to_vec()).map(|owner| async move { session(&owner).await });
    starts
        .buffered(TASKS)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect()
}

struct SessionSave;

/// The same field, set and saved in another session in each turn.
#[derive(Debug, Clone)]
struct Saves {
    sessions: Arc<[ByteSession]>,
    value: Bytes,
}

impl Operation for Saves {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let session = self
            .sessions
            .get(turn % self.sessions.len().max(1))
            .context("no sessions")?;
        session.set("f0", self.value.clone())?;
        session.save().await?;
        Ok(1)
    }
}

#[async_trait]
impl Case for SessionSave {
    fn plan(&self) -> Plan {
        Plan {
            name: "session-save".to_owned(),
            ours: format!(
                "set of 1 field of 64 B and save, {TASKS} tasks, 4,096 sessions, unlanded"
            ),
            baseline: format!("update of the same, {TASKS} tasks, 4,096 other owners, unlanded"),
            figure: Figure::Rate,
            unit: "saves/s",
            goal: Some(at_least(0.9, 1.0)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, fields, count) = (arena.place().await?, fields(1, 64, 0), owner_count(arena));
        let sessions = sessions(&place.owners("s", count)?).await?;
        let value = Bytes::from(
            fields
                .iter()
                .next()
                .map(|(_, value)| value.clone())
                .context("no field")?,
        );
        let baseline = Ours::warm(&place, count, &fields, Call::Update).await?;
        Ok(Pair::rig(
            place,
            Saves {
                sessions: sessions.into(),
                value,
            },
            baseline,
            TASKS,
            arena.scale.slice(),
        ))
    }
}

struct SessionStart;

struct StartRig {
    place: Place,
    owners: Vec<ByteOwner>,
    sessions: Vec<ByteSession>,
}

#[async_trait]
impl Case for SessionStart {
    fn plan(&self) -> Plan {
        Plan {
            name: "session-start".to_owned(),
            ours: "start of a session on a cold owner with 8 fields of 64 B, one by one".to_owned(),
            baseline: "get_all of the same owners, cold, one by one".to_owned(),
            figure: Figure::Rate,
            unit: "owners/s",
            goal: Some(at_least(1.0 / 1.2, 1.0 / 1.05)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = cold_owners(&place, arena.scale.pick(16, 200, 1_000)).await?;
        // The first session makes the server known.
        session(&place.owners("first", 1)?.pop().context("no owner")?)
            .await?
            .end()
            .await?;
        Ok(Box::new(StartRig {
            place,
            owners,
            sessions: Vec::new(),
        }))
    }
}

#[async_trait]
impl Rig for StartRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        for session in self.sessions.drain(..) {
            session.end().await?;
        }
        chill(&self.place, &self.owners).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let (begun, mut latencies) = (Instant::now(), Vec::new());
        for owner in &self.owners {
            let begun = Instant::now();
            if side == Side::Ours {
                self.sessions.push(session(owner).await?);
            } else {
                anyhow::ensure!(owner.get_all().await?.len() == FIELDS, "a field is missing");
            }
            latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        let (operations, seconds) = (
            u64::try_from(self.owners.len())?,
            begun.elapsed().as_secs_f64(),
        );
        let whole = self
            .sessions
            .iter()
            .all(|session| session.fields().len() == FIELDS);
        anyhow::ensure!(whole, "a session has not the whole owner");
        Ok(Sample {
            operations,
            seconds,
            latencies,
            counted: 0.0,
        })
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}
