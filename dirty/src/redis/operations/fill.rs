//! Writes rows that were loaded from the cold tier.

use std::collections::BTreeMap;

use redis::Value;

use super::fill_parts::has_few_rows;
use super::read;
use crate::redis::RedisStore;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Filled, HotError, HotRead, Load, key};

impl RedisStore {
    pub(in crate::redis) async fn fill_all(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        if loads.iter().all(has_few_rows) {
            return self.fill_at_once(loads).await;
        }
        let ahead = self.written_ahead(loads).await;
        let left: Vec<Load> = ahead.iter().flatten().cloned().collect();
        let mut filled = self.fill_at_once(&left).await.into_iter();
        let answer = |load: Option<Load>| load.and_then(|_| filled.next());
        let answers = ahead.into_iter().map(answer);
        answers
            .map(|answer| answer.unwrap_or(Ok(Filled::Refused)))
            .collect()
    }

    /// Fills each load by one call.
    async fn fill_at_once(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        let partitions: Vec<_> = loads
            .iter()
            .map(|load| self.space.partition(&load.owner))
            .collect();
        let commands: Vec<_> = loads
            .iter()
            .map(|load| {
                scripts::fill(
                    &self.space,
                    load,
                    self.clean_ttl,
                    self.absent_ttl,
                    self.marker_ttl,
                )
            })
            .collect();
        let mut answers = self.router.send(&commands, false).await;
        // At the memory limit Redis rejects the script before it starts. The proof needs no memory
        // (R13).
        let full =
            |answer: &_| matches!(answer, Err(Failure::Server { code, .. }) if code == "OOM");
        let unwritten: Vec<usize> = (0..answers.len())
            .filter(|index| answers.get(*index).is_some_and(full))
            .collect();
        if !unwritten.is_empty() {
            let proofs: Vec<_> = unwritten
                .iter()
                .filter_map(|index| loads.get(*index))
                .map(|load| scripts::check_fill(&self.space, load))
                .collect();
            for (index, answer) in unwritten
                .into_iter()
                .zip(self.router.send(&proofs, false).await)
            {
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        let decoded = answers.into_iter().map(|answer| answer.and_then(decode));
        crate::redis::hot_errors("fill", true, &partitions, decoded)
    }
}

/// The answer of `fill.lua` or of `check_fill.lua`.
pub(in crate::redis) fn decode(value: Value) -> Result<Filled, Failure> {
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
        other => {
            return Err(Failure::Nonsense(format!(
                "unknown answer {:?}",
                String::from_utf8_lossy(other)
            )));
        }
    };
    Ok(Filled::Accepted(read::judged(read, generation)))
}

/// The hash as if the rows had been written.
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
    all.insert(key::HEAD.into(), head);
    read::whole(all.into_iter().collect())
}
