//! The time of a change on its way to a client of the feed.

use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::StreamExt as _;
use redis::aio::{MultiplexedConnection, PubSubStream};
use storage_tests::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use storage_tests::bench::place::{Arena, Place};
use storage_tests::bench::stats::percentile;

use crate::bench::body::document;
use crate::bench::feed::Feed;
use crate::bench::http::Connection;
use crate::bench::requests;
use crate::bench::served::Served;

const CHANNEL: &str = "plain-events";
const PATH: &str = "guilds/red";

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Told)
}

struct Told;

#[async_trait]
impl Case for Told {
    fn plan(&self) -> Plan {
        Plan {
            name: "event".to_owned(),
            ours: "p99 of the time from the send of a PUT of 1,024 B to the whole event at an SSE client of the same gateway, one after the other, \
                   loopback"
                .to_owned(),
            baseline: "p99 of the time from the send of a Redis PUBLISH of the same bytes to the message at its subscriber".to_owned(),
            figure: Figure::Counted,
            unit: "ms",
            goal: Some(Goal { judged: Judged::ExcessAtMost, must: 5.0, aim: 1.0 }),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let gateway = Served::gateway(&place).await?;
        let client = redis::Client::open(place.redis.url())?;
        let mut subscriber = client.get_async_pubsub().await?;
        subscriber.subscribe(CHANNEL).await?;
        Ok(Box::new(ToldRig {
            writer: gateway.connect().await?,
            feed: Feed::open(&gateway, "guilds/").await?,
            put: requests::put(PATH, &document(0)),
            publisher: place.plain().await?,
            messages: subscriber.into_on_message(),
            events: arena.scale.pick(5, 200, 1_000),
            gateway,
            place,
        }))
    }
}

struct ToldRig {
    place: Place,
    gateway: Served,
    writer: Connection,
    feed: Feed,
    put: Vec<u8>,
    publisher: MultiplexedConnection,
    messages: PubSubStream,
    events: usize,
}

impl ToldRig {
    /// Writes, and waits for the answer and for the event. Returns the moment of the event.
    async fn event(&mut self) -> Result<Instant> {
        let event = async {
            self.feed.change().await?;
            Ok(Instant::now())
        };
        let (event, ()) = tokio::try_join!(event, self.writer.call(&self.put))?;
        Ok(event)
    }

    /// Publishes, and waits for the answer and for the message. Returns the moment of the message.
    async fn message(&mut self, body: &str) -> Result<Instant> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(CHANNEL).arg(body);
        let message = async {
            self.messages
                .next()
                .await
                .context("the subscription ended")?;
            anyhow::Ok(Instant::now())
        };
        let publish = async {
            let sent = publish.query_async::<u64>(&mut self.publisher).await;
            anyhow::Ok(sent?)
        };
        let (message, _) = tokio::try_join!(message, publish)?;
        Ok(message)
    }
}

#[async_trait]
impl Rig for ToldRig {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let (begun, body, mut latencies) = (Instant::now(), document(0), Vec::new());
        for _ in 0..self.events {
            let begun = Instant::now();
            let told = match side {
                Side::Ours => self.event().await?,
                Side::Baseline => self.message(&body).await?,
            };
            latencies.push(u32::try_from((told - begun).as_nanos())?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        latencies.sort_unstable();
        let slow = percentile(&latencies, 99).context("no events")?;
        Ok(Sample {
            operations: u64::try_from(self.events)?,
            seconds,
            latencies,
            counted: f64::from(slow) / 1e6,
        })
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            gateway: self.gateway.pid(),
            ..self.place.processes()
        }
    }
}
