//! Loads from the cold tier: what to observe before, and the write after.

use std::collections::BTreeMap;

use redis::Value;
use storage_model::Owner;
use storage_model::sabotage::broken;

use super::error::Failure;
use super::write::marker_of;
use super::{RedisStore, read, reply, script};
use crate::{Filled, HotError, HotRead, Load, Observed};

impl RedisStore {
    pub(super) async fn observe_all(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>> {
        let partitions: Vec<_> = owners.iter().map(|owner| self.space.partition(owner)).collect();
        let commands = owners.iter().map(|owner| script::observe(&self.space, owner)).collect();
        let observed = |value| {
            let [marker, epoch] = reply::array(value)?;
            Ok(Observed { marker: marker_of(&reply::bytes(marker)?)?, epoch: reply::epoch(&reply::bytes(epoch)?)? })
        };
        let answers = self.send_verified(commands, &partitions).await;
        let observed = answers.into_iter().zip(&partitions).map(|(answer, partition)| {
            let seen: Observed = answer.and_then(observed)?;
            // ORDER: before the caller reads the hash, which is to be judged by what was observed.
            self.answered(*partition, seen.epoch);
            Ok(seen)
        });
        super::hot_errors("observe", false, &partitions, observed)
    }

    pub(super) async fn fill_all(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        let partitions: Vec<_> = loads.iter().map(|load| self.space.partition(&load.owner)).collect();
        let commands: Vec<_> =
            loads.iter().map(|load| script::fill(&self.space, load, self.clean_ttl, self.absent_ttl)).collect();
        let mut answers = self.router.send(&commands, false).await;
        // At the memory limit the script is refused before it starts; the proof needs no memory (R13).
        let full = |answer: &_| matches!(answer, Err(Failure::Server { code, .. }) if code == "OOM" && !broken("R13-unread"));
        let unwritten: Vec<usize> = (0..answers.len()).filter(|index| answers.get(*index).is_some_and(full)).collect();
        if !unwritten.is_empty() {
            let proofs: Vec<_> =
                unwritten.iter().filter_map(|index| loads.get(*index)).map(|load| script::prove(&self.space, load)).collect();
            for (index, answer) in unwritten.into_iter().zip(self.router.send(&proofs, false).await) {
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        let decoded = answers.into_iter().map(|answer| answer.and_then(decode));
        super::hot_errors("fill", true, &partitions, decoded)
    }
}

/// The answer of `fill.lua` or of `prove.lua`.
pub(super) fn decode(value: Value) -> Result<Filled, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next().unwrap_or_default();
    let verdict = reply::bytes(next())?;
    if &*verdict == b"refused" {
        return Ok(Filled::Refused);
    }
    let generation = reply::epoch(&reply::bytes(next())?)?;
    let read = match &*verdict {
        b"filled" => read::whole(reply::pairs(next())?)?,
        b"proved" => proved(next(), next(), next(), next())?,
        other => return Err(Failure::Nonsense(format!("unknown answer {:?}", String::from_utf8_lossy(other)))),
    };
    Ok(Filled::Accepted(read::judged(read, generation)))
}

/// The hash as it would be had the rows been written.
fn proved(hash: Value, puts: Value, drops: Value, head: Value) -> Result<HotRead, Failure> {
    let head = reply::bytes(head)?;
    if head.is_empty() {
        return Ok(HotRead::default());
    }
    let mut all: BTreeMap<_, _> = reply::pairs(hash)?.into_iter().collect();
    for name in reply::list(drops)? {
        all.remove(&reply::bytes(name)?);
    }
    all.extend(reply::pairs(puts)?);
    all.insert(read::HEAD.into(), head);
    read::whole(all.into_iter().collect())
}
