//! The feed: every change once and in order, from its write to the database and to its readers
//! (F1 to F5).
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use storage_dirty::Notes;
use storage_landing::notes::beyond;
use storage_model::{Epoch, Owner, Partition};
use storage_sdk::feed::{Content, Cursor, Event, LiveEvent, Note, Position};
use storage_sdk::{ByteOwner, Kind, SaveObject, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, stack, until};

use super::landing::{refuse_rows, sql};

#[derive(Debug, SaveObject, Serialize, Deserialize)]
#[save_object(logic_type = "guild")]
struct Guild {
    #[save_object(owner_id)]
    id: u64,
    name: String,
}

const SOON: Duration = Duration::from_secs(10);

fn note(event: &Event) -> &Note {
    match &event.content {
        Content::Note(note) => note,
        other => panic!("no note: {other:?}"),
    }
}

/// All events that have landed, from the beginning.
async fn landed(storage: &Storage) -> Result<Vec<Event>> {
    let mut changes = storage.changes(Cursor::default());
    let mut all = Vec::new();
    loop {
        let events = changes.try_next().await?;
        if events.is_empty() {
            return Ok(all);
        }
        all.extend(events);
    }
}

/// The events that have landed, as text: owner and body, "resync" or "gap".
async fn told(storage: &Storage) -> Result<Vec<String>> {
    let text = |event: &Event| match &event.content {
        Content::Note(note) => {
            let body = String::from_utf8_lossy(&note.body);
            format!("{} {body}", note.owner.id())
        }
        Content::Resync { owner } => format!("{} resync", owner.id()),
        Content::Gap => "gap".to_owned(),
        other => format!("{other:?}"),
    };
    Ok(landed(storage).await?.iter().map(text).collect())
}

async fn write(owner: &ByteOwner, body: &str) -> Result<Position> {
    let ack = owner.update([("last", body)]).note(body).await?;
    Ok(ack.position().unwrap_or_default())
}

fn assert_in_order(events: &[Event]) {
    let mut last: BTreeMap<_, Position> = BTreeMap::new();
    for event in events {
        let before = last.insert(event.partition, event.position);
        assert!(before.unwrap_or_default() < event.position, "{event:?}");
    }
}

/// A bulk has a note for the write before it, and an object's save has one.
#[tokio::test(flavor = "multi_thread")]
async fn bulks_and_objects_leave_notes() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    let bulk = stack.storage.world("game", "eu")?.bytes().bulk();
    let bulk = bulk.incr(&ann, "gold", 5).note("a gift");
    for result in bulk.update(&bob, [("name", "Bob")]).await {
        result?;
    }
    let guilds = stack.storage.world("game", "eu")?.objects::<Guild>();
    let guild = Guild {
        id: 7,
        name: "Owls".into(),
    };
    guilds.create(&guild).note("founded").await?;
    stack.landed().await?;
    let mut told = told(&stack.storage).await?;
    told.sort();
    assert_eq!(told, ["7 founded", "ann a gift"]);
    worker.stop().await
}

/// Many writers, two workers, and a reader that begins anew at every step.
#[tokio::test(flavor = "multi_thread")]
async fn every_note_lands_once_in_order_and_no_later_than_its_row() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.interval = Duration::from_millis(20);
    let stack = Stack::with(world).await?;
    let workers = [stack.worker(), stack.worker()];
    let writer = async |player: u32| -> Result<()> {
        let owner = stack.player(&player.to_string());
        for number in 1..=50 {
            let gold = owner.incr("gold", 1).note(number.to_string()).await?;
            assert_eq!(gold.value(), number);
            // A write without a note goes between.
            owner.update([("age", number.to_string())]).await?;
        }
        Ok(())
    };
    let writers = futures::future::try_join_all((0..8).map(writer));
    let reader = async {
        let (mut stored, mut events) = (String::new(), Vec::new());
        while events.len() < 8 * 50 {
            let changes = stack.storage.changes(stored.parse()?);
            let mut changes = changes.every(Duration::from_millis(5));
            events.extend(changes.next().await?);
            stored = changes.cursor().to_string();
        }
        Ok::<_, anyhow::Error>(events)
    };
    let (_, events) = tokio::try_join!(writers, reader)?;
    assert_eq!(events.len(), 8 * 50);
    assert_in_order(&events);
    let mut seen: BTreeMap<String, Vec<&Note>> = BTreeMap::new();
    for event in &events {
        let note = note(event);
        seen.entry(note.owner.id().to_owned())
            .or_default()
            .push(note);
    }
    for notes in seen.values() {
        let counters: Vec<i64> = notes
            .iter()
            .flat_map(|note| note.counters.clone())
            .collect();
        assert_eq!(counters, (1..=50).collect::<Vec<_>>());
        assert!(notes.is_sorted_by_key(|note| note.version));
        let bodies = notes.iter().zip(1..);
        assert!(
            bodies
                .clone()
                .all(|(note, number)| note.body == number.to_string())
        );
    }
    for worker in workers {
        worker.stop().await?;
    }
    assert_eq!(landed(&stack.storage).await?.len(), 8 * 50);
    Ok(())
}

