//! A server whose clock is set back or leaps ahead (H6, H7, H8, H11).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

use crate::support::*;

const HOUR: i64 = 3_600;

async fn server_with_clock() -> RedisServer {
    RedisServer::start(storage_servers::RedisOptions {
        clock: true,
        ..Default::default()
    })
    .await
    .unwrap()
}

/// H4, H6, H11: ids are kept by windows of the clock. A clock that leaps does not drop recent ids.
#[tokio::test]
async fn a_repeat_is_recognised_though_the_clock_leapt_there_and_back() {
    let server = server_with_clock().await;
    let counter = Arc::new(Counter::default());
    let one = settings(&server.url()).with(|redis| {
        redis.connections = 1;
        redis.partitions = 1;
    });
    let store = prepared_through(one, Hooks::intercept(counter.clone())).await;
    let (ann, bo) = (owner("ann"), owner("bo"));
    apply_new(&store, &ann, &[("gold", set("0"))]).await;
    apply_new(&store, &bo, &[("gold", set("0"))]).await;
    for round in 1..=6 {
        let incr = named(&store, &ann, &[("gold", Change::Incr(1))]).await;
        counter.lose_next.store(1, Ordering::SeqCst);
        assert_eq!(
            send(&store, incr.clone()).await.unwrap_err().outcome,
            Outcome::Unknown
        );
        // Other writes come in the windows that the clock passes. The last leap is two windows
        // long, as after a window without writes.
        for leap in [2 * HOUR, 0, -HOUR, 0, 120] {
            server.skew(leap).unwrap();
            apply_named(&store, &bo, &[("gold", set("1"))]).await;
            apply_named(&store, &bo, &[("gold", Change::Incr(1))]).await;
        }
        let Mutated::Applied(applied) = send(&store, incr).await.unwrap() else {
            panic!("round {round}")
        };
        assert_eq!(applied.counters, [round]);
        assert_eq!(value(&store, &ann, "gold").await, Some(round.to_string()));
    }
}

/// H11: a partition that is seldom written forgets its ids all the same.
#[tokio::test]
async fn ids_are_forgotten_though_pauses_are_long() {
    let server = server_with_clock().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let ann = owner("ann");
    apply_new(&store, &ann, &[("gold", set("1"))]).await;
    let mut passed = 0;
    let mut pause = async |seconds: i64| {
        passed += seconds;
        server.skew(passed).unwrap();
        let change = if passed % 480 == 0 {
            set("1")
        } else {
            Change::Incr(1)
        };
        apply_named(&store, &ann, &[("gold", change)]).await;
    };
    for seconds in [[240; 250], [120; 250]].concat() {
        pause(seconds).await;
    }
    let sets = ["slug-ops:{0}:0", "slug-ops:{0}:1"];
    for ids in sets {
        let Reply::Integer(kept) = server.call(&["HLEN", ids]).await.unwrap() else {
            panic!("{ids}")
        };
        assert!(kept <= 103, "{ids} holds {kept}");
        // As after a game server that saves everything every few minutes.
        let many = "for id = 1, 20000 do redis.call('HSET', KEYS[1], id, '') end";
        server.call(&["EVAL", many, "1", ids]).await.unwrap();
    }
    for _ in 0..10 {
        pause(300).await;
    }
    for ids in sets {
        let Reply::Integer(kept) = server.call(&["HLEN", ids]).await.unwrap() else {
            panic!("{ids}")
        };
        assert!(kept <= 103, "{ids} holds {kept} of many");
    }
}

