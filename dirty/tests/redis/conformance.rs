//! The engine on Redis passes the suite of the hot tier, on one server and on a cluster of three
//! masters.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::conformance::{Capabilities, Life, Rig};
use storage_dirty::{HotStore, RedisStore};
use storage_model::{Owner, Partition};
use storage_servers::{RedisCluster, RedisServer, Reply};

use crate::support::{RedisSettings, opened, settings};

storage_dirty::hot_conformance!(single, alone());
storage_dirty::hot_conformance!(clustered, in_cluster());

/// A server of its own.
#[derive(Debug)]
struct Single {
    store: RedisStore,
    server: RedisServer,
    saved: Mutex<Vec<Saved>>,
}

/// A key, what it holds, and the milliseconds it has left.
type Saved = (Vec<u8>, Vec<u8>, i64);

async fn alone() -> Box<dyn Rig> {
    let server = RedisServer::start(storage_servers::RedisOptions::default())
        .await
        .unwrap();
    let store = opened(settings(&server.url())).await.unwrap();
    Box::new(Single {
        store,
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
    let names = format!(
        "{}:{}:{}:{}",
        owner.app(),
        owner.region(),
        owner.logic_type(),
        owner.id()
    );
    format!("{prefix}-data:{{{}}}:{names}", owner.partition(4))
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
    fn store(&self) -> &dyn HotStore {
        &self.store
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            advance: false,
            ..Capabilities::ALL
        }
    }

    async fn advance(&self, _: Duration) {}

    async fn reincarnate(&self) {
        // As when a replica becomes the primary of the same data.
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

/// A prefix of its own in a cluster that all cases share, since it takes long to start.
#[derive(Debug)]
struct Clustered {
    store: RedisStore,
    cluster: Arc<RedisCluster>,
    prefix: String,
}

async fn in_cluster() -> Box<dyn Rig> {
    static CASES: AtomicU32 = AtomicU32::new(0);
    let cluster = shared_cluster();
    let prefix = format!("case{}", CASES.fetch_add(1, Ordering::Relaxed));
    let store = opened(RedisSettings {
        prefix: prefix.clone(),
        ..settings(&cluster.url())
    })
    .await
    .unwrap();
    Box::new(Clustered {
        store,
        cluster,
        prefix,
    })
}

/// Started on a thread of its own, whose runtime outlives that of any test.
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
    /// Asks the node that knows: any other answers with a redirection.
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
    fn store(&self) -> &dyn HotStore {
        &self.store
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            life: true,
            lose: true,
            foreign_mark: true,
            ..Capabilities::default()
        }
    }

    async fn advance(&self, _: Duration) {}
    async fn reincarnate(&self) {}
    async fn save(&self) {}
    async fn rewind(&self) {}
    async fn wipe(&self) {}
    async fn exhaust(&self) {}

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
