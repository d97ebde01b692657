//! A script that refuses has changed nothing (H1, R10).

use std::time::Duration;

use storage_dirty::*;
use storage_model::*;

use crate::support::*;

/// Makes every call of a worker and of a reader to one partition.
async fn all_calls(store: &RedisStore, ann: &Owner) {
    let partition = ann.partition(store.partition_count());
    let lock = lock("t");
    let observed = Observed {
        marker: Marker::At(Version::new(5).unwrap()),
        present: true,
        epoch: Epoch(1),
    };
    let row = (
        field("gold"),
        Cell::Live(Bytes::from_static(b"1")),
        Version::new(5).unwrap(),
    );
    let load = Load {
        owner: ann.clone(),
        observed,
        rows: vec![row],
        complete: true,
    };
    let mark = Mark {
        owner: ann.clone(),
        fields: vec![field("gold")],
    };
    let raw = Bytes::from_static(b"game:eu:player:ann");
    let entry = Entry {
        raw,
        mark: Some(mark),
        version: Version::new(5).unwrap(),
    };
    let fault = Fault {
        field: field("gold"),
        version: Version::new(5).unwrap(),
        code: 1,
        message: "no".into(),
    };
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults: vec![fault],
    };
    for changes in [
        &[("gold", set("2"))][..],
        &[("gold", set("2")), ("name", set("x"))],
        &[("gold", Change::Incr(1))],
        &[("gold", Change::Remove), ("name", Change::Restore)],
        &[("gold", Change::Purge)],
    ] {
        let mutation = mutation(store, ann, changes).await;
        let _ = store.mutate(&[(mutation.clone(), Vec::new())]).await;
        let again = Mutation {
            id: RandomIds.next(),
            ..mutation
        };
        let _ = store.mutate(&[(again, vec![load.clone()])]).await;
    }
    let _ = store.observe(std::slice::from_ref(ann)).await;
    let _ = store.fill(std::slice::from_ref(&load)).await;
    let _ = store.evict(std::slice::from_ref(ann)).await;
    let _ = store
        .raise_landed(partition, Epoch(1), Version::new(9).unwrap())
        .await;
    let _ = store
        .lock(&[partition], &lock, Duration::from_secs(9))
        .await;
    let _ = store.snapshot(partition, &lock).await;
    let marks = vec![entry.clone()];
    let rows = vec![(ann.clone(), field("gold"), entry.version)];
    let settle = Settle {
        partition,
        lock: Some(lock.clone()),
        epoch: Epoch(1),
        snapshot: snapshot_of_epoch_1(1),
        landed: Version::new(5).unwrap(),
        marks,
        rows: storage_dirty::conformance::landed_rows(rows),
        probation: false,
    };
    let _ = store.settle(&settle).await;
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
    let (snapshot, rejected) = (snapshot_of_epoch_1(1), vec![rejected]);
    let reject = Reject {
        partition,
        lock: lock.clone(),
        epoch: Epoch(1),
        snapshot,
        retry_min,
        retry_max,
        probation: false,
        rejected,
    };
    let _ = store.reject(&reject).await;
}

#[tokio::test]
async fn a_key_of_a_wrong_type_is_found_before_anything_is_written() {
    let server = server().await;
    let ann = owner("ann");
    let partition = ann.partition(4);
    let part = format!("slug-part:{{{partition}}}");
    // A partition record that holds a list: no call can do anything.
    let store = prepared(settings(&server.url())).await;
    server.call(&["DEL", &part]).await.unwrap();
    server.call(&["LPUSH", &part, "x"]).await.unwrap();
    let lock_key = format!("slug-lock:{{{partition}}}");
    server.call(&["LPUSH", &lock_key, "x"]).await.unwrap();
    server
        .call(&[
            "LPUSH",
            &format!("slug-data:{{{partition}}}:game:eu:player:ann"),
            "x",
        ])
        .await
        .unwrap();
    let before = dump(&server).await;
    all_calls(&store, &ann).await;
    assert_eq!(dump(&server).await, before);
}