/// H8: versions go on above those given before the clock was set back. Leases, locks and
/// announcements end all the same.
#[tokio::test]
async fn a_clock_that_is_set_back_lowers_no_version_and_keeps_no_dead_workers_lock() {
    let server = server_with_clock().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let (ann, part, short) = (owner("ann"), [Partition(0)], Duration::from_millis(100));
    let before = apply_new(&store, &ann, &[("gold", set("1"))]).await.version;
    store
        .lock(&part, &lock("dead"), short)
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(store.announce("dead", short).await.unwrap(), ["dead"]);
    assert_eq!(
        store.lease(std::slice::from_ref(&ann), short).await,
        [Ok(true)]
    );

    server.skew(-HOUR).unwrap();
    let hot = apply(&store, &ann, &[("gold", set("2"))]).await.version;
    let fresh = apply_new(&store, &owner("bo"), &[("gold", set("1"))])
        .await
        .version;
    assert!(before < hot && hot < fresh, "{before} {hot} {fresh}");
    assert_eq!(drain_free(&store).await, 2);
    assert_eq!(
        store.evict(std::slice::from_ref(&ann)).await,
        [Ok(Evicted::Gone)]
    );
    let cold = apply(&store, &ann, &[("gold", set("3"))]).await.version;
    assert!(cold > fresh, "{cold} {fresh}");

    let takes = async {
        while store.announce("heir", short).await.unwrap() != ["heir"] {}
        while store.lease(std::slice::from_ref(&ann), short).await != [Ok(true)] {}
    };
    tokio::time::timeout(Duration::from_secs(30), takes)
        .await
        .unwrap();
}

/// Lands everything once the lock of a dead worker has run out.
async fn drain_free(store: &RedisStore) -> u32 {
    let heir = lock("heir");
    let taken = async {
        while store
            .lock(&[Partition(0)], &heir, Duration::from_millis(100))
            .await
            != [Ok(true)]
        {}
        store
            .unlock(&[Partition(0)], &heir)
            .await
            .pop()
            .unwrap()
            .unwrap();
    };
    tokio::time::timeout(Duration::from_secs(30), taken)
        .await
        .unwrap();
    drain(store).await
}

/// H11: landed data may expire when the clock leaps ahead. Unlanded data stays, with its mark.
#[tokio::test]
async fn a_clock_that_leaps_ahead_ends_clean_hashes_alone() {
    let server = server_with_clock().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let (clean, dirty) = (owner("clean"), owner("dirty"));
    for id in [&clean, &dirty] {
        apply_new(&store, id, &[("gold", set("1"))]).await;
    }
    assert_eq!(drain(&store).await, 2);
    let version = apply(&store, &dirty, &[("gold", set("2"))]).await.version;
    server.skew(2 * HOUR).unwrap();
    assert_eq!(read(&store, &clean).await.header, None);
    assert_eq!(value(&store, &dirty, "gold").await.as_deref(), Some("2"));
    assert!(apply(&store, &clean, &[("gold", set("3"))]).await.version > version);
    server.skew(0).unwrap();
    assert!(apply(&store, &dirty, &[("gold", set("4"))]).await.version > version);
    assert_eq!(drain(&store).await, 2);
}

/// H7: versions are numbers of Lua. Lua holds and prints them exactly up to 2^53.
#[tokio::test]
async fn versions_come_back_to_the_last_digit() {
    const SEED: u64 = 7;
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let ann = owner("ann");
    let mut random = StdRng::seed_from_u64(SEED);
    let now = store.time().await.unwrap().0;
    let mut versions: Vec<u64> = (0..1_000)
        .map(|_| random.random_range(2 * now..(1 << 53) - 1_000))
        .collect();
    versions.sort_unstable();
    versions.push((1 << 53) - 3);
    for landed in versions {
        let landed = Version::new(landed).unwrap();
        store
            .raise_landed(Partition(0), Epoch(1), landed)
            .await
            .unwrap();
        let seen = store
            .partition_states(&[Partition(0)])
            .await
            .pop()
            .unwrap()
            .unwrap()
            .record
            .unwrap();
        assert_eq!((seen.landed, seen.source), (landed, landed), "seed {SEED}");
        let applied = apply(&store, &ann, &[("gold", set("1"))]).await.version;
        assert_eq!(applied.get(), landed.get() + 2, "seed {SEED}");
        assert_eq!(
            read(&store, &ann).await.header.unwrap().version,
            applied,
            "seed {SEED}"
        );
    }
    let error = mutate(&store, &ann, &[("gold", set("2"))])
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Corrupt, Outcome::NotApplied),
        "no version reaches 2^53"
    );
    for _ in 0..2 {
        let collected = store
            .collect(Partition(0), &[(ann.clone(), vec![field("gold")])], None)
            .await
            .unwrap();
        assert_eq!(
            (
                collected.reaches,
                collected.reads[0].header.unwrap().version
            ),
            (Version::MAX, Version::MAX)
        );
    }
}
