//! The marks of an owner fit its time to live, after any steps (H11).

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
async fn a_hash_expires_if_and_only_if_no_map_names_its_owner() {
    let server = server().await;
    for seed in 0..8 {
        server.call(&["FLUSHALL"]).await.unwrap();
        let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
        store
            .lock(&[PARTITION], &lock("w"), Duration::from_secs(600))
            .await
            .pop()
            .unwrap()
            .unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        for number in 0..150 {
            step(&store, &mut random).await;
            check(&server, &store, &format!("seed {seed}, step {number}")).await;
        }
    }
}

/// A random event in a partition.
pub(crate) async fn step(store: &RedisStore, random: &mut StdRng) {
    let id = owner(IDS.choose(random).unwrap());
    match random.random_range(0..8) {
        0..3 => {
            let changes = ["x", "y", "z"].into_iter().filter_map(|name| {
                let change = if random.random_bool(0.2) {
                    Change::Remove
                } else {
                    set("1")
                };
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
            let entries = some(
                random,
                store
                    .scan(PARTITION, storage_dirty::Map::Snapshot, 0, 100)
                    .await
                    .unwrap()
                    .entries,
            );
            // A worker that comes late, and comes twice.
            let twice = entries.iter().chain(&entries).cloned().collect();
            settle(store, PARTITION, &lock("w"), number(store).await, twice).await;
        }
        6 => {
            let entries = some(
                random,
                store
                    .scan(PARTITION, storage_dirty::Map::Snapshot, 0, 100)
                    .await
                    .unwrap()
                    .entries,
            );
            reject(
                store,
                entries
                    .into_iter()
                    .map(|entry| rejected(entry.mark.clone().unwrap(), entry.version, Some(entry))),
            )
            .await;
        }
        _ => {
            let errors = some(
                random,
                store.errors(PARTITION, 0, 100).await.unwrap().entries,
            );
            let again = errors.into_iter().map(|error| {
                let (owner, field) = error.target.unwrap();
                rejected(
                    Mark {
                        owner,
                        fields: vec![field],
                    },
                    error.version,
                    None,
                )
            });
            reject(store, again).await;
        }
    }
}

/// The number of the present snapshot, or else of the last one.
async fn number(store: &RedisStore) -> SnapshotId {
    match store.snapshot(PARTITION, &lock("w")).await.unwrap() {
        Snapshot::Taken(number) | Snapshot::Leftover(number) => number,
        Snapshot::Empty => SnapshotId(0),
    }
}

fn some<T>(random: &mut StdRng, items: Vec<T>) -> Vec<T> {
    items
        .into_iter()
        .filter(|_| random.random_bool(0.6))
        .collect()
}

fn rejected(mark: Mark, version: Version, source: Option<Entry>) -> Rejected {
    let fault = |field: &Field| Fault {
        field: field.clone(),
        version,
        code: 1406,
        message: "too long".into(),
    };
    Rejected {
        leaves: Vec::new(),
        source,
        faults: mark.fields.iter().map(fault).collect(),
        owner: Some(mark.owner),
    }
}

async fn reject(store: &RedisStore, rejected: impl Iterator<Item = Rejected>) {
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(9));
    let rejected = rejected.collect();
    store
        .reject(&Reject {
            partition: PARTITION,
            lock: lock("w"),
            epoch: Epoch(1),
            snapshot: number(store).await,
            retry_min,
            retry_max,
            probation: false,
            rejected,
        })
        .await
        .unwrap();
}

async fn check(server: &RedisServer, store: &RedisStore, when: &str) {
    let mut names = Vec::new();
    for map in [
        "slug-marks:{0}",
        "slug-marks:{0}:saving",
        "slug-marks:{0}:error",
    ] {
        names.extend(texts(server.call(&["HKEYS", map]).await.unwrap()));
    }
    for id in IDS {
        let key = format!("slug-data:{{0}}:game:eu:player:{id}");
        let found = names.contains(&format!("game:eu:player:{id}"));
        assert_eq!(
            store.marked(&[owner(id)], None).await,
            [Ok(found)],
            "{when}: {id}"
        );
        let lasting = server.call(&["PTTL", &key]).await.unwrap() == Reply::Integer(-1);
        assert_eq!(lasting, found, "{when}: {id}");
    }
}
