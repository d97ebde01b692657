//! What is observed for a load is read by several commands: whatever happens between them, no load becomes stale by it (R7).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Dial, Stream};
use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, duplex};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::support::*;

/// Connections on which an observation of an owner stops after so many of its commands.
#[derive(Debug, Default)]
struct Stopping {
    armed: Mutex<Option<usize>>,
    stopped: Notify,
    go_on: Notify,
}

/// The [`Dial`] of them.
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
                if let Some(end) = stopping.stops_at(&sent) {
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
    /// Where the commands end that are let through, if this is an observation and it is to be stopped.
    fn stops_at(&self, sent: &[u8]) -> Option<usize> {
        let text = String::from_utf8_lossy(sent);
        let mut armed = self.armed.lock().unwrap();
        let commands = armed.filter(|_| text.contains("slug-exist:") && text.contains("slug-data:"))?;
        *armed = None;
        text.match_indices("\r\n*").nth(commands - 1).map(|(at, _)| at + 2)
    }
}

/// How many commands the server has executed that an observation consists of.
async fn executed(server: &RedisServer) -> u64 {
    let Reply::Bytes(stats) = server.call(&["INFO", "commandstats"]).await.unwrap() else { panic!("no statistics") };
    let stats = String::from_utf8(stats).unwrap();
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))?;
        line.split(',').next()?.parse::<u64>().ok()
    };
    calls("get").unwrap_or(0) + calls("hmget").unwrap_or(0)
}

#[tokio::test]
async fn an_owner_that_is_written_while_it_is_observed_is_not_loaded_without_that() {
    let server = server().await;
    let stopping = Arc::new(Stopping::default());
    let dial = Some(Arc::new(Dialled(stopping.clone())) as Arc<dyn Dial>);
    let store = prepared(RedisOptions { dial, ..options(&server.url()) }).await;
    let other = RedisStore::open(options(&server.url())).await.unwrap();
    for commands in [1, 2] {
        let ann = owner(&format!("ann {commands}"));
        let before = executed(&server).await;
        *stopping.armed.lock().unwrap() = Some(commands);
        let observing = {
            let (store, ann) = (store.clone(), ann.clone());
            tokio::spawn(async move { store.observe(std::slice::from_ref(&ann)).await.pop().unwrap().unwrap() })
        };
        let between = async {
            stopping.stopped.notified().await;
            while executed(&server).await < before + u64::try_from(commands).unwrap() {}
            apply(&other, &ann, &[("gold", Change::Set(Bytes::from_static(b"1")))]).await;
            stopping.go_on.notify_one();
            observing.await.unwrap()
        };
        let observed = tokio::time::timeout(Duration::from_secs(30), between).await.unwrap();
        // Now the database is read, and has no row of it.
        let load = Load { owner: ann.clone(), observed, rows: Vec::new(), complete: true };
        assert_eq!(drain(&other).await, 1);
        assert_eq!(other.evict(std::slice::from_ref(&ann)).await, [Ok(Evicted::Gone)]);
        assert_eq!(store.fill(&[load]).await, [Ok(Filled::Refused)], "{commands} commands before the write, {observed:?}");
    }
}
