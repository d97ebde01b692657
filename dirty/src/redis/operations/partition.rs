//! Records, locks and sizes of partitions.

use std::time::Duration;

use redis::Value;
use storage_model::{Epoch, Partition, Timestamp, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Adopt, HotError, Lock, MemoryUse, PartitionPeek, PartitionRecord, PartitionState};

impl RedisStore {
    pub(in crate::redis) async fn states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::part_state(&self.space, *partition))
            .collect();
        let asked = self.asking();
        let states = self
            .each("partition_states", partitions, commands, state_of)
            .await;
        for (partition, state) in partitions.iter().zip(&states) {
            if let Ok(state) = state.as_ref()
                && state.is_current()
            {
                self.verified(*partition, asked, state);
            }
        }
        states
    }

    pub(in crate::redis) async fn adopt_all(
        &self,
        adopts: &[Adopt],
    ) -> Vec<Result<bool, HotError>> {
        let partitions: Vec<_> = adopts.iter().map(|adopt| adopt.partition).collect();
        let commands = adopts
            .iter()
            .map(|adopt| scripts::adopt(&self.space, adopt))
            .collect();
        let adopted = self.each("adopt", &partitions, commands, reply::yes).await;
        for (adopt, adopted) in adopts.iter().zip(&adopted) {
            if *adopted == Ok(true) {
                self.answered(adopt.partition, adopt.epoch);
            }
        }
        adopted
    }

    pub(in crate::redis) async fn raise(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError> {
        let command = scripts::raise_landed(&self.space, partition, epoch, landed);
        self.one("raise_landed", Some(partition), command, |_| Ok(()))
            .await
    }

    pub(in crate::redis) async fn peek_all(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionPeek, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::peek(&self.space, *partition))
            .collect();
        self.each("peek", partitions, commands, peek_of).await
    }

    pub(in crate::redis) async fn lock_all(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::lock(&self.space, *partition, lock, ttl))
            .collect();
        self.each("lock", partitions, commands, reply::yes).await
    }

    pub(in crate::redis) async fn renew_all(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::renew(&self.space, *partition, lock, ttl))
            .collect();
        self.each("renew", partitions, commands, reply::yes).await
    }

    pub(in crate::redis) async fn unlock_all(
        &self,
        partitions: &[Partition],
        lock: &Lock,
    ) -> Vec<Result<(), HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::unlock(&self.space, *partition, lock))
            .collect();
        self.each("unlock", partitions, commands, |_| Ok(())).await
    }

    pub(in crate::redis) async fn announce_worker(
        &self,
        worker: &str,
        ttl: Duration,
    ) -> Result<Vec<String>, HotError> {
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

    pub(in crate::redis) async fn retire_worker(&self, worker: &str) -> Result<(), HotError> {
        let key = self.space.keys.workers();
        let slot = crate::redis::connections::slot::slot_of(key.as_bytes());
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(key).arg(worker);
        self.one("retire", None, Command::write("retire", slot, cmd), |_| {
            Ok(())
        })
        .await
    }

    pub(in crate::redis) async fn memory_use(&self) -> Result<Option<MemoryUse>, HotError> {
        let nodes = self.router.nodes();
        let infos = futures::future::join_all(nodes.iter().map(|node| node.info())).await;
        let (there, away): (Vec<_>, Vec<_>) = infos.into_iter().partition(Result::is_ok);
        match away
            .into_iter()
            .find_map(Result::err)
            .filter(|_| there.is_empty())
        {
            Some(failure) => Err(hot_error(failure, "memory", false, None)),
            None => Ok(there
                .into_iter()
                .flatten()
                .filter_map(|info| info.memory)
                .max_by_key(MemoryUse::percent)),
        }
    }

    pub(in crate::redis) async fn server_time(&self) -> Result<Timestamp, HotError> {
        let decode = |value| {
            let [seconds, micros] = reply::array(value)?;
            let (seconds, micros): (u64, u64) = (reply::number(seconds)?, reply::number(micros)?);
            Ok(Timestamp(
                seconds.saturating_mul(1_000_000).saturating_add(micros),
            ))
        };
        let slot = crate::redis::connections::slot::slot_of(self.space.keys.meta().as_bytes());
        self.one(
            "time",
            None,
            Command::read("time", slot, redis::cmd("TIME")),
            decode,
        )
        .await
    }
}

/// The answer of `part_state.lua`.
pub(in crate::redis) fn state_of(value: Value) -> Result<PartitionState, Failure> {
    let [
        incarnation,
        recorded,
        epoch,
        generation,
        source,
        landed,
        database,
        collected,
    ] = reply::array(value)?;
    let incarnation = reply::text(incarnation)?;
    let record = match recorded {
        Value::Nil => None,
        recorded => Some(PartitionRecord {
            incarnation: reply::text(recorded)?,
            epoch: reply::epoch(&reply::bytes(epoch)?)?,
            generation: reply::epoch(&reply::bytes(generation)?)?,
            source: reply::version(&reply::bytes(source)?)?,
            landed: reply::version(&reply::bytes(landed)?)?,
            collected: reply::version(&reply::bytes(collected)?)?,
            database: reply::database(database)?,
        }),
    };
    Ok(PartitionState {
        incarnation,
        record,
    })
}

fn peek_of(value: Value) -> Result<PartitionPeek, Failure> {
    let [
        live,
        snapshot,
        errors,
        landed,
        leaving,
        live_since,
        snapshot_since,
        relive,
        lock,
    ] = reply::array(value)?;
    let since = |first| {
        reply::maybe(first)?
            .map(|first| reply::timestamp(&first))
            .transpose()
    };
    let lock = reply::maybe(lock)?.map(|value| String::from_utf8_lossy(&value).into_owned());
    Ok(PartitionPeek {
        live: reply::number(live)?,
        snapshot: reply::number(snapshot)?,
        errors: reply::number(errors)?,
        probation: reply::number::<u64>(landed)?.saturating_add(reply::number(leaving)?),
        relive: reply::maybe(relive)?.is_some(),
        live_since: since(live_since)?,
        snapshot_since: since(snapshot_since)?,
        holder: lock.map(|value| scripts::holder_of(&value).to_owned()),
    })
}
