//! Observations: the state that a reader remembers before it asks the cold tier (R7, R14, R15).
//!
//! An observation takes three plain commands an owner, since a script costs Redis several times as
//! much. Changes between the commands are harmless. The epoch is read first. So a load under it is
//! refused if a process adopts the partition meanwhile. The marker is read before the hash. A hash
//! that is made in between gives the marker another number, so that load is refused, too.
//!
//! A marker may vanish at any moment, so a missing marker proves nothing. A script then observes the
//! owner again, and sets a marker. At the memory limit it can't. Then the version source proves the
//! load: while it stays, no hash is made.

use redis::Value;
use storage_model::{Epoch, Owner, Partition, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{HotError, Marker, Observed, key};

/// The fields of a partition's record that an observation needs.
const RECORD: [&str; 4] = [key::INCARNATION, key::EPOCH, key::GENERATION, key::SOURCE];

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
        let mut observed: Vec<_> = partitions
            .iter()
            .map(|partition| {
                let [record, marker, hash] = [next(), next(), next()];
                self.observed(*partition, record, marker, hash)
            })
            .collect();
        self.set_markers(owners, &mut observed).await;
        for (partition, seen) in partitions.iter().zip(&observed) {
            // ORDER: before the caller reads the hash, which this observation judges.
            if let Ok(seen) = seen {
                self.answered(*partition, seen.epoch);
            }
        }
        crate::redis::hot_errors("observe", false, &partitions, observed)
    }

    /// Observes the owners without a marker again, and sets their markers.
    async fn set_markers(&self, owners: &[Owner], observed: &mut [Result<Observed, Failure>]) {
        let is_missing = |seen: &Result<Observed, Failure>| matches!(seen, Ok(seen) if matches!(seen.marker, Marker::Missing(_)));
        let missing: Vec<_> = owners
            .iter()
            .zip(observed)
            .filter(|(_, seen)| is_missing(seen))
            .collect();
        if missing.is_empty() {
            return;
        }
        let commands: Vec<_> = missing
            .iter()
            .map(|(owner, _)| scripts::observe(&self.space, owner))
            .collect();
        let answers = self.router.send(&commands, false).await;
        for ((_, seen), answer) in missing.into_iter().zip(answers) {
            // At the memory limit Redis rejects the script before it starts.
            let is_full = matches!(&answer, Err(Failure::Server { code, .. }) if code == "OOM");
            if !is_full {
                *seen = answer.and_then(observed_again);
            }
        }
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
        let (incarnation, epoch, generation, source) = record_of(record?)?;
        let made_under = self.router.common.number_of(&incarnation);
        if !self.guard.is_verified(partition, made_under) {
            return Err(Failure::Unverified);
        }
        Ok(Observed {
            marker: marker_of(marker?, generation)?.unwrap_or(Marker::Missing(source)),
            present: reply::yes(hash?)?,
            epoch,
        })
    }
}

/// The answer of `observe.lua`.
pub(in crate::redis) fn observed_again(value: Value) -> Result<Observed, Failure> {
    let [marker, present, epoch] = reply::array(value)?;
    Ok(Observed {
        marker: reply::marker(&reply::bytes(marker)?)?,
        present: &*reply::bytes(present)? == b"1",
        epoch: reply::epoch(&reply::bytes(epoch)?)?,
    })
}

/// Incarnation, epoch, generation and version source of a record.
pub(in crate::redis) fn record_of(
    value: Value,
) -> Result<(String, Epoch, Epoch, Version), Failure> {
    let [incarnation, epoch, generation, source] = reply::array(value)?;
    if incarnation == Value::Nil {
        return Err(Failure::Unverified);
    }
    Ok((
        reply::text(incarnation)?,
        reply::epoch(&reply::bytes(epoch)?)?,
        reply::epoch(&reply::bytes(generation)?)?,
        reply::version(&reply::bytes(source)?)?,
    ))
}

/// The meaning of a marker in a partition of this generation. `None` if there is no marker.
pub(in crate::redis) fn marker_of(
    marker: Value,
    generation: Epoch,
) -> Result<Option<Marker>, Failure> {
    let Some(text) = reply::maybe(marker)? else {
        return Ok(None);
    };
    let Some(absence) = text.strip_prefix(b"-") else {
        return reply::marker(&text).map(Some);
    };
    let mut words = absence.splitn(2, |byte| *byte == b' ');
    let (of, number) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let number = reply::version(number)?;
    // A negative answer from before a rewind says nothing of landed data (R14).
    Ok(Some(if reply::epoch(of) == Ok(generation) {
        Marker::Absent(number)
    } else {
        Marker::Unknown(number)
    }))
}
