//! The sinks of the settings: files, streams, web services.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::http::StatusCode;
use landing_worker::sinks::{FileSink, StreamSink, Webhook};
use landing_worker::{open, sinks};
use storage_config::{Secret, Settings};
use storage_landing::{Sink, SinkError};
use storage_model::{Content, Event, Partition, Position, SeededIds, Token};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, bounded, until};

use super::receiver::{Service, Silent};
use super::{Named, caught_up, landed, named, text, write};

const PLAYERS: [&str; 5] = ["ann", "bob", "cay", "dan", "eve"];

/// A place of an event and its text.
type Line = (u32, u64, u64, String);

/// The events of all partitions that have landed, as a receiver sees them.
async fn expected(stack: &Stack) -> Result<Vec<Line>> {
    let all = landed(stack).await?;
    let events = all.values().flatten();
    let line = |event: &Event| {
        let Position { epoch, number } = event.position;
        (event.partition.0, epoch.0, number, text(event))
    };
    Ok(events.map(line).collect())
}

fn line(event: &serde_json::Value) -> Line {
    let number = |key: &str| event[key].as_u64().unwrap();
    let text = match event["kind"].as_str().unwrap() {
        "note" => event["body"].as_str().unwrap(),
        kind => kind,
    };
    let partition = u32::try_from(number("partition")).unwrap();
    (
        partition,
        number("epoch"),
        number("number"),
        text.to_owned(),
    )
}

/// The lines of all files.
fn in_files(dir: &Path) -> Result<Vec<Line>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            let partition: u32 = path.file_stem().unwrap().to_string_lossy().parse()?;
            let mut lines = Vec::new();
            for text in std::fs::read_to_string(&path)?.lines() {
                lines.push(line(&serde_json::from_str(text)?));
            }
            all.insert(partition, lines);
        }
    }
    Ok(all.into_values().flatten().collect())
}

/// The entries of all streams.
async fn in_streams(url: &str, prefix: &str) -> Result<Vec<Line>> {
    type Entry = (String, Vec<(String, String)>);
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut all = Vec::new();
    for partition in 0..8 {
        let mut range = redis::cmd("XRANGE");
        range.arg(format!("{prefix}{partition}")).arg("-").arg("+");
        let entries: Vec<Entry> = range.query_async(&mut connection).await?;
        for (id, fields) in entries {
            let fields: BTreeMap<_, _> = fields.into_iter().collect();
            let position: Position = id.parse()?;
            let text = fields.get("body").unwrap_or(&fields["kind"]).clone();
            all.push((partition, position.epoch.0, position.number, text));
        }
    }
    Ok(all)
}

fn feed() -> Token {
    Token::draw(&SeededIds::new(1))
}

/// A stack whose settings have a sink of each kind.
async fn with_all(dir: &Path, redis: &RedisServer, web: &str) -> Result<Stack> {
    let mut world = World::fresh().await?;
    let text = format!(
        "{}\n[sinks.files]\nkind = \"file\"\ndir = {:?}\n\
         [sinks.streams]\nkind = \"stream\"\nurl = {:?}\nkey_prefix = \"e:\"\n\
         [sinks.web]\nkind = \"webhook\"\nurl = {web:?}\nauthorization = \"Bearer 7\"\n",
        world.text,
        dir.to_string_lossy(),
        redis.url()
    );
    world.settings = Settings::from_toml(&text, "test")?;
    Stack::with(world).await
}

async fn of_settings(stack: &Stack) -> Result<Vec<Named>> {
    let cold = stack.storage.tiers().cold();
    sinks::of(
        &stack.settings,
        open::identity(cold.database.as_ref()).await?,
    )
}

/// Also after another worker has taken over.
#[tokio::test(flavor = "multi_thread")]
async fn files_streams_and_web_services_get_every_event_in_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("events");
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let (service, address) = Service::start().await?;
    let stack = with_all(&dir, &redis, &format!("http://{address}/in")).await?;
    for numbers in [0..20, 20..40] {
        let worker = stack.worker_with(&of_settings(&stack).await?);
        write(&stack, &PLAYERS, numbers).await?;
        for sink in ["files", "streams", "web"] {
            caught_up(&stack, sink).await?;
        }
        worker.stop().await?;
    }
    let expected = expected(&stack).await?;
    assert_eq!(expected.len(), 200);
    assert_eq!(in_files(&dir)?, expected);
    assert_eq!(in_streams(&redis.url(), "e:").await?, expected);
    let mut told: Vec<Line> = service.events().iter().map(line).collect();
    told.sort_by_key(|line| line.0);
    assert_eq!(told, expected);
    for call in service.calls() {
        let place = |at: usize| {
            let (_, epoch, number, _) = line(&call.events[at]);
            format!("{epoch}-{number}")
        };
        let (first, last) = (place(0), place(call.events.len() - 1));
        let partition = call.events[0]["partition"].as_u64().unwrap();
        let (feed, key) = call.key.split_once(':').unwrap();
        assert_eq!(feed.len(), 32, "the identity of the database: {}", call.key);
        assert_eq!(key, format!("web:{partition}:{first}..{last}"));
        assert_eq!(call.authorization, "Bearer 7");
    }
    Ok(())
}

