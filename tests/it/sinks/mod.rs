//! Sinks: every landed event of a partition reaches them in order, at least once (F6).
//!
//! | module | concept |
//! | --- | --- |
//! | `receiver` | receivers that a test can look into and break |
//! | `relay` | the way of events to any sink |
//! | `kinds` | the sinks of the settings: files, streams, web services |
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

mod kinds;
mod receiver;
mod relay;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use storage_landing::Sink;
use storage_model::{Content, Event, Partition, Position, SinkName};
use storage_tests::{Stack, until};

pub(crate) use receiver::Service;

/// A sink under its name.
type Named = (SinkName, Arc<dyn Sink>);

fn named(name: &str, sink: Arc<dyn Sink>) -> Named {
    (name.parse().unwrap(), sink)
}

/// Writes notes of some players in turn: "0", "1" and so on.
pub(crate) async fn write(
    stack: &Stack,
    players: &[&str],
    numbers: std::ops::Range<u32>,
) -> Result<()> {
    for number in numbers {
        for player in players {
            let owner = stack.player(player);
            let text = number.to_string();
            owner.update([("last", &text)]).note(text.clone()).await?;
        }
    }
    Ok(())
}

fn partitions(stack: &Stack) -> Vec<Partition> {
    let count = stack.storage.tiers().hot().partitions.partition_count();
    (0..count).map(Partition).collect()
}

/// All landed events by partition.
async fn landed(stack: &Stack) -> Result<BTreeMap<Partition, Vec<Event>>> {
    let mut all = BTreeMap::new();
    for partition in partitions(stack) {
        let cold = stack.storage.tiers().cold();
        let events = cold
            .events
            .events(partition, Position::ZERO, usize::MAX)
            .await?;
        if !events.is_empty() {
            all.insert(partition, events);
        }
    }
    Ok(all)
}

/// Waits until all writes have landed, and the sink has got as far.
pub(crate) async fn caught_up(stack: &Stack, sink: &str) -> Result<()> {
    stack.landed().await?;
    let (sink, all) = (sink.parse::<SinkName>()?, partitions(stack));
    let cold = stack.storage.tiers().cold();
    until("the sink has all events", async || {
        let ends = cold.events.feeds(&all).await?;
        let positions = cold.sinks.sink_positions(&sink, &all).await?;
        let mut pairs = ends.iter().zip(positions);
        Ok(pairs.all(|(ends, position)| ends.last == position))
    })
    .await
}

/// The body of an event as text, or "resync" or "gap".
fn text(event: &Event) -> String {
    match &event.content {
        Content::Note(note) => String::from_utf8_lossy(&note.body).into_owned(),
        Content::Resync { .. } => "resync".to_owned(),
        _ => "gap".to_owned(),
    }
}

fn texts(events: &[Event]) -> Vec<String> {
    events.iter().map(text).collect()
}

/// The bodies of the notes that a service has taken.
pub(crate) fn texts_of(service: &Service) -> Vec<String> {
    let events = service.events();
    let bodies = events.iter().map(|event| event["body"].as_str());
    bodies
        .map(|body| body.unwrap_or_default().to_owned())
        .collect()
}
