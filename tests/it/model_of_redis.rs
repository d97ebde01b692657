//! The engine passes the same suite on the simulator's model of Redis and on Redis. So the model is
//! right as far as the suite sees.
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_config::{HotSettings, RedisSettings};
use storage_dirty::conformance::{Life, Rig};
use storage_dirty::redis::Hooks;
use storage_dirty::{Hot, RedisStore};
use storage_model::{Owner, Partition};
use storage_tests::sim::chance::Chance;
use storage_tests::sim::clock::SkewedClock;
use storage_tests::sim::network::Link;
use storage_tests::sim::process::Process;
use storage_tests::sim::redis::Server;
use storage_tests::sim::redis::data::Data;

storage_dirty::hot_conformance!(model_of_redis, modelled());

#[derive(Debug)]
struct Modelled {
    store: Hot,
    server: Arc<Server>,
    clock: Arc<SkewedClock>,
    saved: Mutex<Data>,
}

async fn modelled() -> Box<dyn Rig> {
    let clock = Arc::new(SkewedClock::new());
    let server = Server::new(clock.clone(), None);
    let link = Link {
        server: server.clone(),
        chance: Chance::new(0, false),
        process: Arc::new(Process::default()),
    };
    let settings = RedisSettings::new("redis://modelled".parse().unwrap()).with(|redis| {
        redis.partitions = 4;
        redis.response_timeout = Duration::from_secs(30);
    });
    let hooks = Hooks {
        dial: Some(Arc::new(link)),
        ..Hooks::default()
    };
    let store = RedisStore::open_through(&settings, &HotSettings::default(), hooks)
        .await
        .unwrap();
    Box::new(Modelled {
        store: Hot::of(&Arc::new(store)),
        server,
        clock,
        saved: Mutex::default(),
    })
}

fn data_key(owner: &Owner) -> String {
    let names = format!(
        "{}:{}:{}:{}",
        owner.app(),
        owner.region(),
        owner.logic_type(),
        owner.id()
    );
    format!("slug-data:{{{}}}:{names}", owner.partition(4))
}

#[async_trait]
impl Rig for Modelled {
    fn store(&self) -> &Hot {
        &self.store
    }

    async fn advance(&self, by: Duration) {
        self.clock.forward(by);
    }

    async fn reincarnate(&self) {
        self.server.change(|data| data.replication += 1);
    }

    async fn save(&self) {
        *self.saved.lock().unwrap() = self.server.copy();
    }

    async fn rewind(&self) {
        let saved = std::mem::take(&mut *self.saved.lock().unwrap());
        self.server.change(|data| data.keys = saved.keys);
        self.reincarnate().await;
    }

    async fn wipe(&self) {
        self.server.execute(&[b"FLUSHALL".to_vec()]);
    }

    async fn life(&self, owner: &Owner) -> Life {
        let key = data_key(owner);
        match self.server.copy().keys.left(key.as_bytes()) {
            None => Life::Gone,
            Some(None) => Life::Lasting,
            Some(Some(left)) => Life::Ends(Duration::from_millis(u64::try_from(left).unwrap())),
        }
    }

    async fn exhaust(&self) {
        self.server.change(|data| data.full = true);
    }

    async fn lose(&self, owner: &Owner) {
        self.server
            .execute(&[b"DEL".to_vec(), data_key(owner).into_bytes()]);
    }

    async fn lose_marker(&self, owner: &Owner) {
        let key = data_key(owner).replace("-data:", "-exist:");
        self.server.execute(&[b"DEL".to_vec(), key.into_bytes()]);
    }

    async fn foreign_mark(&self, partition: Partition, raw: &[u8]) {
        let key = format!("slug-marks:{{{partition}}}").into_bytes();
        self.server.execute(&[
            b"HSET".to_vec(),
            key,
            raw.to_vec(),
            b"00000000000001gold".to_vec(),
        ]);
    }
}
