//! The count of an owner's marks, after any steps (H11, H12).

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

use crate::support::*;

pub(crate) const PARTITION: Partition = Partition(0);
pub(crate) const IDS: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn counts_equal_the_marks_that_can_be_found_and_a_marked_hash_never_expires() {
    let server = server().await;
    for seed in 0..8 {
        server.call(&["FLUSHALL"]).await.unwrap();
        let store = prepared(RedisOptions { partitions: 1, ..options(&server.url()) }).await;
        store.lock(&[PARTITION], &lock("w"), Duration::from_secs(600)).await.pop().unwrap().unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        for number in 0..150 {
            step(&store, &mut random).await;
            check(&server, &store, &format!("seed {seed}, step {number}")).await;
        }
    }
}

/// Something that happens in a partition.
pub(crate) async fn step(store: &RedisStore, random: &mut StdRng) {
    let id = owner(IDS.choose(random).unwrap());
    match random.random_range(0..8) {
        0..3 => {
            let changes = ["x", "y", "z"].into_iter().filter_map(|name| {
                let change = if random.random_bool(0.2) { Change::Remove } else { set("1") };
                random.random_bool(0.5).then_some((name, change))
            });
            let changes: Vec<_> = changes.collect();
            if !changes.is_empty() {
                mutate(store, &id, &changes).await.unwrap();
            }
        }
        3 => drop(store.evict(&[id]).await.pop().unwrap().unwrap()),
        4 => drop(store.snapshot(PARTITION, &lock("w")).await.unwrap()),
        5 => {
            let entries = some(random, store.scan(PARTITION, storage_dirty::Map::Snapshot, 0, 100).await.unwrap().entries);
            // A worker that comes late, and comes twice.
            let twice = entries.iter().chain(&entries).cloned().collect();
            settle(store, PARTITION, &lock("w"), twice).await;
        }
        6 => {
            let entries = some(random, store.scan(PARTITION, storage_dirty::Map::Snapshot, 0, 100).await.unwrap().entries);
            park(store, entries.into_iter().map(|entry| parked(entry.mark.clone().unwrap(), entry.version, Some(entry)))).await;
        }
        _ => {
            let errors = some(random, store.errors(PARTITION, 0, 100).await.unwrap().entries);
            let again = errors.into_iter().map(|error| {
                let (owner, field) = error.target.unwrap();
                parked(Mark { owner, fields: vec![field] }, error.version, None)
            });
            park(store, again).await;
        }
    }
}

fn some<T>(random: &mut StdRng, items: Vec<T>) -> Vec<T> {
    items.into_iter().filter(|_| random.random_bool(0.6)).collect()
}

fn parked(mark: Mark, version: Version, source: Option<Entry>) -> Parked {
    let fault = |field: &Field| Fault { field: field.clone(), version, code: 1406, message: "too long".into() };
    Parked { source, faults: mark.fields.iter().map(fault).collect(), owner: Some(mark.owner) }
}

async fn park(store: &RedisStore, parked: impl Iterator<Item = Parked>) {
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
    let parked = parked.collect();
    store
        .park(&Park { partition: PARTITION, lock: lock("w"), epoch: Epoch(1), retry_min, retry_max, probation: false, parked })
        .await
        .unwrap();
}

async fn check(server: &RedisServer, store: &RedisStore, when: &str) {
    let mut names = Vec::new();
    for map in ["slug-dirty:{0}", "slug-dirty:{0}:saving", "slug-dirty:{0}:error"] {
        names.extend(texts(server.call(&["HKEYS", map]).await.unwrap()));
    }
    for id in IDS {
        let key = format!("slug-data:{{0}}:game:eu:player:{id}");
        let found = names.iter().filter(|name| name.starts_with(&format!("game:eu:player:{id}\u{1f}"))).count();
        let counted = read(store, &owner(id)).await.header.and_then(|header| header.marks).unwrap_or_default();
        assert_eq!(usize::try_from(counted).unwrap(), found, "{when}: {id}");
        let lasting = server.call(&["PTTL", &key]).await.unwrap() == Reply::Integer(-1);
        assert_eq!(lasting, found > 0, "{when}: {id}");
    }
}

/// H12: an error mark of a hash that vanished is not in the count of the hash that follows, so clearing it takes nothing off.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_mark_from_before_a_hash_vanished_is_not_taken_off_the_count_of_the_next() {
    let server = server().await;
    let store = prepared(RedisOptions { partitions: 1, ..options(&server.url()) }).await;
    let (ann, held) = (owner("ann"), lock("w"));
    let data = "slug-data:{0}:game:eu:player:ann";
    store.lock(&[PARTITION], &held, Duration::from_secs(60)).await.pop().unwrap().unwrap();
    let snapshot = async || {
        store.snapshot(PARTITION, &held).await.unwrap();
        store.scan(PARTITION, storage_dirty::Map::Snapshot, 0, 10).await.unwrap().entries
    };
    let lost = apply(&store, &ann, &[("gold", set("1"))]).await.version;
    let entry = snapshot().await.remove(0);
    server.call(&["DEL", data]).await.unwrap();
    let fault = Fault { field: field("gold"), version: lost, code: 0, message: "vanished".into() };
    let parked = vec![Parked { source: Some(entry), owner: Some(ann.clone()), faults: vec![fault] }];
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
    store
        .park(&Park { partition: PARTITION, lock: held.clone(), epoch: Epoch(1), retry_min, retry_max, probation: false, parked })
        .await
        .unwrap();

    // A new hash, one mark settled together with the old error mark, and another mark left.
    let version = apply(&store, &ann, &[("gold", set("2"))]).await.version;
    let entry = snapshot().await.remove(0);
    apply(&store, &ann, &[("bag", set("sword"))]).await;
    let (marks, rows) = (vec![entry], vec![(ann.clone(), field("gold"), version)]);
    let settle = Settle {
        partition: PARTITION,
        lock: Some(held.clone()),
        epoch: Epoch(1),
        landed: version,
        marks,
        rows,
        probation: false,
    };
    let settled = store.settle(&settle).await.unwrap();
    assert_eq!((settled.cleared, settled.errors_cleared), (1, 1));
    assert_eq!(server.call(&["HGET", data, ":n"]).await.unwrap(), Reply::Bytes(b"1".to_vec()));
    assert_eq!(server.call(&["PTTL", data]).await.unwrap(), Reply::Integer(-1), "what has not landed has no time to live");
}
