//! The way of events to any sink.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_landing::{Sink, SinkError};
use storage_model::{Event, Partition, Position, SinkName};
use storage_sdk::{Settings, Storage};
use storage_tests::{Stack, World, until};

use super::receiver::{Memory, Silent};
use super::{caught_up, landed, named, texts, write};

/// Landing goes on meanwhile, and the events wait in the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_was_away_gets_every_event_in_order_later() -> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    memory.leave(true);
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    let players = ["ann", "bob", "cay", "dan", "eve"];
    write(&stack, &players, 0..40).await?;
    stack.landed().await?;
    until("the sink was tried in vain", async || {
        let counts = worker.counts();
        Ok(counts.sink_failures >= 2 && counts.sink_lag == 200)
    })
    .await?;
    assert!(memory.taken().is_empty());
    memory.leave(false);
    caught_up(&stack, "a").await?;
    write(&stack, &players, 40..50).await?;
    caught_up(&stack, "a").await?;
    assert_eq!(memory.taken(), landed(&stack).await?);
    until("the lag is gone", async || {
        let counts = worker.counts();
        Ok(counts.sink_lag == 0 && counts.sent == 250)
    })
    .await?;
    worker.stop().await
}

/// The events that the dead worker had sent come again.
#[tokio::test(flavor = "multi_thread")]
async fn events_whose_position_was_not_stored_are_sent_again() -> Result<()> {
    let stack = Stack::open().await?.with_short_locks();
    let memory = Arc::new(Memory::default());
    let silent = Silent::new(memory.clone());
    let worker = stack.worker_with(&[named("a", silent.clone())]);
    write(&stack, &["ann"], 0..5).await?;
    silent.has_passed().await?;
    worker.kill();
    let before = memory.taken();
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    caught_up(&stack, "a").await?;
    assert_eq!(memory.once(), landed(&stack).await?);
    let (partition, sent) = before.first_key_value().unwrap();
    let repeated = memory.taken()[partition].len() - memory.once()[partition].len();
    assert_eq!(repeated, sent.len(), "each of them once more");
    worker.stop().await
}

/// Each is parked alone, with the reason. A reader of the others misses none.
#[tokio::test(flavor = "multi_thread")]
async fn refused_events_are_parked_and_the_others_go_on() -> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    memory.refuse(&["7", "8", "30"]);
    let worker = stack.worker();
    write(&stack, &["ann"], 0..31).await?;
    stack.landed().await?;
    worker.stop().await?;
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    caught_up(&stack, "a").await?;
    let taken = memory.taken();
    let (partition, taken) = taken.first_key_value().unwrap();
    let expected = (0..30).filter(|number| ![7, 8].contains(number));
    let expected: Vec<String> = expected.map(|number| number.to_string()).collect();
    assert_eq!(texts(taken), expected);
    let (name, cold): (SinkName, _) = ("a".parse()?, stack.storage.tiers().cold());
    let parked = cold
        .sinks
        .parked(&name, (Partition(0), Position::ZERO), 9)
        .await?;
    let places: Vec<_> = parked
        .iter()
        .map(|parked| {
            (
                parked.partition,
                parked.position.number,
                parked.message.as_str(),
            )
        })
        .collect();
    let refused = [8, 9, 31].map(|number| (*partition, number, "not this one"));
    assert_eq!(places, refused);
    assert_eq!(worker.counts().parked, 3);
    worker.stop().await
}

/// What refuses every event blames none of them. They come in their order once the sink takes one.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_refuses_every_event_parks_none_and_gets_all_of_them_later() -> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    let all: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    memory.refuse(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    write(&stack, &["ann", "bob", "cid"], 0..40).await?;
    stack.landed().await?;
    until("the sink has refused many times", async || {
        Ok(worker.counts().sink_failures > 5)
    })
    .await?;
    assert_eq!(worker.counts().parked, 0);
    assert!(memory.taken().is_empty());
    memory.refuse(&[]);
    caught_up(&stack, "a").await?;
    assert_eq!(worker.counts().parked, 0);
    for taken in memory.taken().values() {
        let positions: Vec<_> = taken.iter().map(|event| event.position).collect();
        assert!(positions.is_sorted(), "{positions:?}");
    }
    let count: usize = memory.taken().values().map(Vec::len).sum();
    assert_eq!(count, 120);
    worker.stop().await
}

/// A row of bad events at the head ends, too: more of them are tried each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_bad_events_is_parked_once_the_sink_takes_one_behind_it() -> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    memory.refuse(&["0", "1", "2", "3", "4"]);
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    write(&stack, &["ann"], 0..5).await?;
    stack.landed().await?;
    until("the sink waits", async || {
        Ok(worker.counts().sink_failures > 1)
    })
    .await?;
    assert_eq!(worker.counts().parked, 0);
    write(&stack, &["ann"], 5..6).await?;
    caught_up(&stack, "a").await?;
    assert_eq!(worker.counts().parked, 5);
    let taken = memory.taken();
    let (_, taken) = taken.first_key_value().unwrap();
    assert_eq!(texts(taken), ["5"]);
    worker.stop().await
}

