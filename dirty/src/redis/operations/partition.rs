//! Records, locks and sizes of partitions.

use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use storage_model::{Epoch, Partition, Timestamp, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Adopt, HotError, Lock, PartitionPeek, PartitionRecord, PartitionState, Partitions};

#[async_trait]
impl Partitions for RedisStore {
    fn partition_count(&self) -> u32 {
        self.space.partitions()
    }

    async fn partition_states(
        &self,
        partitions: &[Partition],
    ) -> Vec<Result<PartitionState, HotError>> {
        let asked = self.asking();
        let states = self
            .each_partition(
                "partition_states",
                partitions,
                |at| scripts::part_state(&self.space, at),
                state_of,
            )
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

    async fn times(&self, partitions: &[Partition]) -> Vec<Result<Timestamp, HotError>> {
        let ask = |at| Command::read("time", self.space.slot(at), redis::cmd("TIME"));
        self.each_partition("time", partitions, ask, reply::time)
            .await
    }

    async fn adopt(&self, adopts: &[Adopt]) -> Vec<Result<bool, HotError>> {
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

    async fn raise_landed(
        &self,
        partition: Partition,
        epoch: Epoch,
        landed: Version,
    ) -> Result<(), HotError> {
        let command = scripts::raise_landed(&self.space, partition, epoch, landed);
        self.one("raise_landed", Some(partition), command, |_| Ok(()))
            .await
    }

    async fn peek(&self, partitions: &[Partition]) -> Vec<Result<PartitionPeek, HotError>> {
        self.each_partition(
            "peek",
            partitions,
            |at| scripts::peek(&self.space, at),
            peek_of,
        )
        .await
    }

    async fn lock(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        self.each_partition(
            "lock",
            partitions,
            |at| scripts::lock(&self.space, at, lock, ttl),
            reply::yes,
        )
        .await
    }

    async fn renew(
        &self,
        partitions: &[Partition],
        lock: &Lock,
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        self.each_partition(
            "renew",
            partitions,
            |at| scripts::renew(&self.space, at, lock, ttl),
            reply::yes,
        )
        .await
    }

    async fn unlock(&self, partitions: &[Partition], lock: &Lock) -> Vec<Result<(), HotError>> {
        self.each_partition(
            "unlock",
            partitions,
            |at| scripts::unlock(&self.space, at, lock),
            |_| Ok(()),
        )
        .await
    }

    async fn forget_calls(&self, partitions: &[Partition]) -> Result<(), HotError> {
        self.forget_stores(partitions).await
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
        stamp,
    ] = reply::array(value)?;
    let incarnation = reply::text(incarnation)?;
    let record = match recorded {
        Value::Nil => None,
        recorded => Some(PartitionRecord {
            incarnation: reply::text(recorded)?,
            epoch: reply::epoch(&reply::bytes(epoch)?)?,
            stamp: reply::stamp(stamp)?,
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
        expiring,
        live_since,
        snapshot_since,
        requeue,
        lock,
        last_note,
        noted,
        stream,
        resynced,
        recorded,
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
        probation: reply::number::<u64>(landed)?.saturating_add(reply::number(expiring)?),
        requeue: reply::maybe(requeue)?.is_some(),
        live_since: since(live_since)?,
        snapshot_since: since(snapshot_since)?,
        holder: lock.map(|value| scripts::holder_of(&value).to_owned()),
        last_note: reply::position(&reply::bytes(last_note)?)?,
        noted: reply::position(&reply::bytes(noted)?)?,
        stream: reply::number(stream)?,
        is_resynced: reply::yes(resynced)?,
        has_record: reply::yes(recorded)?,
    })
}
