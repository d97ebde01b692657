//! Updates that leave a note in the feed, beside updates without one.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_sdk::{ByteOwner, Bytes};

use super::at_least;
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use crate::bench::load::{Operation, count};
use crate::bench::place::{Arena, Place};

/// How many tasks write at the same time.
struct Notes(usize);

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Notes(64)), Box::new(Notes(1))]
}

/// Updates of a field of 64 B of an owner in each turn.
#[derive(Debug, Clone)]
struct Updates {
    owners: Arc<[ByteOwner]>,
    value: Bytes,
    is_noted: bool,
}

impl Updates {
    /// This number of owners of a series.
    async fn warm(place: &Place, series: &str, owners: usize, is_noted: bool) -> Result<Self> {
        let bytes = place.storage.world("game", "eu")?.bytes();
        let owners: Vec<ByteOwner> = (0..owners)
            .map(|id| bytes.owner("player", format!("{series}{id}")))
            .collect::<Result<_, _>>()?;
        let all = owners.len();
        let updates = Self {
            owners: owners.into(),
            value: Bytes::from(vec![b'x'; 64]),
            is_noted,
        };
        count(&updates, 64.min(all), all).await?;
        Ok(updates)
    }
}

impl Operation for Updates {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let owner = self.owners.get(turn % self.owners.len().max(1));
        let owner = owner.context("no owners")?;
        let write = owner.update([("field0", self.value.clone())]);
        if self.is_noted {
            write.note(self.value.clone()).await?;
        } else {
            write.await?;
        }
        Ok(1)
    }
}

#[async_trait]
impl Case for Notes {
    fn plan(&self) -> Plan {
        let tasks = self.0;
        let plural = if tasks == 1 { "task" } else { "tasks" };
        Plan {
            name: format!("note-{tasks}"),
            ours: format!(
                "update of 1 field of 64 B with a note of 64 B, {tasks} {plural}, unlanded"
            ),
            baseline: format!("the same without a note, {tasks} {plural}"),
            figure: Figure::Rate,
            unit: "updates/s",
            goal: Some(at_least(0.8, 0.9)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, owners) = (arena.place().await?, owner_count(arena));
        let time = arena.scale.slice();
        let noted = Updates::warm(&place, "noted", owners, true).await?;
        let plain = Updates::warm(&place, "plain", owners, false).await?;
        Ok(Pair::rig(place, noted, plain, self.0, time))
    }
}
