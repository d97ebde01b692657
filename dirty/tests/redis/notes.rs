//! Notes on a server that somebody edits.

use std::time::Duration;

use storage_dirty::{Bound, Feed, HotKind, Mutated, Notes, Owners, Partitions, RedisStore};
use storage_model::{Applied, Bytes, Change, Content, Epoch, Lead, Mutation, Partition, Position};
use storage_servers::{RedisServer, Reply};

use crate::support::*;

async fn notes(store: &RedisStore, partition: Partition) -> Notes {
    let bound = Bound {
        rows: 9,
        bytes: 9_000,
    };
    let notes = store.notes(partition, Position::ZERO, bound).await;
    notes.unwrap()
}

async fn noted(store: &RedisStore, changes: &[(&str, Change)]) -> Mutation {
    let write = mutation(store, &owner("ann"), changes).await;
    write.noting(Bytes::from_static(b"note"))
}

async fn write(store: &RedisStore) -> Applied {
    let write = noted(store, &[("gold", set("1"))]).await;
    match send(store, write).await.unwrap() {
        Mutated::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

async fn call(server: &RedisServer, words: &[&str]) {
    server.call(words).await.unwrap();
}

/// The write finds out before it writes anything, whichever script makes it.
#[tokio::test]
async fn a_write_whose_note_the_stream_refuses_changes_nothing() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let partition = ann.partition(4);
    let stream = format!("slug-notes:{{{partition}}}");
    for spoil in [
        &["SET", &stream, "x"][..],
        &["XADD", &stream, "99-1", "x", "y"][..],
    ] {
        call(&server, &["FLUSHALL"]).await;
        adopt_all(&store, 1).await;
        apply_new(&store, &ann, &[("gold", set("1"))]).await;
        call(&server, spoil).await;
        let before = read(&store, &ann).await;
        for changes in [
            &[("gold", set("2"))][..],
            &[("gold", Change::Incr(1))],
            &[("gold", Change::Remove)],
        ] {
            let refused = send(&store, noted(&store, changes).await).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind, HotKind::Corrupt, "{spoil:?} {refused:?}");
            assert_eq!(read(&store, &ann).await, before, "{spoil:?}");
        }
        // A write without a note goes on, and so do others once the key is mended.
        apply(&store, &ann, &[("gold", set("3"))]).await;
        call(&server, &["DEL", &stream]).await;
        let place = write(&store).await.position.unwrap();
        assert_eq!(place, Position::new(1, 1), "no number was used up");
    }
}

/// So a worker sees that notes are missing.
#[tokio::test]
async fn the_numbers_of_notes_go_on_after_somebody_deleted_the_stream() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let partition = owner("ann").partition(4);
    for _ in 0..3 {
        write(&store).await;
    }
    call(&server, &["DEL", &format!("slug-notes:{{{partition}}}")]).await;
    let empty = notes(&store, partition).await;
    assert_eq!((empty.last, empty.events.len()), (Position::new(1, 3), 0));
    let place = write(&store).await.position.unwrap();
    assert_eq!(place, Position::new(1, 4));
}

/// An entry of another program fails the read, which names its place.
#[tokio::test]
async fn an_entry_that_no_write_made_is_reported() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let partition = owner("ann").partition(4);
    let stream = format!("slug-notes:{{{partition}}}");
    call(&server, &["XADD", &stream, "7-7", "x", "y"]).await;
    let bound = Bound { rows: 9, bytes: 9 };
    let read = store.notes(partition, Position::ZERO, bound).await;
    let error = read.unwrap_err();
    assert!(error.message.contains("7-7"), "{error:?}");
}

/// Numbers of notes.
fn numbers(notes: &Notes) -> Vec<u64> {
    let numbers = notes.events.iter().map(|event| event.position.number);
    numbers.collect()
}

/// The notes of a call share an entry of the stream, and keep places of their own.
#[tokio::test]
async fn notes_of_one_call_are_read_and_trimmed_one_by_one() {
    let server = server().await;
    let one = settings(&server.url()).with(|redis| redis.partitions = 1);
    let store = prepared(one).await;
    let partition = Partition(0);
    let mut writes = Vec::new();
    for id in ["ann", "bob", "cay", "dan", "eve"] {
        let write = mutation(&store, &owner(id), &[("gold", set("1"))]).await;
        let note = Some(Bytes::from(id));
        writes.push((Mutation { note, ..write }, Vec::new()));
    }
    let results = store.mutate(&writes).await;
    assert!(
        results
            .iter()
            .all(|one| matches!(one, Ok(Mutated::Applied(_))))
    );
    let length = server.call(&["XLEN", "slug-notes:{0}"]).await.unwrap();
    assert_eq!(length, Reply::Integer(1), "five notes of one call");

    let read = async |after: u64, rows: usize| {
        let bound = Bound { rows, bytes: 1_000 };
        let after = Position::new(1, after);
        store.notes(partition, after, bound).await.unwrap()
    };
    for (after, rows, expected, more) in [
        (0, 9, vec![1, 2, 3, 4, 5], false),
        (0, 2, vec![1, 2], true),
        (2, 2, vec![3, 4], true),
        (4, 2, vec![5], false),
        (5, 2, vec![], false),
    ] {
        let notes = read(after, rows).await;
        assert_eq!((numbers(&notes), notes.more), (expected, more), "{after}");
    }
    let bodies = read(0, 9)
        .await
        .events
        .into_iter()
        .map(|event| match event.content {
            Content::Note(note) => note.body,
            other => panic!("{other:?}"),
        });
    let bodies: Vec<_> = bodies.collect();
    assert_eq!(bodies, ["ann", "bob", "cay", "dan", "eve"]);

    let lock = lock("t");
    let locked = store
        .lock(&[partition], &lock, Duration::from_secs(60))
        .await;
    assert_eq!(locked, [Ok(true)]);
    let trim = async |upto: u64| {
        let upto = Position::new(1, upto);
        store
            .trim_notes(partition, &lock, Epoch(1), upto, true)
            .await
            .unwrap();
    };
    trim(3).await;
    assert_eq!(numbers(&read(3, 9).await), [4, 5]);
    let lead = |number| Lead {
        owner: owner("bob"),
        position: Position::new(1, number),
    };
    let leads = [lead(4), lead(5)];
    assert_eq!(
        store.resync(partition, &lock, Epoch(1), &leads).await,
        Ok(0)
    );
    assert_eq!(
        store.resync(partition, &lock, Epoch(1), &[lead(6)]).await,
        Ok(1)
    );
    trim(5).await;
    assert_eq!(numbers(&read(0, 9).await), [6]);
}
