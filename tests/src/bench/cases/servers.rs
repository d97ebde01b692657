//! Updates by several game servers at once, against as many processes with plain HSETs.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use futures::future::try_join_all;

use super::pair::owner_count;
use crate::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::place::{Arena, Place};
use crate::bench::server::{Server, TASKS};

/// This number of game servers.
#[derive(Debug, Clone, Copy)]
pub struct Servers(usize);

impl Servers {
    /// A case that is measured by its rate, without a goal.
    #[must_use]
    pub fn point(count: usize) -> Self {
        Self(count)
    }
}

struct ServersRig {
    place: Place,
    servers: Vec<Server>,
    time: Duration,
}

#[async_trait]
impl Case for Servers {
    fn plan(&self) -> Plan {
        let Self(count) = self;
        Plan {
            name: format!("servers-{count}"),
            ours: format!(
                "update of 1 field of 64 B, {count} process(es) of {TASKS} tasks, 4,096 owners each, unlanded"
            ),
            baseline: "HSET of the same, as many processes with one multiplexed connection each"
                .to_owned(),
            figure: Figure::Rate,
            unit: "updates/s",
            goal: None,
            repetitions: Repetitions::Point,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let (place, owners) = (arena.place().await?, owner_count(arena));
        let servers =
            try_join_all((0..self.0).map(|number| Server::start(&place, number, owners))).await?;
        Ok(Box::new(ServersRig {
            place,
            servers,
            time: arena.scale.slice() * 2,
        }))
    }
}

#[async_trait]
impl Rig for ServersRig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let samples = try_join_all(
            self.servers
                .iter_mut()
                .map(|server| server.write(side, self.time)),
        )
        .await?;
        let operations = samples.iter().map(|sample| sample.operations).sum();
        let seconds = samples
            .iter()
            .map(|sample| sample.seconds)
            .fold(0.0, f64::max);
        Ok(Sample {
            operations,
            seconds,
            ..Sample::default()
        })
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.servers.iter().filter_map(Server::pid).collect(),
            ..self.place.processes()
        }
    }
}
