//! Writes with a condition on the present state: update-if-version and incr.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use storage_sdk::Version;

use super::at_least;
use super::ours::{Call, Ours, owner_of};
use super::pair::{Pair, owner_count};
use crate::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use crate::bench::load::{Operation, count};
use crate::bench::place::Arena;
use crate::bench::plain::{Command, Plain, fields};

const TASKS: usize = 64;

enum Condition {
    IfVersion,
    Incr,
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Condition::IfVersion), Box::new(Condition::Incr)]
}

/// Updates under the version of the last one. The number of owners is a multiple of the number of
/// tasks. So only one task writes each owner, and no update conflicts.
#[derive(Clone)]
struct IfVersion {
    ours: Ours,
    versions: Arc<[AtomicU64]>,
}

impl IfVersion {
    async fn new(ours: Ours) -> Result<Self> {
        let mut versions = Vec::new();
        for owner in ours.owners().iter() {
            versions.push(AtomicU64::new(owner.version().await?.get()));
        }
        Ok(Self {
            ours,
            versions: versions.into(),
        })
    }
}

impl Operation for IfVersion {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let owner = owner_of(self.ours.owners(), turn)?;
        let known = self
            .versions
            .get(turn % self.versions.len())
            .context("no versions")?;
        let version = Version::new(known.load(Ordering::Relaxed)).context("a version")?;
        let ack = owner.update(self.ours.fields()).if_version(version).await?;
        known.store(ack.version().get(), Ordering::Relaxed);
        Ok(1)
    }
}

#[async_trait]
impl Case for Condition {
    fn plan(&self) -> Plan {
        let (name, ours, baseline) = match self {
            Self::IfVersion => (
                "update-if-version",
                "update of 1 field of 64 B if the version is the last one",
                "HSET of the same",
            ),
            Self::Incr => ("incr", "incr of a field by 1", "HINCRBY of a field by 1"),
        };
        Plan {
            name: name.to_owned(),
            ours: format!("{ours}, 64 tasks, 4,096 owners, unlanded"),
            baseline: format!("{baseline}, 64 tasks, 4,096 keys"),
            figure: Figure::Rate,
            unit: "writes/s",
            goal: Some(at_least(0.4, 0.55)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, fields, owners) = (arena.place().await?, fields(1, 64, 0), owner_count(arena));
        let ours = Ours::warm(&place, owners, &fields, Call::Update).await?;
        let plain = Plain::new(&place, Command::Hset, owners, fields).await?;
        let time = arena.scale.slice();
        Ok(match self {
            Self::IfVersion => Pair::rig(place, IfVersion::new(ours).await?, plain, TASKS, time),
            Self::Incr => {
                let (ours, plain) = (ours.with(Call::Incr), plain.with(Command::Hincrby));
                // The first increment of an owner asks the database whether it has the field.
                count(&ours, TASKS, owners).await?;
                Pair::rig(place, ours, plain, TASKS, time)
            }
        })
    }
}