/// The worker dies after each of them has the events, and before it stores the positions.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_leaves_no_event_twice_in_files_and_streams() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("events");
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let stack = with_all(&dir, &redis, "http://127.0.0.1:9/").await?;
    let stack = stack.with_short_locks();
    let all = of_settings(&stack).await?;
    let silent: Vec<_> = all[..2]
        .iter()
        .map(|(name, sink)| (name.clone(), Silent::new(Arc::clone(sink))))
        .collect();
    let first: Vec<Named> = silent
        .iter()
        .map(|(name, sink)| (name.clone(), Arc::clone(sink) as Arc<dyn Sink>))
        .collect();
    let worker = stack.worker_with(&first);
    write(&stack, &PLAYERS, 0..10).await?;
    for (_, sink) in &silent {
        bounded("a batch is sent", sink.has_passed()).await?;
    }
    worker.kill();
    assert!(!in_files(&dir)?.is_empty());
    let worker = stack.worker_with(&all[..2]);
    caught_up(&stack, "files").await?;
    caught_up(&stack, "streams").await?;
    assert_eq!(in_files(&dir)?, expected(&stack).await?);
    let streams = in_streams(&redis.url(), "e:").await?;
    assert_eq!(streams, expected(&stack).await?);
    worker.stop().await
}

fn gaps(numbers: std::ops::Range<u64>) -> Vec<Event> {
    let gap = |number| Event {
        partition: Partition(3),
        position: Position::new(1, number),
        content: Content::Gap,
    };
    numbers.map(gap).collect()
}

fn is_away(sent: Result<(), SinkError>, part: &str) -> Option<Duration> {
    match sent {
        Err(SinkError::Unavailable {
            message,
            retry_after,
        }) => {
            assert!(message.contains(part), "{message}");
            retry_after
        }
        other => panic!("{other:?}"),
    }
}

/// A stream takes no event below its last one. So a later event must not be there alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_takes_events_whole_or_not_at_all() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let url = redis.url().parse()?;
    let timeout = Duration::from_secs(5);
    let sink = StreamSink::new(&url, "e:", 0, timeout, feed())?;
    sink.send(Partition(3), &gaps(1..3)).await?;
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    is_away(sink.send(Partition(3), &gaps(3..6)).await, "OOM");
    redis.call(&["CONFIG", "SET", "maxmemory", "0"]).await?;
    sink.send(Partition(3), &gaps(2..6)).await?;
    let entries = in_streams(&redis.url(), "e:").await?;
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.2).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    redis.call(&["SET", "e:3", "x"]).await?;
    is_away(sink.send(Partition(3), &gaps(6..7)).await, "WRONGTYPE");
    let other = Token::draw(&SeededIds::new(2));
    let other = StreamSink::new(&url, "e:", 0, timeout, other)?;
    is_away(
        other.send(Partition(3), &gaps(6..7)).await,
        "another database",
    );
    // About so many, since Redis cuts a stream at its nodes.
    let short = StreamSink::new(&url, "s:", 10, timeout, feed())?;
    short.send(Partition(3), &gaps(1..500)).await?;
    let left = in_streams(&redis.url(), "s:").await?;
    assert!((10..300).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap().2, 499);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_its_redis_was_restarted() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let url = redis.url().parse()?;
    let sink = StreamSink::new(&url, "e:", 0, Duration::from_secs(5), feed())?;
    sink.send(Partition(3), &gaps(1..3)).await?;
    redis.kill()?;
    assert!(sink.send(Partition(3), &gaps(3..4)).await.is_err());
    redis.restart().await?;
    until("the stream is back", async || {
        Ok(sink.send(Partition(3), &gaps(2..5)).await.is_ok())
    })
    .await?;
    let numbers: Vec<u64> = in_streams(&redis.url(), "e:")
        .await?
        .iter()
        .map(|entry| entry.2)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    Ok(())
}

