//! Owners from the memory of a server, beside requests to a bare server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use storage_sdk::Owner;
use storage_shard_read::owners::{LandedOwner, Owners};
use storage_shard_read::{Client, Mode, Schema as _};
use storage_tests::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use storage_tests::bench::lander::Landers;
use storage_tests::bench::load::{Operation, drive};
use storage_tests::bench::place::{Arena, Place, value};

use super::{CALLERS, at_least};
use crate::bench::echo::EchoClient;
use crate::bench::servers::{DEADLINE, ServerProcess, client};

/// The bytes of a value.
const VALUE: usize = 1_024;
/// About the bytes of a request of one owner.
const REQUEST: usize = 64;

/// An owner from memory.
pub(super) fn hit() -> Box<dyn Case> {
    Box::new(Hit)
}

struct Hit;

#[async_trait]
impl Case for Hit {
    fn plan(&self) -> Plan {
        Plan {
            name: "owner-hit".to_owned(),
            ours: format!(
                "calls of one owner with a value of {VALUE} B, in memory, mode One, {CALLERS} callers"
            ),
            baseline: "requests to a bare server of gRPC, with a reply of the same size".to_owned(),
            figure: Figure::Rate,
            unit: "calls/s",
            goal: Some(at_least(0.75, 0.88)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = place.owners("owner", arena.scale.pick(64, 4_096, 4_096))?;
        for owner in &owners {
            owner.update([("v", value(VALUE, 0))]).await?;
        }
        let landers = Landers::start(&place, 1).await?;
        for owner in &owners {
            owner.flush(DEADLINE).await?;
        }
        landers.stop().await?;
        let args = ["--memory".to_owned(), (256_u64 << 20).to_string()];
        let ours = vec![ServerProcess::start(&place, "owners", &args).await?];
        let owners: Arc<[Owner]> = owners.iter().map(|owner| owner.owner().clone()).collect();
        let client: Client<Owners> = client(&ours, Mode::One).await?;
        let found = client
            .get(owners.iter().take(64).cloned())
            .deadline(DEADLINE)
            .await?;
        let (_, one) = found.values.first().context("an owner")?;
        let one: &LandedOwner = one.as_ref().context("the owner has landed")?;
        ensure!(one.size() > VALUE, "its value has {} bytes", one.size());
        let reply = Owners::encode_value(&Some(one.clone())).len() + 64;
        let args = ["--reply".to_owned(), reply.to_string()];
        let bare = ServerProcess::start(&place, "echo", &args).await?;
        Ok(Box::new(HitRig {
            calls: Calls { client, owners },
            echo: Echo(EchoClient::connect(bare.address(), REQUEST).await?),
            ours,
            bare,
            time: arena.scale.slice(),
            place,
        }))
    }
}

#[derive(Clone)]
struct Calls {
    client: Client<Owners>,
    owners: Arc<[Owner]>,
}

impl Operation for Calls {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let owner = self.owners.get(turn % self.owners.len().max(1));
        let owner = owner.context("no owners")?.clone();
        self.client.get([owner]).deadline(DEADLINE).await?;
        Ok(1)
    }
}

#[derive(Clone)]
struct Echo(EchoClient);

impl Operation for Echo {
    async fn run(&mut self, _: usize) -> Result<u64> {
        self.0.ask().await?;
        Ok(1)
    }
}

struct HitRig {
    place: Place,
    ours: Vec<ServerProcess>,
    bare: ServerProcess,
    calls: Calls,
    echo: Echo,
    time: Duration,
}

#[async_trait]
impl Rig for HitRig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        match side {
            Side::Ours => drive(&self.calls, CALLERS, self.time).await,
            Side::Baseline => drive(&self.echo, CALLERS, self.time).await,
        }
    }

    fn processes(&self, side: Side) -> Processes {
        let children = match side {
            Side::Ours => self.ours.iter().filter_map(ServerProcess::pid).collect(),
            Side::Baseline => self.bare.pid().into_iter().collect(),
        };
        Processes {
            children,
            ..self.place.processes()
        }
    }
}