#[tokio::test]
async fn a_mutation_on_spoilt_keys_changes_nothing() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let partition = ann.partition(4);
    let key = |name: &str| format!("slug-{}", name.replace("{p}", &format!("{{{partition}}}")));
    let data = key("data:{p}:game:eu:player:ann");
    let spoils: Vec<(&str, Vec<String>)> = vec![
        (
            "a hash that is a list",
            vec!["LPUSH".into(), data.clone(), "x".into()],
        ),
        (
            "a dirty map that is a string",
            vec!["SET".into(), key("marks:{p}"), "x".into()],
        ),
        (
            "ids that are a string",
            vec![
                "MSET".into(),
                key("ops:{p}:0"),
                "x".into(),
                key("ops:{p}:1"),
                "x".into(),
            ],
        ),
        (
            "a version that is text",
            vec!["HSET".into(), data.clone(), ":v".into(), "x".into()],
        ),
        (
            "a version without a generation",
            vec!["HSET".into(), data.clone(), ":v".into(), "7".into()],
        ),
        (
            "a flag that is none",
            vec!["HSET".into(), data.clone(), ":v".into(), "7 1x".into()],
        ),
        (
            "a source above 2^53",
            vec![
                "HSET".into(),
                key("part:{p}"),
                "src".into(),
                "9007199254740991".into(),
            ],
        ),
        (
            "a source that is text",
            vec!["HSET".into(), key("part:{p}"), "src".into(), "x".into()],
        ),
    ];
    for (what, spoil) in spoils {
        server.call(&["FLUSHALL"]).await.unwrap();
        adopt_all(&store, 1).await;
        apply_new(&store, &ann, &[("gold", set("1"))]).await;
        if spoil[0] != "HSET" {
            for key in spoil.iter().filter(|word| word.starts_with("slug-")) {
                server.call(&["DEL", key]).await.unwrap();
            }
        }
        server.call(&spoil).await.unwrap();
        let before = dump(&server).await;
        for changes in [
            &[("gold", set("2"))][..],
            &[("gold", Change::Incr(1)), ("name", Change::Remove)],
        ] {
            for attempt in [Attempt::First, Attempt::Named] {
                if attempt == Attempt::First && what.starts_with("ids") {
                    continue; // only a write with an id meets them
                }
                let write = mutation(&store, &ann, changes).await.as_attempt(attempt);
                let error = send(&store, write).await.unwrap_err();
                assert_eq!(error.outcome, Outcome::NotApplied, "{what}: {error}");
            }
        }
        assert_eq!(dump(&server).await, before, "{what}");
    }
}

