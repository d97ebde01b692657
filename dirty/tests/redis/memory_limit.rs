//! A server at `maxmemory` (H2, H3, R13).

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;

use crate::support::*;

#[tokio::test]
async fn at_the_memory_limit_writes_are_refused_whole_and_landing_goes_on() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let (ann, cold) = (owner("ann"), owner("cold"));
    apply_new(&store, &ann, &[("gold", set("1"))]).await;
    apply(&store, &owner("bo"), &[("gold", set("1"))]).await;
    let observed = store
        .observe(std::slice::from_ref(&cold))
        .await
        .pop()
        .unwrap()
        .unwrap();
    server
        .call(&["CONFIG", "SET", "maxmemory", "1mb"])
        .await
        .unwrap();
    let before = dump(&server).await;
    for changes in [
        &[("gold", set("2"))][..],
        &[("gold", Change::Incr(1))],
        &[("gold", Change::Remove)],
    ] {
        let error = mutate(&store, &ann, changes).await.unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::OutOfMemory, Outcome::NotApplied)
        );
    }
    // A load is proved and returned, but not written.
    let rows = vec![(
        field("gold"),
        Cell::Live(Bytes::from_static(b"7")),
        Version::new(5).unwrap(),
    )];
    let load = Load {
        owner: cold.clone(),
        observed,
        rows,
        complete: true,
    };
    let Filled::Accepted(read_back) = store
        .fill(std::slice::from_ref(&load))
        .await
        .pop()
        .unwrap()
        .unwrap()
    else {
        panic!()
    };
    let header = Header {
        version: Version::new(5).unwrap(),
        complete: true,
        generation: Epoch(1),
        suspect: false,
        born: Version::ZERO,
        noted: storage_model::Position::ZERO,
    };
    assert_eq!(
        (read_back.header, read_back.cells.clone()),
        (
            Some(header),
            vec![(field("gold"), Cell::Live(Bytes::from_static(b"7")))]
        )
    );
    assert_eq!(dump(&server).await, before);

    let stored = Duration::from_secs(5);
    assert_eq!(store.announce("w1", stored).await.unwrap(), ["w1"]);
    let blank = store.pairing().await.unwrap();
    let token = Token::draw(&RandomIds);
    let paired = HotPaired {
        token,
        database: token,
        partitions: 4,
        layout: LAYOUT,
        since: blank.now,
    };
    assert!(store.pair(&blank, &paired).await.unwrap());
    let partition = ann.partition(4);
    let lock = lock("w");
    assert_eq!(store.lock(&[partition], &lock, stored).await, [Ok(true)]);
    assert_eq!(store.renew(&[partition], &lock, stored).await, [Ok(true)]);
    assert_eq!(
        store.snapshot(partition, &lock).await,
        Ok(Snapshot::Taken(snapshot_of_epoch_1(1)))
    );
    let entries = store
        .scan(partition, storage_dirty::Map::Snapshot, 0, 10)
        .await
        .unwrap()
        .entries;
    let source = entries
        .into_iter()
        .find(|entry| entry.mark.as_ref().is_some_and(|mark| mark.owner == ann));
    let fault = Fault {
        field: field("gold"),
        version: Version::new(5).unwrap(),
        code: 1406,
        message: "too long".into(),
    };
    let rejected = vec![Rejected {
        leaves: Vec::new(),
        source,
        owner: Some(ann.clone()),
        faults: vec![fault],
    }];
    let reject = Reject {
        partition,
        lock: lock.clone(),
        epoch: Epoch(1),
        snapshot: snapshot_of_epoch_1(1),
        retry_min: stored,
        retry_max: stored,
        probation: false,
        rejected,
    };
    store.reject(&reject).await.unwrap();
    assert_eq!(
        store.errors(partition, 0, 10).await.unwrap().entries.len(),
        1
    );
    assert_eq!(store.unlock(&[partition], &lock).await, [Ok(())]);
    assert_eq!(drain(&store).await, 1);
    store
        .raise_landed(partition, Epoch(1), Version::new(9).unwrap())
        .await
        .unwrap();
    assert_eq!(store.evict(&[owner("bo")]).await, [Ok(Evicted::Gone)]);

    server
        .call(&["CONFIG", "SET", "maxmemory", "0"])
        .await
        .unwrap();
    apply(&store, &ann, &[("gold", set("2"))]).await;
    assert_eq!(store.fill(&[load]).await, [Ok(Filled::Accepted(read_back))]);
}

/// No key that a worker needs may have a time to live. A server over its limit evicts such keys
/// before every command.
#[tokio::test]
async fn a_full_server_that_evicts_leaves_workers_their_locks() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let value = "x".repeat(100_000);
    for number in 0..20 {
        apply(&store, &owner(&format!("p{number}")), &[("v", set(&value))]).await;
    }
    for (setting, value) in [("maxmemory-policy", "volatile-lru"), ("maxmemory", "1mb")] {
        server
            .call(&["CONFIG", "SET", setting, value])
            .await
            .unwrap();
    }
    let (all, lock, long) = (
        [Partition(0), Partition(1)],
        lock("w"),
        Duration::from_secs(60),
    );
    assert_eq!(store.lock(&all, &lock, long).await, [Ok(true), Ok(true)]);
    assert_eq!(store.renew(&all, &lock, long).await, [Ok(true), Ok(true)]);
    for peek in store.peek(&all).await {
        assert_eq!(peek.unwrap().holder.as_deref(), Some(lock.holder.as_str()));
    }
    store
        .unlock(&all, &lock)
        .await
        .into_iter()
        .for_each(Result::unwrap);
    assert_eq!(drain(&store).await, 20);
}
