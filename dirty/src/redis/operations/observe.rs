//! Observations: the state that a reader remembers before it asks the cold tier (R7, R14, R15).
//!
//! An observation takes three plain commands an owner, since a script costs Redis several times as
//! much. Changes between the commands are harmless. The epoch is read first. So a load under it is
//! refused if a process adopts the partition meanwhile. The marker is read before the hash. A hash
//! that is made in between gives the marker another number, so that load is refused, too.

use redis::Value;
use storage_model::{Epoch, Owner, Partition};

use crate::redis::RedisStore;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::{HotError, Marker, Observed, key};

/// The fields of a partition's record that an observation needs.
const RECORD: [&str; 3] = [key::INCARNATION, key::EPOCH, key::GENERATION];

/// How many commands observe one owner.
const COMMANDS: usize = 3;

impl RedisStore {
    pub(in crate::redis) async fn observe_all(
        &self,
        owners: &[Owner],
    ) -> Vec<Result<Observed, HotError>> {
        let partitions = self.space.partitions_of(owners);
        let commands = owners
            .iter()
            .zip(&partitions)
            .flat_map(|(owner, partition)| self.observing(*partition, owner))
            .collect();
        let of_each: Vec<_> = partitions
            .iter()
            .flat_map(|partition| [*partition; COMMANDS])
            .collect();
        // ORDER: together. Otherwise a redirected part would come after the others.
        let mut answers = self
            .send_verified(commands, &of_each, true)
            .await
            .into_iter();
        let mut next = || answers.next().unwrap_or(Err(Failure::TimedOut));
        let observed = partitions.iter().map(|partition| {
            let [record, marker, hash] = [next(), next(), next()];
            let seen = self.observed(*partition, record, marker, hash)?;
            // ORDER: before the caller reads the hash, which this observation judges.
            self.answered(*partition, seen.epoch);
            Ok(seen)
        });
        crate::redis::hot_errors("observe", false, &partitions, observed)
    }

    fn observing(&self, partition: Partition, owner: &Owner) -> [Command; COMMANDS] {
        let (keys, slot) = (&self.space.keys, self.space.slot(partition));
        let command = |name: &str, key: String, fields: &[&str]| {
            let mut cmd = redis::cmd(name);
            cmd.arg(key).arg(fields);
            Command::read("observe", slot, cmd)
        };
        // ORDER: the record, the marker, the hash.
        [
            command("HMGET", keys.part(partition), &RECORD),
            command("GET", keys.exist(partition, owner), &[]),
            command("EXISTS", keys.data(partition, owner), &[]),
        ]
    }

    fn observed(
        &self,
        partition: Partition,
        record: Answer,
        marker: Answer,
        hash: Answer,
    ) -> Result<Observed, Failure> {
        let (incarnation, epoch, generation) = record_of(record?)?;
        let made_under = self.router.common.number_of(&incarnation);
        if !self.guard.is_verified(partition, made_under) {
            return Err(Failure::Unverified);
        }
        Ok(Observed {
            marker: marker_of(marker?, generation)?,
            present: reply::yes(hash?)?,
            epoch,
        })
    }
}

/// Incarnation, epoch and generation of a record.
pub(in crate::redis) fn record_of(value: Value) -> Result<(String, Epoch, Epoch), Failure> {
    let [incarnation, epoch, generation] = reply::array(value)?;
    if incarnation == Value::Nil {
        return Err(Failure::Unverified);
    }
    Ok((
        reply::text(incarnation)?,
        reply::epoch(&reply::bytes(epoch)?)?,
        reply::epoch(&reply::bytes(generation)?)?,
    ))
}

/// The meaning of a marker in a partition of this generation.
pub(in crate::redis) fn marker_of(marker: Value, generation: Epoch) -> Result<Marker, Failure> {
    let Some(text) = reply::maybe(marker)? else {
        return Ok(Marker::Unknown);
    };
    match text.strip_prefix(b"-") {
        // A negative answer from before a rewind says nothing of landed data (R14).
        Some(of) if reply::epoch(of) == Ok(generation) => Ok(Marker::Absent),
        Some(_) => Ok(Marker::Unknown),
        None => reply::version(&text).map(Marker::At),
    }
}
