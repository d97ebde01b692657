//! Updates without a condition, against plain HSETs of the same fields, or a script by hand.

use anyhow::Result;
use async_trait::async_trait;

use super::ours::{Call, Ours};
use super::pair::{OWNERS, Pair};
use super::{at_least, at_most};
use crate::bench::case::{Case, Figure, Goal, Plan, Repetitions, Rig};
use crate::bench::place::Arena;
use crate::bench::plain::{Command, Plain, fields};
use crate::bench::plain_script::PlainScript;

/// An update of this number of fields and bytes by this number of tasks.
#[derive(Debug, Clone)]
pub struct Update {
    name: String,
    tasks: usize,
    fields: usize,
    bytes: usize,
    owners: usize,
    without: Without,
    figure: Figure,
    goal: Option<Goal>,
    repetitions: Repetitions,
}

/// The alternative without the storage.
#[derive(Debug, Clone, Copy)]
enum Without {
    Hset,
    Script,
}

impl Update {
    /// A case that is measured by its rate, without a goal.
    #[must_use]
    pub fn point(tasks: usize, fields: usize, bytes: usize, owners: usize) -> Self {
        let name = format!("update-{tasks}x{fields}x{bytes}");
        Self {
            owners,
            repetitions: Repetitions::Point,
            ..Self::new(&name, tasks, fields, bytes, None)
        }
    }

    fn new(
        name: &str,
        tasks: usize,
        fields: usize,
        bytes: usize,
        goal: impl Into<Option<Goal>>,
    ) -> Self {
        let (name, repetitions) = (name.to_owned(), Repetitions::Many);
        Self {
            name,
            tasks,
            fields,
            bytes,
            owners: OWNERS,
            without: Without::Hset,
            figure: Figure::Rate,
            goal: goal.into(),
            repetitions,
        }
    }
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    let redis_micros = Update {
        figure: Figure::RedisMicros,
        ..Update::new("update-redis-cpu", 64, 1, 64, at_most(2.4, 1.6))
    };
    let script = Update {
        without: Without::Script,
        ..Update::new("update-64-script", 64, 1, 64, None)
    };
    vec![
        Box::new(Update::new("update-1-task", 1, 1, 64, at_least(0.8, 1.0))),
        Box::new(Update::new("update-64", 64, 1, 64, at_least(0.38, 0.5))),
        Box::new(script),
        Box::new(Update::new(
            "update-64-1k",
            64,
            1,
            1_024,
            at_least(0.5, 0.65),
        )),
        Box::new(Update::new("update-64-8", 64, 8, 64, at_least(0.45, 0.6))),
        Box::new(Update::new(
            "update-64-8-1k",
            64,
            8,
            1_024,
            at_least(0.6, 0.8),
        )),
        Box::new(Update::new("update-256", 256, 1, 64, at_least(0.6, 0.8))),
        Box::new(Update::new("update-256-8", 256, 8, 64, at_least(0.7, 0.85))),
        Box::new(redis_micros),
    ]
}

#[async_trait]
impl Case for Update {
    fn plan(&self) -> Plan {
        let Self {
            tasks,
            fields,
            bytes,
            owners,
            without,
            figure,
            ..
        } = self;
        let rate = *figure == Figure::Rate;
        let baseline = match without {
            Without::Hset => "HSET of the same",
            Without::Script => {
                "the usual script by hand: one EVALSHA a write with HSET of the same, SET NX of an exist marker and HSET of a dirty entry"
            }
        };
        Plan {
            name: self.name.clone(),
            ours: format!(
                "update of {fields} field(s) of {bytes} B, {tasks} task(s), {owners} owners, unlanded"
            ),
            baseline: format!(
                "{baseline}, one multiplexed connection, {tasks} task(s), {owners} keys"
            ),
            figure: *figure,
            unit: if rate { "updates/s" } else { "µs of Redis" },
            goal: self.goal,
            repetitions: self.repetitions,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, fields) = (arena.place().await?, fields(self.fields, self.bytes, 0));
        let owners = arena
            .scale
            .pick(self.owners.min(256), self.owners, self.owners);
        let ours = Ours::warm(&place, owners, &fields, Call::Update).await?;
        let (tasks, time) = (self.tasks, arena.scale.slice());
        Ok(match self.without {
            Without::Hset => {
                let hset = Plain::new(&place, Command::Hset, owners, fields).await?;
                Pair::rig(place, ours, hset, tasks, time)
            }
            Without::Script => {
                let script = PlainScript::warm(&place, owners, fields).await?;
                Pair::rig(place, ours, script, tasks, time)
            }
        })
    }
}