/// A reader that is told of a change finds it in the database, also if it was written again since.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_note_finds_its_row() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.interval = Duration::from_millis(10);
    let stack = Stack::with(world).await?;
    let worker = stack.worker();
    let owner = stack.player("ann");
    let writes = async {
        for number in 0..200 {
            write(&owner, &number.to_string()).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let reads = async {
        let mut changes = stack
            .storage
            .changes(Cursor::default())
            .every(Duration::ZERO);
        let mut count = 0;
        while count < 200 {
            for event in changes.next().await? {
                let row = stack
                    .storage
                    .tiers()
                    .cold()
                    .rows
                    .load_newest(owner.owner())
                    .await?;
                let version = row.map(|row| row.version).unwrap_or_default();
                assert!(version >= note(&event).version, "{event:?} {version}");
                count += 1;
            }
        }
        Ok(())
    };
    tokio::try_join!(writes, reads)?;
    worker.stop().await?;
    Ok(())
}

/// Notes that died with Redis are told as such if their rows have landed, and not at all otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_landed_ahead_of_its_lost_note_is_told_by_a_resync() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    let [ann, bob, cay] = ["{g}/ann", "{g}/bob", "{g}/cay"].map(|id| stack.player(id));
    write(&ann, "1").await?;
    write(&bob, "1").await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(told(&stack.storage).await?, ["{g}/ann 1", "{g}/bob 1"]);
    write(&ann, "2").await?;
    write(&bob, "2").await?;
    write(&cay, "1").await?;
    ann.flush(SOON).await?;
    redis.call(&["FLUSHALL"]).await?;
    let last = write(&cay, "3").await?;
    let worker = stack.worker();
    stack.landed().await?;
    let told = told(&stack.storage).await?;
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[..2], ["{g}/ann 1", "{g}/bob 1"]);
    let mut later = told[2..].to_vec();
    later.sort();
    assert_eq!(later, ["{g}/ann resync", "{g}/cay 3"]);
    assert_eq!(last.number, 3, "numbers go on");
    worker.stop().await?;
    Ok(())
}

/// A worker notices by itself that Redis came back older (H105).
#[tokio::test(flavor = "multi_thread")]
async fn a_lead_of_a_partition_that_nobody_uses_is_told() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    write(&ann, "1").await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    redis.call(&["SAVE"]).await?;
    write(&ann, "2").await?;
    ann.flush(SOON).await?;
    redis.kill()?;
    redis.restart().await?;
    let worker = stack.worker();
    until("readers are told", async || {
        Ok(told(&stack.storage).await? == ["ann 1", "ann resync"])
    })
    .await?;
    worker.stop().await
}

/// The rows of the lost notes land before the event that tells of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_somebody_deletes_is_told_as_a_gap() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    write(&ann, "1").await?;
    write(&ann, "2").await?;
    let prefix = &stack.settings.redis.prefix;
    let stream = format!("{prefix}-notes:{{{}}}", ann.partition());
    redis.call(&["DEL", &stream]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(told(&stack.storage).await?, ["gap"]);
    worker.stop().await?;
    write(&ann, "3").await?;
    redis.call(&["DEL", &stream]).await?;
    write(&ann, "4").await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(told(&stack.storage).await?, ["gap", "gap", "ann 4"]);
    worker.stop().await?;
    Ok(())
}

/// A note does not wait for a row that the database refuses, nor do other rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_holds_up_no_note() -> Result<()> {
    let stack = Stack::open().await?;
    refuse_rows(&stack.database, "NEW.field = 'poison'").await?;
    let [ann, bob] = ["{g}/ann", "{g}/bob"].map(|id| stack.player(id));
    ann.update([("poison", "1")]).note("bad").await?;
    write(&bob, "good").await?;
    let worker = stack.worker();
    until("both notes have landed", async || {
        Ok(told(&stack.storage).await? == ["{g}/ann bad", "{g}/bob good"])
    })
    .await?;
    worker.stop().await?;
    Ok(())
}

