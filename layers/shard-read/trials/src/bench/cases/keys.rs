//! Calls of one key and of many, beside requests to bare servers.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_shard_read::{Client, GetReply, GetRequest, Mode, Schema as _, ShardInfo, ShardRange};
use storage_shard_read::{KeyAnswer, StandardWire, State, Wire as _};
use storage_tests::bench::case::{Case, Figure, Plan, Processes, Repetitions, Rig, Sample, Side};
use storage_tests::bench::load::{Operation, drive};
use storage_tests::bench::place::{Arena, Place};

use super::{CALLERS, at_least};
use crate::bench::blobs::Blobs;
use crate::bench::echo::EchoClient;
use crate::bench::servers::{DEADLINE, ServerProcess, client};

/// The bytes of a value.
const VALUE: usize = 32;

/// One key of one server.
pub(super) fn one() -> Box<dyn Case> {
    Box::new(Keys {
        keys: 1,
        servers: 1,
    })
}

/// A hundred keys of four servers.
pub(super) fn hundred() -> Box<dyn Case> {
    Box::new(Keys {
        keys: 100,
        servers: 4,
    })
}

struct Keys {
    keys: usize,
    servers: usize,
}

#[async_trait]
impl Case for Keys {
    fn plan(&self) -> Plan {
        let Self { keys, servers } = self;
        let must = if *servers == 1 {
            at_least(0.80, 0.92)
        } else {
            at_least(0.70, 0.85)
        };
        Plan {
            name: format!("get-{keys}"),
            ours: format!(
                "calls, keys: {keys}, shards: {servers}, values of {VALUE} B, mode One, {CALLERS} callers"
            ),
            baseline: format!(
                "requests to bare servers of gRPC ({servers}, all at once), with messages of the same sizes"
            ),
            figure: Figure::Rate,
            unit: "calls/s",
            goal: Some(must),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let (request, reply) = sizes(self.keys / self.servers);
        let (mut ours, mut bare, mut echoes) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..self.servers {
            let mut args = vec!["--bytes".to_owned(), VALUE.to_string()];
            if self.servers > 1 {
                args.extend(["--quarter".to_owned(), number.to_string()]);
            }
            ours.push(ServerProcess::start(&place, "blobs", &args).await?);
            let args = ["--reply".to_owned(), reply.to_string()];
            let echo = ServerProcess::start(&place, "echo", &args).await?;
            echoes.push(EchoClient::connect(echo.address(), request).await?);
            bare.push(echo);
        }
        Ok(Box::new(KeysRig {
            calls: Calls {
                client: client(&ours, Mode::One).await?,
                keys: self.keys,
            },
            echoes: Echoes(echoes),
            ours,
            bare,
            time: arena.scale.slice(),
            place,
        }))
    }
}

/// The bytes of a request and of its reply, with so many keys.
fn sizes(keys: usize) -> (usize, usize) {
    let mut request = GetRequest::new(Blobs::NAME);
    request.keys = (0..keys as u64)
        .map(|key| Blobs::encode_key(&key))
        .collect();
    let shard = ShardInfo::holding("", State::Serving, ShardRange::ALL, 0);
    let value = KeyAnswer::Value(vec![7; VALUE].into());
    let reply = GetReply::new(shard, Some(vec![value; keys]));
    let (request, reply) = (
        StandardWire::encode_request(&request),
        StandardWire::encode_reply(&reply),
    );
    (request.len(), reply.len())
}

/// Calls of the service. Each has other keys.
#[derive(Clone)]
struct Calls {
    client: Client<Blobs>,
    keys: usize,
}

impl Operation for Calls {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let from = (turn * self.keys) as u64;
        let keys = from..from + self.keys as u64;
        self.client.get(keys).deadline(DEADLINE).await?;
        Ok(1)
    }
}

/// A request to each bare server, all at once.
#[derive(Clone)]
struct Echoes(Vec<EchoClient>);

impl Operation for Echoes {
    async fn run(&mut self, _: usize) -> Result<u64> {
        let asked = self.0.iter_mut().map(EchoClient::ask);
        for reply in futures::future::join_all(asked).await {
            reply?;
        }
        Ok(1)
    }
}

struct KeysRig {
    place: Place,
    ours: Vec<ServerProcess>,
    bare: Vec<ServerProcess>,
    calls: Calls,
    echoes: Echoes,
    time: Duration,
}

#[async_trait]
impl Rig for KeysRig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        match side {
            Side::Ours => drive(&self.calls, CALLERS, self.time).await,
            Side::Baseline => drive(&self.echoes, CALLERS, self.time).await,
        }
    }

    fn processes(&self, side: Side) -> Processes {
        let servers = match side {
            Side::Ours => &self.ours,
            Side::Baseline => &self.bare,
        };
        Processes {
            children: servers.iter().filter_map(ServerProcess::pid).collect(),
            ..self.place.processes()
        }
    }
}