/// Events that nobody kept are not skipped silently.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_were_dropped_for_their_age_are_told_as_a_gap() -> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    let worker = stack.worker_with(&[named("a", memory.clone())]);
    let ann = stack.player("ann").partition();
    write(&stack, &["ann"], 0..2).await?;
    caught_up(&stack, "a").await?;
    memory.leave(true);
    write(&stack, &["ann"], 2..9).await?;
    stack.landed().await?;
    let mut dropped = 0;
    while dropped < 5 {
        let cold = stack.storage.tiers().cold();
        dropped += cold
            .events
            .drop_events(ann, Duration::ZERO, 5 - dropped)
            .await?;
    }
    memory.leave(false);
    caught_up(&stack, "a").await?;
    let taken = &memory.taken()[&ann];
    assert_eq!(texts(taken), ["0", "1", "gap", "5", "6", "7", "8"]);
    assert_eq!(taken[2].position.number, 5);
    // A new sink is told that it has missed the beginning. Also if nothing is left of the feed.
    while stack
        .storage
        .tiers()
        .cold()
        .events
        .drop_events(ann, Duration::ZERO, 9)
        .await?
        > 0
        || !landed(&stack).await?.is_empty()
    {}
    worker.stop().await?;
    let late = Arc::new(Memory::default());
    let worker = stack.worker_with(&[named("late", late.clone())]);
    caught_up(&stack, "late").await?;
    assert_eq!(texts(&late.taken()[&ann]), ["gap"]);
    assert_eq!(late.taken()[&ann][0].position.number, 9);
    worker.stop().await
}

/// Workers come and go while events land. Each event arrives, whoever sends it.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_share_the_partitions_send_every_event() -> Result<()> {
    let stack = Stack::open().await?.with_short_locks();
    let memory = Arc::new(Memory::default());
    let sinks = [named("a", memory.clone())];
    let players = ["ann", "bob", "cay", "dan", "eve", "fay"];
    let first = stack.worker_with(&sinks);
    write(&stack, &players, 0..20).await?;
    let second = stack.worker_with(&sinks);
    write(&stack, &players, 20..40).await?;
    until("both workers send", async || {
        write(&stack, &players, 0..1).await?;
        Ok(first.counts().sent > 0 && second.counts().sent > 0)
    })
    .await?;
    first.kill();
    write(&stack, &players, 40..60).await?;
    caught_up(&stack, "a").await?;
    assert_eq!(memory.once(), landed(&stack).await?);
    second.stop().await
}

/// A sink that never answers, and one that panics.
#[derive(Debug)]
struct Broken {
    panics: bool,
}

#[async_trait]
impl Sink for Broken {
    async fn send(&self, _: Partition, _: &[Event]) -> Result<(), SinkError> {
        assert!(!self.panics, "on purpose");
        std::future::pending().await
    }
}

/// The worker gives the last batch some seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_hangs_or_panics_holds_up_neither_landing_nor_other_sinks_nor_the_end()
-> Result<()> {
    let stack = Stack::open().await?;
    let memory = Arc::new(Memory::default());
    let worker = stack.worker_with(&[
        named("hangs", Arc::new(Broken { panics: false })),
        named("panics", Arc::new(Broken { panics: true })),
        named("works", memory.clone()),
    ]);
    write(&stack, &["ann", "bob"], 0..10).await?;
    caught_up(&stack, "works").await?;
    assert_eq!(memory.taken(), landed(&stack).await?);
    until("the panics are counted", async || {
        Ok(worker.counts().panics >= 2)
    })
    .await?;
    worker.stop().await
}

/// A receiver that fails in one partition does not keep the others from their turn.
#[derive(Debug)]
struct Picky {
    not: Partition,
    memory: Memory,
}

#[async_trait]
impl Sink for Picky {
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        if partition == self.not {
            return Err(SinkError::unavailable("not this partition"));
        }
        self.memory.send(partition, events).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_always_fails_does_not_hold_up_the_others() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.backoff_max = Duration::from_millis(100);
    let stack = Stack::with(world).await?;
    let players: Vec<String> = (0..24).map(|id| id.to_string()).collect();
    let players: Vec<&str> = players.iter().map(String::as_str).collect();
    let mut used: Vec<_> = players
        .iter()
        .map(|id| stack.player(id).partition())
        .collect();
    used.sort();
    let picky = Arc::new(Picky {
        not: used[0],
        memory: Memory::default(),
    });
    let worker = stack.worker_with(&[named("a", picky.clone())]);
    write(&stack, &players, 0..3).await?;
    stack.landed().await?;
    let mut expected = landed(&stack).await?;
    expected.remove(&picky.not);
    until("the other partitions arrive", async || {
        Ok(picky.memory.taken() == expected)
    })
    .await?;
    worker.stop().await
}

/// Nobody would serve it.
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_refuses_a_sink_that_nobody_would_serve() -> Result<()> {
    let world = World::fresh().await?;
    let said = async |builder: storage_sdk::StorageBuilder| {
        let error = builder.open().await.unwrap_err();
        assert_eq!(error.kind(), storage_sdk::Kind::Invalid);
        error.to_string()
    };
    let apart = Storage::builder(world.settings).sink("a", Memory::default());
    let message = said(apart).await;
    assert!(
        message.contains("sink a: this storage does not land"),
        "{message}"
    );
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("game.db");
    let settings = Settings::embedded(&database);
    let named = Storage::builder(settings).sink("A", Memory::default());
    let message = said(named).await;
    assert!(message.contains("\"A\" is no name of a sink"), "{message}");
    let text = format!(
        "redis.url = \"memory:\"\nsql.url = \"sqlite:{}\"\nsinks.log = {{ kind = \"file\", dir = \"/nowhere\" }}",
        database.display()
    );
    let settings = Settings::from_toml(&text, "test")?;
    let message = said(Storage::builder(settings)).await;
    assert!(
        message.contains("sinks.log: a storage that lands by itself"),
        "{message}"
    );
    Ok(())
}
