//! The memory of a gateway to which many clients of the feed come back.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::try_join_all;
use serde_json::Value;
use storage_tests::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use storage_tests::bench::cpu::peak;
use storage_tests::bench::lander::Landers;
use storage_tests::bench::place::{Arena, Place, owner_id};

use crate::bench::feed::Feed;
use crate::bench::requests::{self, Requests};
use crate::bench::served::Served;

const MIB: f64 = 1_048_576.0;
/// The bytes of a body.
const BYTES: usize = 4_096;

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Returns)
}

struct Returns;

#[async_trait]
impl Case for Returns {
    fn plan(&self) -> Plan {
        Plan {
            name: "returns-memory".to_owned(),
            ours: "peak of resident memory of a new gateway to which 1,000 clients of the feed come back at the same time, each behind 2,560 events with \
                   bodies of 4 KiB, all landed, and read them all"
                .to_owned(),
            baseline: "the same of another new gateway without clients".to_owned(),
            figure: Figure::Counted,
            unit: "MiB",
            goal: Some(Goal { judged: Judged::ExcessAtMost, must: 128.0, aim: 48.0 }),
            repetitions: Repetitions::Once,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let events = arena.scale.pick(64, 2_560, 2_560);
        let since = written(&place, events).await?;
        Ok(Box::new(ReturnsRig {
            gateway: Served::gateway(&place).await?,
            clients: arena.scale.pick(5, 1_000, 1_000),
            events,
            since,
            place,
        }))
    }
}

/// Writes the events, and waits until they have landed. Returns the place before them.
async fn written(place: &Place, events: usize) -> Result<String> {
    let gateway = std::sync::Arc::new(Served::gateway(place).await?);
    let mut connection = gateway.connect().await?;
    let page = requests::get("_changes?since=now");
    connection.call(&page).await?;
    let page: Value = serde_json::from_slice(connection.body())?;
    let since = page.get("last_seq").and_then(Value::as_str);
    let since = since.context("last_seq")?.to_owned();
    let mut landers = Landers::start(place, 1).await?;
    let body = format!("{:?}", "m".repeat(BYTES - 2));
    let put = |number| requests::put(&owner_id("guilds/", number), &body);
    Requests::open(&gateway, (0..events).map(put))
        .await?
        .send_all()
        .await?;
    landers.landed().await?;
    landers.stop().await?;
    Ok(since)
}

struct ReturnsRig {
    place: Place,
    gateway: Served,
    clients: usize,
    events: usize,
    since: String,
}

impl ReturnsRig {
    /// A client that comes back and reads all that it has missed.
    async fn come_back(&self) -> Result<()> {
        let since = &self.since;
        let mut feed = Feed::open(&self.gateway, &format!("guilds/&since={since}")).await?;
        for _ in 0..self.events {
            feed.change().await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Rig for ReturnsRig {
    async fn prepare(&mut self, _: Side) -> Result<()> {
        self.gateway = Served::gateway(&self.place).await?;
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        let clients = if side == Side::Ours { self.clients } else { 0 };
        try_join_all((0..clients).map(|_| self.come_back())).await?;
        let pid = self.gateway.pid().context("the gateway has ended")?;
        Ok(Sample::counted(
            u64::try_from(self.clients)?,
            peak(pid)? / MIB,
        ))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            gateway: self.gateway.pid(),
            ..self.place.processes()
        }
    }
}
