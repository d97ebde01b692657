//! The shared helpers of the Redis engine's tests: own servers, prepared stores, short names for
//! mutations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
pub(crate) use storage_config::{HotSettings, RedisSettings};
pub(crate) use storage_dirty::redis::Hooks;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

/// A store, prepared for its first use.
pub(crate) async fn prepared(settings: RedisSettings) -> RedisStore {
    prepared_through(settings, Hooks::default()).await
}

/// As [`prepared`], with hooks.
pub(crate) async fn prepared_through(settings: RedisSettings, hooks: Hooks) -> RedisStore {
    let store = open_through(settings, hooks).await.unwrap();
    adopt_all(&store, 1).await;
    store
}

pub(crate) async fn open_redis(settings: RedisSettings) -> Result<RedisStore, HotError> {
    RedisStore::open(&settings, &HotSettings::default()).await
}

pub(crate) async fn open_through(
    settings: RedisSettings,
    hooks: Hooks,
) -> Result<RedisStore, HotError> {
    RedisStore::open_through(&settings, &HotSettings::default(), hooks).await
}

/// The defaults at this URL, with few partitions.
pub(crate) fn settings(url: &str) -> RedisSettings {
    RedisSettings::new(url.parse().unwrap()).with(|redis| redis.partitions = 4)
}

/// Takes over every partition under this epoch.
pub(crate) async fn adopt_all(store: &RedisStore, epoch: u64) {
    let partitions: Vec<Partition> = (0..store.partition_count()).map(Partition).collect();
    let states = store.partition_states(&partitions).await;
    let adopts: Vec<Adopt> = partitions
        .iter()
        .zip(states)
        .map(|(partition, seen)| Adopt {
            partition: *partition,
            seen: seen.unwrap(),
            epoch: Epoch(epoch),
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version: Version::ZERO,
            landed_here: false,
            compare_all: false,
            feed: storage_model::Position::ZERO,
            database: None,
        })
        .collect();
    for adopted in store.adopt(&adopts).await {
        assert!(adopted.unwrap());
    }
}

pub(crate) async fn server() -> RedisServer {
    RedisServer::start(storage_servers::RedisOptions::default())
        .await
        .unwrap()
}

pub(crate) fn owner(id: &str) -> Owner {
    Owner::new("game", "eu", "player", id).unwrap()
}

pub(crate) fn field(name: &str) -> Field {
    Field::new(name).unwrap()
}

pub(crate) fn set(value: &str) -> Change {
    Change::Set(Bytes::copy_from_slice(value.as_bytes()))
}

