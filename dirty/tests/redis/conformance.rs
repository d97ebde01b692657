//! The engine on Redis passes the suite of the hot tier, on one server and on a cluster of three
//! masters.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::Hot;
use storage_dirty::conformance::{Life, Rig, Skip};
use storage_model::{Owner, Partition};
use storage_servers::{RedisCluster, RedisServer, Reply};

use crate::support::{open_redis, settings};

storage_dirty::hot_conformance!(single, alone(), SKIPPED_ALONE);
storage_dirty::hot_conformance!(clustered, in_cluster(), SKIPPED_IN_CLUSTER);

const CLOCK: &str = "nobody moves the clock of a real server; the model of Redis runs the case";
const SHARED: &str = "all cases share the cluster, which a case can't stop, empty or fill";

const SKIPPED_ALONE: &[Skip] = &[
    ("loads::an_empty_answer_runs_out", CLOCK),
    ("loads::the_marker_of_a_hash_runs_out", CLOCK),
    ("eviction::a_clean_hash_ends_and_a_dirty_one_stays", CLOCK),
    ("locks::a_renewed_lock_lasts_on", CLOCK),
];

const SKIPPED_IN_CLUSTER: &[Skip] = &[
    ("loads::an_empty_answer_runs_out", CLOCK),
    ("loads::the_marker_of_a_hash_runs_out", CLOCK),
    ("eviction::a_clean_hash_ends_and_a_dirty_one_stays", CLOCK),
    ("locks::a_renewed_lock_lasts_on", CLOCK),
    (
        "loads::a_hash_that_was_rewound_is_compared_with_its_rows",
        SHARED,
    ),
    (
        "eviction::at_the_memory_limit_writes_are_refused_and_landing_goes_on",
        SHARED,
    ),
    (
        "notes::at_the_memory_limit_a_note_is_refused_with_its_write",
        SHARED,
    ),
    (
        "whole::at_the_memory_limit_a_comparison_is_answered_and_not_kept",
        SHARED,
    ),
    (
        "partitions::nothing_works_on_a_partition_without_a_record",
        SHARED,
    ),
    (
        "partitions::a_first_adoption_starts_above_what_has_landed",
        SHARED,
    ),
    (
        "partitions::no_version_is_given_again_after_a_rewind",
        SHARED,
    ),
    (
        "partitions::another_incarnation_stops_all_that_needs_proof",
        SHARED,
    ),
    ("sessions::of_two_claims_the_later_session_wins", SHARED),
    (
        "sessions::a_session_that_a_rewind_forgot_is_claimed_and_goes_on_where_it_was",
        SHARED,
    ),
    (
        "sessions::once_the_grace_has_ended_a_forgotten_session_is_not_claimed",
        SHARED,
    ),
    (
        "openings::at_the_memory_limit_nothing_is_opened_and_sessions_end",
        SHARED,
    ),
    (
        "pins::a_session_that_is_claimed_or_lapses_takes_and_gives_a_time_to_live",
        SHARED,
    ),
    (
        "holders::a_holder_whose_beat_was_forgotten_is_missed",
        SHARED,
    ),
    (
        "holders::who_asked_for_a_session_is_forgotten_with_it",
        SHARED,
    ),
    ("holders::another_incarnation_changes_no_session", SHARED),
];

/// A server of its own.
#[derive(Debug)]
struct Single {
    store: Hot,
    server: RedisServer,
    saved: Mutex<Vec<Saved>>,
}

/// A key, its value, and the milliseconds it has left.
type Saved = (Vec<u8>, Vec<u8>, i64);

async fn alone() -> Box<dyn Rig> {
    let server = RedisServer::start(storage_servers::RedisOptions::default())
        .await
        .unwrap();
    let store = open_redis(settings(&server.url())).await.unwrap();
    Box::new(Single {
        store: Hot::of(&Arc::new(store)),
        server,
        saved: Mutex::default(),
    })
}

impl Single {
    async fn call(&self, args: &[&[u8]]) -> Reply {
        self.server.call(args).await.unwrap()
    }

