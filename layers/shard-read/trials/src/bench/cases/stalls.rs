//! A replica that stalls at times, with hedges and without.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use storage_coalesce::locked;
use storage_shard_read::{Client, Mode};
use storage_tests::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use storage_tests::bench::load::{Operation, drive};
use storage_tests::bench::place::{Arena, Place};

use super::at_most;
use crate::bench::blobs::Blobs;
use crate::bench::servers::{DEADLINE, ServerProcess, client};

/// Few callers, so that the machine has room for hedges.
const CALLERS: usize = 8;
/// One of two replicas stalls at each such call.
const STALL_EVERY: usize = 20;

/// The slowest call of a thousand.
pub(super) fn case() -> Box<dyn Case> {
    Box::new(Stalls)
}

struct Stalls;

#[async_trait]
impl Case for Stalls {
    fn plan(&self) -> Plan {
        Plan {
            name: "stalls".to_owned(),
            ours: format!(
                "99.9 % of calls of one key are shorter than this, mode Hedged, {CALLERS} callers, two replicas, of which one stalls for 100 ms in each {STALL_EVERY}th call"
            ),
            baseline: "the same in mode One".to_owned(),
            figure: Figure::Counted,
            unit: "ms",
            goal: Some(at_most(0.25, 0.12)),
            repetitions: Repetitions::Few,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let mut servers = Vec::new();
        for stall_every in [STALL_EVERY, 0] {
            let args = ["--bytes", "32", "--stall-every", &stall_every.to_string()];
            let args = args.map(str::to_owned);
            servers.push(ServerProcess::start(&place, "blobs", &args).await?);
        }
        Ok(Box::new(StallsRig {
            hedged: Calls::of(&servers, Mode::Hedged).await?,
            one: Calls::of(&servers, Mode::One).await?,
            servers,
            time: arena.scale.slice(),
            place,
        }))
    }
}

/// Calls with a pause, as of a game and not of a benchmark of rates. Only the calls are measured.
#[derive(Clone)]
struct Calls {
    client: Client<Blobs>,
    took: Arc<Mutex<Vec<Duration>>>,
}

impl Calls {
    async fn of(servers: &[ServerProcess], mode: Mode) -> Result<Self> {
        Ok(Self {
            client: client(servers, mode).await?,
            took: Arc::default(),
        })
    }
}

const PAUSE: Duration = Duration::from_millis(2);

impl Operation for Calls {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        self.client.get([turn as u64]).deadline(DEADLINE).await?;
        locked(&self.took).push(begun.elapsed());
        Ok(1)
    }
}

struct StallsRig {
    place: Place,
    servers: Vec<ServerProcess>,
    hedged: Calls,
    one: Calls,
    time: Duration,
}

#[async_trait]
impl Rig for StallsRig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let calls = match side {
            Side::Ours => &self.hedged,
            Side::Baseline => &self.one,
        };
        let mut sample = drive(calls, CALLERS, self.time).await?;
        let mut took = std::mem::take(&mut *locked(&calls.took));
        took.sort_unstable();
        let slowest = took.get(took.len().saturating_sub(1) * 999 / 1_000);
        sample.counted = slowest.map_or(0.0, |slowest| slowest.as_secs_f64() * 1e3);
        sample.latencies.clear();
        Ok(sample)
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.servers.iter().filter_map(ServerProcess::pid).collect(),
            ..self.place.processes()
        }
    }
}
