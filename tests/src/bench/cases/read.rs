//! Reads of hot owners, against plain HMGETs.

use anyhow::Result;
use async_trait::async_trait;

use super::at_least;
use super::ours::{Call, Ours};
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use crate::bench::load::count;
use crate::bench::place::Arena;
use crate::bench::plain::{Command, Plain, fields};

const TASKS: usize = 64;

/// A read of this number of fields.
struct Read(usize);

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Read(1)), Box::new(Read(8))]
}

#[async_trait]
impl Case for Read {
    fn plan(&self) -> Plan {
        Plan {
            name: format!("get-{}", self.0),
            ours: format!(
                "get of {} field(s) of 64 B, 64 tasks, 4,096 hot owners, unlanded",
                self.0
            ),
            baseline: "HMGET of the same, one multiplexed connection, 64 tasks, 4,096 keys"
                .to_owned(),
            figure: Figure::Rate,
            unit: "reads/s",
            goal: Some(at_least(0.85, 1.0)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, fields, owners) = (
            arena.place().await?,
            fields(self.0, 64, 0),
            owner_count(arena),
        );
        let ours = Ours::warm(&place, owners, &fields, Call::Get).await?;
        let plain = Plain::new(&place, Command::Hset, owners, fields).await?;
        count(&plain, TASKS, owners).await?;
        Ok(Pair::rig(
            place,
            ours,
            plain.with(Command::Hmget),
            TASKS,
            arena.scale.slice(),
        ))
    }
}
