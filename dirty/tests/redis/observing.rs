//! Several commands read an observation for a load. No event between them makes a load stale (R7,
//! R15).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Dial, Stream};
use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisCluster, RedisServer, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, duplex};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::support::*;

/// The fate of the next observation on its way.
#[derive(Debug, Clone, Copy, Default)]
enum Next {
    #[default]
    Nothing,
    /// It stops after this number of its commands.
    Stop(usize),
    /// Its first command asks for this key instead, and the node answers that another node has the
    /// key. The repeat stops before it is sent.
    Redirect(u8),
    /// It stops before any of it is sent.
    Hold,
}

/// Connections on which observations stop.
#[derive(Debug, Default)]
struct Stopping {
    next: Mutex<Next>,
    stopped: Notify,
    go_on: Notify,
}

/// The [`Dial`] of these connections.
#[derive(Debug)]
struct Dialled(Arc<Stopping>);

#[async_trait]
impl Dial for Dialled {
    async fn dial(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        let (mut from_server, mut to_server) = TcpStream::connect(address).await?.into_split();
        let (here, there) = duplex(1 << 20);
        let (mut from_client, mut to_client) = tokio::io::split(there);
        tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
        let stopping = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut sent = Vec::with_capacity(1 << 20);
            while from_client.read_buf(&mut sent).await? > 0 {
                if let Some(end) = stopping.stops_at(&mut sent) {
                    to_server.write_all(sent.get(..end).unwrap()).await?;
                    stopping.stopped.notify_one();
                    stopping.go_on.notified().await;
                    sent.drain(..end);
                }
                to_server.write_all(&sent).await?;
                sent.clear();
            }
            io::Result::Ok(())
        });
        Ok(Box::new(here))
    }
}

impl Stopping {
    /// A store over such connections.
    async fn store(settings: RedisSettings) -> (Arc<Self>, RedisStore) {
        let stopping = Arc::new(Self::default());
        let hooks = Hooks {
            dial: Some(Arc::new(Dialled(stopping.clone()))),
            ..Hooks::default()
        };
        (stopping, prepared_through(settings, hooks).await)
    }

    /// The end of the commands that are let through. None for other requests, and for observations
    /// that are not stopped.
    fn stops_at(&self, sent: &mut Vec<u8>) -> Option<usize> {
        let text = String::from_utf8_lossy(sent).into_owned();
        let mut next = self.next.lock().unwrap();
        if !text.contains("slug-part:") || !text.contains("HMGET") {
            return None;
        }
        let end_of = |commands: usize| {
            text.match_indices("\r\n*")
                .nth(commands - 1)
                .map(|(at, _)| at + 2)
        };
        match std::mem::take(&mut *next) {
            Next::Nothing => None,
            Next::Stop(commands) => end_of(commands),
            Next::Hold => Some(0),
            Next::Redirect(key) => {
                let foreign = format!("*2\r\n$3\r\nGET\r\n$1\r\n{}\r\n", char::from(key));
                sent.splice(..end_of(1).unwrap(), foreign.into_bytes());
                *next = Next::Hold;
                None
            }
        }
    }

    /// Observes an owner, and runs `between` while the observation is stopped.
    async fn observe(
        &self,
        store: &RedisStore,
        owner: &Owner,
        next: Next,
        between: impl Future<Output = ()>,
    ) -> Observed {
        *self.next.lock().unwrap() = next;
        let observing = {
            let (store, owner) = (store.clone(), owner.clone());
            tokio::spawn(async move {
                store
                    .observe(std::slice::from_ref(&owner))
                    .await
                    .pop()
                    .unwrap()
                    .unwrap()
            })
        };
        let observed = async {
            self.stopped.notified().await;
            between.await;
            self.go_on.notify_one();
            observing.await.unwrap()
        };
        tokio::time::timeout(Duration::from_secs(30), observed)
            .await
            .unwrap()
    }
}

/// The number of commands of observations that the server has executed.
async fn executed(server: &RedisServer) -> u64 {
    let Reply::Bytes(stats) = server.call(&["INFO", "commandstats"]).await.unwrap() else {
        panic!("no statistics")
    };
    let stats = String::from_utf8(stats).unwrap();
    let calls = |command: &str| {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))?;
        line.split(',').next()?.parse::<u64>().ok()
    };
    ["get", "hmget", "exists"]
        .into_iter()
        .filter_map(calls)
        .sum()
}

