//! Redis' memory: of a dirty mark, and of a clean owner beyond its data.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use crate::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::load::count;
use crate::bench::place::{Arena, Place};
use crate::bench::plain::{Command, Plain, fields};

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Memory::Mark), Box::new(Memory::Owner)]
}

#[derive(Debug, Clone, Copy)]
enum Memory {
    Mark,
    Owner,
}

#[async_trait]
impl Case for Memory {
    fn plan(&self) -> Plan {
        let (name, ours, baseline, unit, goal) = match self {
            Self::Mark => (
                "memory-mark",
                "the bytes of the dirty maps for each mark of 1 field, ids of 12 bytes, by MEMORY USAGE",
                "the names of the same owners in sets",
                "B/mark",
                Goal {
                    judged: Judged::OursAtMost,
                    must: 110.0,
                    aim: 80.0,
                },
            ),
            Self::Owner => (
                "memory-owner",
                "the allocation of Redis for each clean owner with 8 fields of 64 B, without remembered operation ids",
                "plain hashes of the same fields under keys as long",
                "B/owner",
                Goal {
                    judged: Judged::ExcessAtMost,
                    must: 220.0,
                    aim: 120.0,
                },
            ),
        };
        Plan {
            name: name.to_owned(),
            ours: ours.to_owned(),
            baseline: baseline.to_owned(),
            figure: Figure::Counted,
            unit,
            goal: Some(goal),
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        let owners = match self {
            Self::Mark => arena.scale.pick(2_000, 50_000, 500_000),
            Self::Owner => arena.scale.pick(2_000, 20_000, 100_000),
        };
        let connection = place.plain().await?;
        Ok(match self {
            Self::Mark => Box::new(MarkRig {
                place,
                connection,
                owners,
            }),
            Self::Owner => {
                let landers = Landers::start(&place, 1).await?;
                Box::new(OwnerRig {
                    place,
                    landers,
                    owners,
                    round: 0,
                })
            }
        })
    }
}

/// The number of members of one SADD.
const AT_ONCE: usize = 1_000;

struct MarkRig {
    place: Place,
    connection: MultiplexedConnection,
    owners: usize,
}

impl MarkRig {
    async fn usage(&mut self, key: &str) -> Result<u64> {
        let mut command = redis::cmd("MEMORY");
        command.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        Ok(command
            .query_async::<Option<u64>>(&mut self.connection)
            .await?
            .unwrap_or_default())
    }

    /// The bytes of each mark of the dirty maps.
    async fn ours(&mut self) -> Result<u64> {
        fill(&self.place, "o", self.owners, &fields(1, 64, 0)).await?;
        let mut bytes = 0;
        for key in self.place.dirty_keys() {
            bytes += self.usage(&key).await?;
        }
        Ok(bytes)
    }

    /// The same owners' names in a set for each partition.
    async fn sets(&mut self) -> Result<u64> {
        let sets = self.place.settings.redis.partitions;
        let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (number, key) in self.place.plain_keys("o", self.owners).iter().enumerate() {
            let name = key.split_once("}:").context("a hash tag")?.1;
            names
                .entry(u64::try_from(number)? % u64::from(sets))
                .or_default()
                .push(name.to_owned());
        }
        for (set, names) in names {
            for names in names.chunks(AT_ONCE) {
                redis::cmd("SADD")
                    .arg(format!("plain-set:{set}"))
                    .arg(names)
                    .query_async::<u64>(&mut self.connection)
                    .await?;
            }
        }
        let mut bytes = 0;
        for set in 0..sets {
            bytes += self.usage(&format!("plain-set:{set}")).await?;
        }
        Ok(bytes)
    }
}

#[async_trait]
impl Rig for MarkRig {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let bytes = match side {
            Side::Ours => self.ours().await?,
            Side::Baseline => self.sets().await?,
        };
        Ok(Sample::counted(
            u64::try_from(self.owners)?,
            bytes as f64 / self.owners as f64,
        ))
    }

    fn processes(&self, _: Side) -> Processes {
        self.place.processes()
    }
}

struct OwnerRig {
    place: Place,
    landers: Landers,
    owners: usize,
    round: u64,
}

const TASKS: usize = 64;

impl OwnerRig {
    /// The allocated memory of Redis, without the ids of the operations of the last two minutes.
    async fn bytes(&self) -> Result<f64> {
        for partition in 0..self.place.settings.redis.partitions {
            for window in 0..2 {
                self.place
                    .redis
                    .call(&["DEL", &format!("bench-ops:{{{partition}}}:{window}")])
                    .await?;
            }
        }
        self.place.redis_bytes().await
    }
}

#[async_trait]
impl Rig for OwnerRig {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    async fn run(&mut self, side: Side) -> Result<Sample> {
        self.round += 1;
        let (series, fields) = (format!("r{}-", self.round), fields(8, 64, 0));
        self.landers.landed().await?;
        let before = self.bytes().await?;
        match side {
            Side::Ours => {
                fill(&self.place, &series, self.owners, &fields).await?;
                self.landers.landed().await?;
            }
            Side::Baseline => {
                let plain =
                    Plain::of_series(&self.place, Command::Hset, &series, self.owners, fields)
                        .await?;
                count(&plain, TASKS, self.owners).await?;
            }
        }
        let grown = self.bytes().await? - before;
        ensure!(grown > 0.0, "Redis' memory did not grow");
        Ok(Sample::counted(
            u64::try_from(self.owners)?,
            grown / self.owners as f64,
        ))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