    async fn keys(&self) -> Vec<Vec<u8>> {
        match self.call(&[b"KEYS", b"*"]).await {
            Reply::Array(keys) => keys.into_iter().map(bytes).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn bytes(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// The key of an owner whose names need no escaping.
fn data_key(prefix: &str, owner: &Owner) -> String {
    owner_key(prefix, "data", owner)
}

/// The key of an owner's marker.
fn marker_key(prefix: &str, owner: &Owner) -> String {
    owner_key(prefix, "exist", owner)
}

fn owner_key(prefix: &str, kind: &str, owner: &Owner) -> String {
    let names = format!(
        "{}:{}:{}:{}",
        owner.app(),
        owner.region(),
        owner.logic_type(),
        owner.id()
    );
    format!("{prefix}-{kind}:{{{}}}:{names}", owner.partition(4))
}

fn life_of(left: &Reply) -> Life {
    match left {
        Reply::Integer(-2) => Life::Gone,
        Reply::Integer(-1) => Life::Lasting,
        Reply::Integer(left) => Life::Ends(Duration::from_millis(u64::try_from(*left).unwrap())),
        other => panic!("{other:?}"),
    }
}

#[async_trait]
impl Rig for Single {
    fn store(&self) -> &Hot {
        &self.store
    }

    async fn reincarnate(&self) {
        // This happens when a replica becomes the primary of the same data.
        self.call(&[b"DEBUG", b"CHANGE-REPL-ID"]).await;
    }

    async fn save(&self) {
        let mut saved = Vec::new();
        for key in self.keys().await {
            let held = bytes(self.call(&[b"DUMP", &key]).await);
            let Reply::Integer(left) = self.call(&[b"PTTL", &key]).await else {
                panic!("no time")
            };
            saved.push((key, held, left));
        }
        *self.saved.lock().unwrap() = saved;
    }

    async fn rewind(&self) {
        self.wipe().await;
        let saved = std::mem::take(&mut *self.saved.lock().unwrap());
        for (key, held, left) in saved {
            self.call(&[b"RESTORE", &key, left.max(0).to_string().as_bytes(), &held])
                .await;
        }
        self.reincarnate().await;
    }

    async fn wipe(&self) {
        self.call(&[b"FLUSHALL"]).await;
    }

    async fn life(&self, owner: &Owner) -> Life {
        life_of(
            &self
                .call(&[b"PTTL", data_key("slug", owner).as_bytes()])
                .await,
        )
    }

    async fn exhaust(&self) {
        self.call(&[b"CONFIG", b"SET", b"maxmemory", b"1mb"]).await;
    }

    async fn lose(&self, owner: &Owner) {
        self.call(&[b"DEL", data_key("slug", owner).as_bytes()])
            .await;
    }

    async fn lose_marker(&self, owner: &Owner) {
        self.call(&[b"DEL", marker_key("slug", owner).as_bytes()])
            .await;
    }

    async fn foreign_mark(&self, partition: Partition, raw: &[u8]) {
        self.call(&[
            b"HSET",
            format!("slug-marks:{{{partition}}}").as_bytes(),
            raw,
            b"00000000000001gold",
        ])
        .await;
    }
}

/// A prefix of its own in a cluster that all cases share, since a cluster takes long to start.
#[derive(Debug)]
struct Clustered {
    store: Hot,
    cluster: Arc<RedisCluster>,
    prefix: String,
}

async fn in_cluster() -> Box<dyn Rig> {
    static CASES: AtomicU32 = AtomicU32::new(0);
    let cluster = shared_cluster();
    let prefix = format!("case{}", CASES.fetch_add(1, Ordering::Relaxed));
    let store = open_redis(settings(&cluster.url()).with(|redis| redis.prefix = prefix.clone()))
        .await
        .unwrap();
    Box::new(Clustered {
        store: Hot::of(&Arc::new(store)),
        cluster,
        prefix,
    })
}

/// The shared cluster. A thread of its own starts it, and the thread's runtime outlives that of any
/// test.
fn shared_cluster() -> Arc<RedisCluster> {
    static CLUSTER: OnceLock<Arc<RedisCluster>> = OnceLock::new();
    let start = || {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            send.send(Arc::new(
                runtime.block_on(RedisCluster::start(3, 0)).unwrap(),
            ))
            .unwrap();
            loop {
                std::thread::park();
            }
        });
        receive.recv().unwrap()
    };
    CLUSTER.get_or_init(start).clone()
}

impl Clustered {
    /// Asks the node that serves the key. Any other node answers with a redirection.
    async fn call(&self, args: &[&[u8]]) -> Reply {
        for node in self.cluster.nodes() {
            if let Ok(reply) = node.call(args).await {
                return reply;
            }
        }
        panic!("no node answers");
    }
}

#[async_trait]
impl Rig for Clustered {
    fn store(&self) -> &Hot {
        &self.store
    }

    async fn life(&self, owner: &Owner) -> Life {
        life_of(
            &self
                .call(&[b"PTTL", data_key(&self.prefix, owner).as_bytes()])
                .await,
        )
    }

    async fn lose(&self, owner: &Owner) {
        self.call(&[b"DEL", data_key(&self.prefix, owner).as_bytes()])
            .await;
    }

    async fn lose_marker(&self, owner: &Owner) {
        self.call(&[b"DEL", marker_key(&self.prefix, owner).as_bytes()])
            .await;
    }

    async fn foreign_mark(&self, partition: Partition, raw: &[u8]) {
        self.call(&[
            b"HSET",
            format!("{}-marks:{{{partition}}}", self.prefix).as_bytes(),
            raw,
            b"00000000000001gold",
        ])
        .await;
    }
}