async fn executes(server: &RedisServer, commands: u64) {
    while executed(server).await < commands {}
}

/// The number of the master, of three, that serves a key.
async fn master_of(cluster: &RedisCluster, key: &str) -> i64 {
    let slot = cluster
        .node(0)
        .unwrap()
        .call(&["CLUSTER", "KEYSLOT", key])
        .await
        .unwrap();
    let Reply::Integer(slot) = slot else {
        panic!("{slot:?}")
    };
    slot * 3 / 16_384
}

/// Observes an owner, which sets its marker if it has none.
async fn set_marker(store: &RedisStore, owner: &Owner) {
    let observed = store.observe(std::slice::from_ref(owner)).await.pop();
    observed.unwrap().unwrap();
}

/// A load without rows.
fn nothing(owner: &Owner, observed: Observed) -> Load {
    Load {
        owner: owner.clone(),
        observed,
        rows: Vec::new(),
        complete: true,
    }
}

#[tokio::test]
async fn an_owner_that_is_written_while_it_is_observed_is_not_loaded_without_that() {
    let server = server().await;
    let settings = settings(&server.url());
    let (stopping, store) = Stopping::store(settings.clone()).await;
    let other = open_redis(settings).await.unwrap();
    for commands in [1, 2] {
        let ann = owner(&format!("ann {commands}"));
        let before = executed(&server).await;
        let between = async {
            executes(&server, before + u64::try_from(commands).unwrap()).await;
            apply(&other, &ann, &[("gold", set("1"))]).await;
        };
        let observed = stopping
            .observe(&store, &ann, Next::Stop(commands), between)
            .await;
        // Now the database is read. It has no row of the owner.
        let load = nothing(&ann, observed);
        assert_eq!(drain(&other).await, 1);
        assert_eq!(
            other.evict(std::slice::from_ref(&ann)).await,
            [Ok(Evicted::Gone)]
        );
        assert_eq!(
            store.fill(&[load]).await,
            [Ok(Filled::Refused)],
            "{commands} commands before the write, {observed:?}"
        );
    }
}

#[tokio::test]
async fn an_adoption_while_an_owner_is_observed_voids_what_is_loaded() {
    let server = server().await;
    let settings = settings(&server.url());
    let (stopping, store) = Stopping::store(settings.clone()).await;
    let other = open_redis(settings).await.unwrap();
    for (commands, epoch) in [(1, 2), (2, 3)] {
        let ann = owner("ann");
        // Without a marker the owner would be observed once more, in the new epoch.
        set_marker(&other, &ann).await;
        let before = executed(&server).await;
        let between = async {
            executes(&server, before + u64::try_from(commands).unwrap()).await;
            adopt_all(&other, epoch).await;
        };
        let observed = stopping
            .observe(&store, &ann, Next::Stop(commands), between)
            .await;
        assert_eq!(observed.epoch, Epoch(epoch - 1));
        assert_eq!(
            store.fill(&[nothing(&ann, observed)]).await,
            [Ok(Filled::Refused)]
        );
    }
}

#[tokio::test]
async fn an_observation_that_is_redirected_is_made_again_as_a_whole() {
    let cluster = RedisCluster::start(3, 0).await.unwrap();
    let settings = settings(&cluster.url());
    let (stopping, store) = Stopping::store(settings.clone()).await;
    let other = open_redis(settings).await.unwrap();
    let ann = owner("ann");
    // Without a marker the owner would be observed once more, as a whole.
    set_marker(&other, &ann).await;
    let between = async {
        apply(&other, &ann, &[("gold", set("1"))]).await;
    };
    let here = master_of(&cluster, &format!("slug-part:{{{}}}", ann.partition(4))).await;
    let mut elsewhere = None;
    for key in b'a'..=b'z' {
        if master_of(&cluster, &char::from(key).to_string()).await != here {
            elsewhere = Some(key);
        }
    }
    let observed = stopping
        .observe(&store, &ann, Next::Redirect(elsewhere.unwrap()), between)
        .await;
    let version = read(&other, &ann).await.header.unwrap().version;
    assert_eq!(
        (observed.marker, observed.present),
        (Marker::At(version), true)
    );
}
