//! Notes on a server that somebody edits.

use storage_dirty::{Bound, Feed, HotKind, Mutated, Notes, RedisStore};
use storage_model::{Applied, Bytes, Change, Mutation, Partition, Position};
use storage_servers::RedisServer;

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
