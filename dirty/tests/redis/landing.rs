//! The operations of a worker on marks.

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::Reply;

use crate::support::*;

#[tokio::test]
async fn what_has_landed_may_expire_and_what_has_not_may_not() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let key = format!("slug-data:{{{}}}:game:eu:player:ann", ann.partition(4));
    apply(&store, &ann, &[("gold", set("1"))]).await;
    apply(&store, &ann, &[("gold", set("2"))]).await;
    apply(&store, &ann, &[("name", set("Ann"))]).await;
    assert_eq!(
        store.marked(std::slice::from_ref(&ann), None).await,
        [Ok(true)]
    );
    assert_eq!(
        server.call(&["PTTL", &key]).await.unwrap(),
        Reply::Integer(-1)
    );
    assert_eq!(drain(&store).await, 1);
    assert_eq!(
        store.marked(std::slice::from_ref(&ann), None).await,
        [Ok(false)]
    );
    assert!(
        matches!(server.call(&["PTTL", &key]).await.unwrap(), Reply::Integer(left) if left > 3_000_000)
    );
    apply(&store, &ann, &[("gold", set("3"))]).await;
    assert_eq!(
        server.call(&["PTTL", &key]).await.unwrap(),
        Reply::Integer(-1)
    );
    assert_eq!(
        store.evict(std::slice::from_ref(&ann)).await,
        [Ok(Evicted::WhenLanded)]
    );
    assert_eq!(drain(&store).await, 1);
    assert_eq!(read(&store, &ann).await, HotRead::default());
}

/// The key of such a lock would stay, since it has no time to live.
#[tokio::test]
async fn a_lock_that_ran_out_is_given_back_without_a_trace() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let (partition, lock) = (Partition(0), lock("w"));
    store
        .lock(&[partition], &lock, Duration::from_millis(1))
        .await
        .pop()
        .unwrap()
        .unwrap();
    while store
        .peek(&[partition])
        .await
        .pop()
        .unwrap()
        .unwrap()
        .holder
        .is_some()
    {}
    assert_eq!(
        server.call(&["EXISTS", "slug-lock:{0}"]).await.unwrap(),
        Reply::Integer(1)
    );
    store
        .unlock(&[partition], &lock)
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(
        server.call(&["EXISTS", "slug-lock:{0}"]).await.unwrap(),
        Reply::Integer(0)
    );
}

#[tokio::test]
async fn thousands_of_marks_are_scanned_and_settled_without_a_miss() {
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let mut batch = Vec::new();
    for number in 0..3_000 {
        batch.push((
            mutation(&store, &owner(&number.to_string()), &[("gold", set("1"))]).await,
            Vec::new(),
        ));
    }
    assert!(
        store
            .mutate(&batch)
            .await
            .iter()
            .all(|mutated| matches!(mutated, Ok(Mutated::Applied(_))))
    );
    let (partition, lock) = (Partition(0), lock("w"));
    store
        .lock(&[partition], &lock, Duration::from_secs(60))
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(
        store.snapshot(partition, &lock).await,
        Ok(Snapshot::Taken(snapshot_of_epoch_1(1)))
    );
    let (mut cursor, mut cleared) = (Some(0), 0);
    while let Some(at) = cursor {
        let page = store
            .scan(partition, storage_dirty::Map::Snapshot, at, 700)
            .await
            .unwrap();
        assert!(page.entries.iter().all(|entry| entry.mark.is_some()));
        // Twice, like a page that came twice.
        let twice: Vec<Entry> = page.entries.iter().chain(&page.entries).cloned().collect();
        cleared += settle(&store, partition, &lock, snapshot_of_epoch_1(1), twice)
            .await
            .cleared;
        cursor = page.next;
    }
    assert_eq!(cleared, 3_000);
    let peek = store.peek(&[partition]).await.pop().unwrap().unwrap();
    assert_eq!(
        (peek.live, peek.snapshot, peek.errors, peek.oldest()),
        (0, 0, 0, None)
    );
    assert_eq!(peek.holder.as_deref(), Some("worker"));
    assert_eq!(store.marked(&[owner("7")], None).await, [Ok(false)]);
}

#[tokio::test]
async fn what_somebody_else_wrote_into_a_snapshot_can_be_rejected_and_does_not_block_it() {
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let junk = [
        "text",
        "5",
        "7 2",
        "",
        "20000000000000",
        "+0000000000001",
        "0000000000000A",
        "000000000000001",
    ];
    for (number, value) in junk.iter().enumerate() {
        server
            .call(&["HSET", "slug-marks:{0}", &format!("junk{number}"), value])
            .await
            .unwrap();
    }
    let (partition, lock) = (Partition(0), lock("w"));
    store
        .lock(&[partition], &lock, Duration::from_secs(60))
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(
        store.snapshot(partition, &lock).await,
        Ok(Snapshot::Taken(snapshot_of_epoch_1(1)))
    );
    assert_eq!(
        store.snapshot(partition, &lock).await,
        Ok(Snapshot::Leftover(snapshot_of_epoch_1(1)))
    );
    let entries = store
        .scan(partition, storage_dirty::Map::Snapshot, 0, 10)
        .await
        .unwrap()
        .entries;
    assert!(
        entries.len() == junk.len()
            && entries
                .iter()
                .all(|entry| entry.mark.is_none() && entry.version == Version::ZERO)
    );
    let fault = Fault {
        field: field("-"),
        version: Version::ZERO,
        code: 0,
        message: "unreadable".into(),
    };
    let one = |entry| Rejected {
        leaves: Vec::new(),
        source: Some(entry),
        owner: None,
        faults: vec![fault.clone()],
    };
    let rejected = entries.into_iter().map(one).collect();
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(60));
    store
        .reject(&Reject {
            partition,
            lock: lock.clone(),
            epoch: Epoch(1),
            snapshot: snapshot_of_epoch_1(1),
            retry_min,
            retry_max,
            probation: false,
            rejected,
        })
        .await
        .unwrap();
    assert_eq!(store.snapshot(partition, &lock).await, Ok(Snapshot::Empty));
    let errors = store.errors(partition, 0, 10).await.unwrap().entries;
    assert!(
        errors.len() == junk.len()
            && errors
                .iter()
                .all(|error| error.target.is_none() && error.message == "unreadable")
    );
}