/// A mutation whose deadline is some seconds away.
pub(crate) async fn mutation(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Mutation {
    let now = async {
        loop {
            match store.time().await {
                // A server cuts its connections when its role changes.
                Err(HotError {
                    kind: HotKind::Interrupted | HotKind::Unavailable,
                    ..
                }) => {}
                now => break now.unwrap(),
            }
        }
    };
    let deadline = tokio::time::timeout(Duration::from_secs(30), now)
        .await
        .unwrap()
        .plus(Duration::from_secs(20));
    let changes = changes
        .iter()
        .map(|(name, change)| (field(name), change.clone()))
        .collect();
    Mutation::new(owner.clone(), changes, RandomIds.next(), deadline).as_attempt(Attempt::First)
}

/// Like [`mutation`], under an id that its caller keeps.
pub(crate) async fn named(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Mutation {
    mutation(store, owner, changes)
        .await
        .as_attempt(Attempt::Named)
}

pub(crate) async fn send(store: &RedisStore, mutation: Mutation) -> Result<Mutated, HotError> {
    store.mutate(&[(mutation, Vec::new())]).await.pop().unwrap()
}

pub(crate) async fn mutate(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Result<Mutated, HotError> {
    send(store, mutation(store, owner, changes).await).await
}

/// Applies a mutation and returns its result. Fails if it was not applied.
pub(crate) async fn apply(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Applied {
    match mutate(store, owner, changes).await.unwrap() {
        Mutated::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

/// Like [`apply`], under an id that its caller keeps.
pub(crate) async fn apply_named(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Applied {
    match send(store, named(store, owner, changes).await)
        .await
        .unwrap()
    {
        Mutated::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

/// Like [`apply`], for the first write of an owner, after the cold tier answered that it has no
/// row.
pub(crate) async fn apply_new(
    store: &RedisStore,
    owner: &Owner,
    changes: &[(&str, Change)],
) -> Applied {
    let observed = store
        .observe(std::slice::from_ref(owner))
        .await
        .pop()
        .unwrap()
        .unwrap();
    let load = Load {
        owner: owner.clone(),
        observed,
        rows: Vec::new(),
        complete: true,
    };
    let mutation = mutation(store, owner, changes).await;
    match store
        .mutate(&[(mutation, vec![load])])
        .await
        .pop()
        .unwrap()
        .unwrap()
    {
        Mutated::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn read(store: &RedisStore, owner: &Owner) -> HotRead {
    store
        .read(&[Read {
            owner: owner.clone(),
            fields: Fields::All,
        }])
        .await
        .pop()
        .unwrap()
        .unwrap()
}

/// The value of a live field.
pub(crate) async fn value(store: &RedisStore, owner: &Owner, name: &str) -> Option<String> {
    let read = read(store, owner).await;
    let (_, cell) = read
        .cells
        .into_iter()
        .find(|(field, _)| field.as_str() == name)?;
    cell.live()
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
}

pub(crate) fn lock(token: &str) -> Lock {
    Lock {
        holder: "worker".into(),
        token: token.into(),
    }
}

/// Lands all data of a store, like a worker with a database that takes every row. Returns the
/// number of settled marks.
pub(crate) async fn drain(store: &RedisStore) -> u32 {
    let (mut settled, lock) = (0, lock("drain"));
    for partition in (0..store.partition_count()).map(Partition) {
        assert!(
            store
                .lock(&[partition], &lock, Duration::from_secs(10))
                .await
                .pop()
                .unwrap()
                .unwrap()
        );
        while let Snapshot::Taken(number) | Snapshot::Leftover(number) =
            store.snapshot(partition, &lock).await.unwrap()
        {
            let page = store
                .scan(partition, storage_dirty::Map::Snapshot, 0, 100)
                .await
                .unwrap();
            settled += settle(store, partition, &lock, number, page.entries)
                .await
                .cleared;
        }
        store
            .unlock(&[partition], &lock)
            .await
            .pop()
            .unwrap()
            .unwrap();
    }
    settled
}

/// Settles entries of a snapshot as they were collected.
pub(crate) async fn settle(
    store: &RedisStore,
    partition: Partition,
    lock: &Lock,
    snapshot: SnapshotId,
    entries: Vec<Entry>,
) -> Settled {
    let marks: Vec<&Mark> = entries
        .iter()
        .filter_map(|entry| entry.mark.as_ref())
        .collect();
    let wanted: Vec<_> = marks
        .iter()
        .map(|mark| (mark.owner.clone(), mark.fields.clone()))
        .collect();
    let collected = store.collect(partition, &wanted, None).await.unwrap();
    let mut rows = Vec::new();
    for ((owner, _), read) in wanted.iter().zip(&collected.reads) {
        let version = read.header.unwrap().version;
        rows.extend(
            read.cells
                .iter()
                .map(|(field, _)| (owner.clone(), field.clone(), version)),
        );
    }
    let landed = rows
        .iter()
        .map(|(_, _, version)| *version)
        .max()
        .unwrap_or_default();
    let settle = Settle {
        partition,
        lock: Some(lock.clone()),
        epoch: collected.epoch,
        snapshot,
        landed,
        marks: entries,
        rows: storage_dirty::conformance::landed_rows(rows),
        probation: false,
    };
    store.settle(&settle).await.unwrap()
}

/// Every key with its value and whether it expires, by name.
pub(crate) async fn dump(server: &RedisServer) -> Vec<(String, String)> {
    let mut keys = texts(server.call(&["KEYS", "*"]).await.unwrap());
    keys.sort();
    let mut dump = Vec::new();
    for key in keys {
        let mut held = server.call(&["DUMP", &key]).await.unwrap();
        // The fields of a record have no order, and a store's last call is not state of the
        // partition.
        if key.contains("-part:")
            && server.call(&["TYPE", &key]).await.unwrap().text().unwrap() == "hash"
        {
            let Reply::Array(fields) = server.call(&["HGETALL", &key]).await.unwrap() else {
                panic!("{key}")
            };
            let pairs = fields
                .as_chunks::<2>()
                .0
                .iter()
                .filter(|[field, _]| !field.text().unwrap().starts_with("w:"));
            let mut pairs: Vec<_> = pairs.cloned().collect();
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            held = Reply::Array(pairs.concat());
        }
        let left = server.call(&["PTTL", &key]).await.unwrap();
        dump.push((
            key,
            format!("{held:?} {}", matches!(left, Reply::Integer(-1))),
        ));
    }
    dump
}

pub(crate) fn texts(reply: Reply) -> Vec<String> {
    match reply {
        Reply::Array(items) => items
            .iter()
            .map(|item| item.text().unwrap().to_owned())
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// Counts pipelines, and loses answers on demand.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) trips: AtomicU32,
    pub(crate) commands: Mutex<Vec<&'static str>>,
    pub(crate) lose_next: AtomicU32,
}

#[async_trait]
impl Intercept for Counter {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        self.commands.lock().unwrap().extend(commands);
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        let lose = |left: u32| left.checked_sub(1);
        self.lose_next
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose)
            .map_or(Ok(()), |_| Err(Broken))
    }
}

/// A snapshot of the first epoch, by its number there.
pub(crate) fn snapshot_of_epoch_1(number: u64) -> SnapshotId {
    SnapshotId((1 << 28) + number)
}