/// A reader that slept too long learns that it has missed events.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_behind_dropped_events_is_too_old() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    let worker = stack.worker();
    for body in ["1", "2", "3"] {
        write(&ann, body).await?;
        stack.landed().await?;
    }
    let mut changes = stack.storage.changes(Cursor::default());
    let first = changes.try_next().await?;
    let mut cursor = Cursor::default();
    cursor.move_to(first[0].partition, first[0].position);
    let old = "UPDATE landing_event SET landed_at = landed_at - INTERVAL 1 DAY WHERE number < 3";
    sql(&stack.database, old.to_owned()).await?;
    let cold = stack.storage.tiers().cold();
    let hour = Duration::from_secs(3_600);
    assert_eq!(cold.events.drop_events(ann.partition(), hour, 1).await?, 1);
    let told = stack.storage.changes(cursor.clone()).try_next().await?;
    assert_eq!(told.len(), 2, "the reader has read the dropped event");
    assert_eq!(cold.events.drop_events(ann.partition(), hour, 10).await?, 1);
    assert_eq!(cold.events.drop_events(ann.partition(), hour, 10).await?, 0);
    let late = stack.storage.changes(cursor).try_next().await;
    let error = late.unwrap_err();
    assert_eq!(error.kind(), Kind::CursorTooOld, "{error}");
    // A reader without a position begins at what is kept.
    assert_eq!(landed(&stack.storage).await?.len(), 1);
    let end = stack.storage.feed_end().await?;
    assert!(stack.storage.changes(end).try_next().await?.is_empty());
    worker.stop().await?;
    Ok(())
}

/// Notes are read before they land, and a reader that has seen lost ones is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_reader_gets_notes_at_once_and_a_reset_after_a_loss() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    write(&ann, "before").await?;
    let mut live = stack.storage.live([ann.partition()]).await?;
    assert_eq!(live.try_next().await?, []);
    let place = write(&ann, "now").await?;
    let events = live.next().await?;
    let [LiveEvent::Event(event)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.position, &note(event).body[..]),
        (place, &b"now"[..])
    );
    redis.call(&["FLUSHALL"]).await?;
    write(&ann, "after").await?;
    let events = live.next().await?;
    assert_eq!(events.first(), Some(&LiveEvent::Reset(ann.partition())));
    Ok(())
}

/// A worker can land notes and drop them from the hot tier before a live reader looks.
#[tokio::test]
async fn a_live_reader_gets_notes_that_landed_before_it_looked() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    let mut live = stack.storage.live([ann.partition()]).await?;
    let worker = stack.worker();
    let mut places = vec![write(&ann, "1").await?];
    stack.landed().await?;
    places.push(write(&ann, "2").await?);
    stack.landed().await?;
    worker.stop().await?;
    places.push(write(&ann, "3").await?);
    let mut seen = Vec::new();
    for event in live.try_next().await? {
        let LiveEvent::Event(event) = event else {
            panic!("{event:?}")
        };
        seen.push(event.position);
    }
    assert_eq!(seen, places);
    assert_eq!(live.try_next().await?, []);
    Ok(())
}

/// The embedded mode has the same feed.
#[tokio::test]
async fn the_embedded_mode_has_the_feed_and_a_close_lands_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.db");
    let storage = Storage::embedded(&path).await?;
    let bytes = storage.world("game", "eu")?.bytes();
    let owner = bytes.owner("player", "ann")?;
    write(&owner, "1").await?;
    let mut changes = storage.changes(Cursor::default());
    assert_eq!(changes.next().await?.len(), 1);
    let receipt = storage
        .world("game", "eu")?
        .transaction()
        .owner(&owner, |part| part.set("last", "2").note("2"))
        .await?;
    let ack = receipt.of(&owner).map(|one| one.ack().position());
    assert_eq!(ack.flatten().map(|position| position.number), Some(2));
    assert_eq!(storage.close(SOON).await.unlanded, Some(0));
    let storage = Storage::embedded(&path).await?;
    assert_eq!(told(&storage).await?, ["ann 1", "ann 2"]);
    let stored = changes.cursor().to_string();
    let mut again = storage.changes(stored.parse()?);
    assert_eq!(again.try_next().await?.len(), 1);
    storage.close(SOON).await;
    Ok(())
}

/// The events behind 1-2 of a stream that lacks some notes, as their numbers. A gap has a minus.
fn told_behind(gaps_upto: Option<u64>) -> Vec<i64> {
    let event = |number| Event {
        partition: Partition(0),
        position: Position::new(1, number),
        content: Content::Resync {
            owner: Owner::new("game", "eu", "player", "ann").unwrap(),
        },
    };
    let notes = Notes {
        epoch: Epoch(1),
        last: Position::new(1, 9),
        is_resynced: true,
        events: [3, 5, 8].map(event).to_vec(),
        more: false,
    };
    let upto = gaps_upto.map(|number| Position::new(1, number));
    let events = beyond(Partition(0), Position::new(1, 2), &notes, upto);
    let number = |event: &Event| {
        let number = i64::try_from(event.position.number).unwrap();
        match event.content {
            Content::Gap => -number,
            _ => number,
        }
    };
    events.iter().map(number).collect()
}

/// Until then, nothing behind it is told either (F5).
#[test]
fn a_gap_is_told_once_all_rows_before_it_have_landed() {
    assert_eq!(told_behind(None), [3]);
    assert_eq!(told_behind(Some(6)), [3, -4, 5]);
    assert_eq!(told_behind(Some(9)), [3, -4, 5, -7, 8, -9]);
}