#[tokio::test]
async fn a_refused_mutation_changes_nothing() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let first = apply_new(
        &store,
        &ann,
        &[("gold", set("9223372036854775807")), ("name", set("Ann"))],
    )
    .await;
    apply(&store, &ann, &[("old", set("1"))]).await;
    apply(&store, &ann, &[("old", Change::Remove)]).await;
    let before = dump(&server).await;
    let cases = [
        (
            vec![("a", set("1")), ("gold", Change::Incr(1))],
            Condition::None,
            Refusal::Overflow(field("gold")),
        ),
        (
            vec![("a", set("1")), ("name", Change::Incr(1))],
            Condition::None,
            Refusal::NotInteger(field("name")),
        ),
        (
            vec![("a", set("1")), ("old", Change::Purge)],
            Condition::None,
            Refusal::NotLanded,
        ),
        (
            vec![("a", set("1")), ("name", set("2"))],
            Condition::Absent,
            Refusal::Exists(field("name")),
        ),
    ];
    for (changes, condition, refusal) in cases {
        let mutation = mutation(&store, &ann, &changes).await.when(condition);
        assert_eq!(send(&store, mutation).await, Ok(Mutated::Refused(refusal)));
        assert_eq!(dump(&server).await, before);
    }
    let stale = mutation(&store, &ann, &[("a", set("1"))])
        .await
        .when(Condition::Version(first.version));
    assert!(matches!(
        send(&store, stale).await,
        Ok(Mutated::Refused(Refusal::Version(_)))
    ));
    let idle = apply(
        &store,
        &ann,
        &[("name", Change::Restore), ("none", Change::Remove)],
    )
    .await;
    assert_eq!(idle.changed, 0);
    let but_ids = |dump: Vec<(String, String)>| {
        dump.into_iter()
            .filter(|(key, _)| !key.contains("-ops:"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        but_ids(dump(&server).await),
        but_ids(before),
        "only its id is remembered"
    );
}

#[tokio::test]
async fn a_worker_that_is_refused_has_moved_nothing() {
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let (ann, partition, held) = (owner("ann"), Partition(0), lock("w"));
    // The change to the state, and the kind of the refusal. A broken owner hash refuses nothing,
    // since the marks of other owners must go on.
    let spoils: [(&[&str], HotKind); 7] = [
        (&["SET", "slug-marks:{0}:saving", "x"], HotKind::Corrupt),
        (&["SET", "slug-marks:{0}:error", "x"], HotKind::Corrupt),
        (&["SET", "slug-lock:{0}", "x"], HotKind::LockLost),
        (&["DEL", "slug-lock:{0}"], HotKind::LockLost),
        (
            &["HSET", "slug-part:{0}", "epoch", "2"],
            HotKind::EpochMoved,
        ),
        (
            &["HSET", "slug-part:{0}", "inc", "x/y"],
            HotKind::Unprepared(partition),
        ),
        (&["DEL", "slug-part:{0}"], HotKind::Unprepared(partition)),
    ];
    for (spoil, kind) in spoils {
        server.call(&["FLUSHALL"]).await.unwrap();
        adopt_all(&store, 1).await;
        let version = apply(&store, &ann, &[("gold", set("1"))]).await.version;
        store
            .lock(&[partition], &held, Duration::from_secs(60))
            .await
            .pop()
            .unwrap()
            .unwrap();
        store.snapshot(partition, &held).await.unwrap();
        let entry = store
            .scan(partition, storage_dirty::Map::Snapshot, 0, 10)
            .await
            .unwrap()
            .entries
            .pop()
            .unwrap();
        let fault = Fault {
            field: field("gold"),
            version,
            code: 1406,
            message: "too long".into(),
        };
        let rejected = vec![Rejected {
            leaves: Vec::new(),
            source: Some(entry.clone()),
            owner: Some(ann.clone()),
            faults: vec![fault],
        }];
        let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
        let snapshot = snapshot_of_epoch_1(1);
        let reject = Reject {
            partition,
            lock: held.clone(),
            epoch: Epoch(1),
            snapshot,
            retry_min,
            retry_max,
            probation: false,
            rejected,
        };
        let (marks, rows) = (vec![entry], vec![(ann.clone(), field("gold"), version)]);
        let settle = Settle {
            partition,
            lock: Some(held.clone()),
            epoch: Epoch(1),
            snapshot,
            landed: version,
            marks,
            rows: storage_dirty::conformance::landed_rows(rows),
            probation: false,
        };
        server.call(spoil).await.unwrap();
        let before = dump(&server).await;
        let error = store.settle(&settle).await.unwrap_err();
        assert_eq!(
            (&error.kind, error.outcome),
            (&kind, Outcome::NotApplied),
            "{spoil:?}: {error}"
        );
        let Err(error) = store.reject(&reject).await else {
            panic!("{spoil:?}")
        };
        assert_eq!(
            (&error.kind, error.outcome),
            (&kind, Outcome::NotApplied),
            "{spoil:?}: {error}"
        );
        assert_eq!(dump(&server).await, before, "{spoil:?}");
    }
}