/// The table of statuses. Only an answer about the events themselves rejects them.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_web_service_decides_whether_events_wait_or_are_parked() -> Result<()> {
    let (service, address) = Service::start().await?;
    let url = format!("http://{address}/hunter2?key=hunter2").parse()?;
    let secret = Secret::new("hunter2");
    let timeout = Duration::from_secs(5);
    let sink = Webhook::new("web".parse()?, &url, Some(&secret), timeout)?;
    let send = async |status: u16, headers: &[(&'static str, &'static str)]| {
        let status = StatusCode::from_u16(status).unwrap();
        service.answer(Some((status, headers.to_vec())));
        let sent = sink.send(Partition(3), &gaps(1..3)).await;
        assert!(!format!("{sent:?}").contains("hunter2"), "{sent:?}");
        sent
    };
    for status in [200, 201, 204] {
        assert_eq!(send(status, &[]).await, Ok(()));
    }
    for status in [400, 413, 422] {
        let sent = send(status, &[]).await;
        let Err(SinkError::Rejected { message }) = sent else {
            panic!("{status} {sent:?}");
        };
        assert!(message.contains(&status.to_string()), "{message}");
    }
    for status in [
        401, 403, 404, 405, 408, 409, 410, 415, 425, 429, 500, 502, 503, 504,
    ] {
        assert_eq!(is_away(send(status, &[]).await, &status.to_string()), None);
    }
    for (header, seconds) in [("7", Some(7)), ("999999", Some(600)), ("soon", None)] {
        let wait = is_away(send(429, &[("Retry-After", header)]).await, "429");
        assert_eq!(wait, seconds.map(Duration::from_secs));
    }
    let to = [("Location", "http://127.0.0.1:9/")];
    for status in [301, 302, 307] {
        is_away(send(status, &to).await, "redirects are not followed");
    }
    assert!(service.calls().is_empty(), "nothing was followed");
    let shown = format!("{sink:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    // Nobody listens there.
    let nobody = "http://127.0.0.1:9/hunter2".parse()?;
    let sink = Webhook::new("web".parse()?, &nobody, Some(&secret), timeout)?;
    let sent = sink.send(Partition(3), &gaps(1..3)).await;
    assert!(!format!("{sent:?}").contains("hunter2"), "{sent:?}");
    is_away(sent, "connect");
    Ok(())
}

/// A service that does not answer at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_is_given_up() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?).parse()?;
    let sink = Webhook::new("web".parse()?, &url, None, Duration::from_millis(100))?;
    is_away(sink.send(Partition(3), &gaps(1..3)).await, "timed out");
    Ok(())
}

/// From the service's refusal to the database, and on with the next event.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_a_web_service_refuses_is_parked_with_its_status() -> Result<()> {
    let stack = Stack::open().await?;
    let (service, address) = Service::start().await?;
    service.refuse(Some("3"));
    let url = format!("http://{address}/in").parse()?;
    let sink = Webhook::new("web".parse()?, &url, None, Duration::from_secs(5))?;
    let worker = stack.worker_with(&[named("web", Arc::new(sink))]);
    write(&stack, &["ann"], 0..6).await?;
    caught_up(&stack, "web").await?;
    let bodies: Vec<String> = service.events().iter().map(|event| line(event).3).collect();
    assert_eq!(bodies, ["0", "1", "2", "4", "5"]);
    let cold = stack.storage.tiers().cold();
    let start = (Partition(0), Position::ZERO);
    let parked = cold.sinks.parked(&"web".parse()?, start, 9).await?;
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].position.number, 4);
    assert_eq!(parked[0].message, "422 Unprocessable Entity");
    worker.stop().await
}

/// Two workers of one machine share the folder.
#[tokio::test(flavor = "multi_thread")]
async fn two_writers_of_one_file_leave_each_event_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let writer = async || -> Result<()> {
        let sink = FileSink::new(folder.path().to_owned(), feed());
        for number in 1..40 {
            let events = gaps(number..number + 3);
            until("the file is free", async || {
                Ok(sink.send(Partition(3), &events).await.is_ok())
            })
            .await?;
        }
        Ok(())
    };
    tokio::try_join!(writer(), writer())?;
    let numbers: Vec<u64> = in_files(folder.path())?.iter().map(|line| line.2).collect();
    assert_eq!(numbers, (1..42).collect::<Vec<_>>());
    Ok(())
}
