//! The hot tier as a whole: its time, its servers and their memory, and its workers.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::Timestamp;

use crate::redis::RedisStore;
use crate::redis::connections::slot::slot_of;
use crate::redis::connections::transport::Command;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::{HotError, HotPaired, HotPairing, MemoryUse, Tier};

#[async_trait]
impl Tier for RedisStore {
    fn is_named(&self) -> bool {
        self.router.is_named()
    }

    async fn time(&self) -> Result<Timestamp, HotError> {
        let slot = slot_of(self.space.keys.meta().as_bytes());
        self.one(
            "time",
            None,
            Command::read("time", slot, redis::cmd("TIME")),
            reply::time,
        )
        .await
    }

    async fn pairing(&self) -> Result<HotPairing, HotError> {
        self.read_pairing().await
    }

    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError> {
        self.write_pairing(seen, paired).await
    }

    async fn check(&self) -> Result<(), HotError> {
        const OPERATION: &str = "check";
        let asked = self
            .router
            .ask_again()
            .await
            .map_err(|failure| hot_error(failure, OPERATION, false, None));
        self.check_nodes(OPERATION).await.and(asked)
    }

    async fn memory(&self) -> Result<Vec<MemoryUse>, HotError> {
        let nodes = self.router.nodes();
        let infos = futures::future::join_all(nodes.iter().map(|node| async {
            let memory = node.info().await?.memory;
            Ok(memory.map(|memory| MemoryUse {
                server: node.name.clone(),
                ..memory
            }))
        }))
        .await;
        let (there, away): (Vec<_>, Vec<_>) = infos.into_iter().partition(Result::is_ok);
        match away
            .into_iter()
            .find_map(Result::err)
            .filter(|_| there.is_empty())
        {
            Some(failure) => Err(hot_error(failure, "memory", false, None)),
            None => Ok(there.into_iter().flatten().flatten().collect()),
        }
    }

    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError> {
        let names = |value| {
            reply::list(value)?
                .into_iter()
                .map(reply::text)
                .collect::<Result<Vec<_>, Failure>>()
        };
        let mut names = self
            .one(
                "announce",
                None,
                scripts::announce(&self.space, worker, ttl),
                names,
            )
            .await?;
        names.sort_unstable();
        Ok(names)
    }

    async fn retire(&self, worker: &str) -> Result<(), HotError> {
        let key = self.space.keys.workers();
        let slot = slot_of(key.as_bytes());
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(key).arg(worker);
        self.one("retire", None, Command::write("retire", slot, cmd), |_| {
            Ok(())
        })
        .await
    }
}
