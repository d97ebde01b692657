//! Mutations.

use redis::Value;
use storage_model::{Applied, Field, Mutation};

use super::error::Failure;
use super::transport::Answer;
use super::{RedisStore, reply, script};
use crate::{HotError, Load, Marker, Mutated, Observed, Refusal, key};

impl RedisStore {
    pub(super) async fn mutate_all(&self, mutations: &[(Mutation, Option<Load>)]) -> Vec<Result<Mutated, HotError>> {
        let partitions: Vec<_> = mutations.iter().map(|(mutation, _)| self.space.partition(&mutation.owner)).collect();
        let call = |(mutation, load): &(Mutation, Option<Load>), unverified| {
            // Another owner's load proves nothing about this one.
            let load = load.as_ref().filter(|load| load.owner == mutation.owner);
            script::mutation(&self.space, mutation, load, unverified)
        };
        let commands = mutations.iter().map(|mutation| call(mutation, false)).collect();
        let mut answers = self.send_verified(commands, &partitions).await;
        let unverified: Vec<usize> = (0..answers.len()).filter(|index| answers.get(*index).is_some_and(is_unverified)).collect();
        if !unverified.is_empty() {
            let some = unverified.iter().filter_map(|index| Some((mutations.get(*index)?, *partitions.get(*index)?)));
            let (again, partitions): (Vec<_>, Vec<_>) = some.map(|(mutation, at)| (call(mutation, true), at)).unzip();
            for (index, answer) in unverified.into_iter().zip(self.send_verified(again, &partitions).await) {
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        let decoded = answers.into_iter().zip(&partitions).map(|(answer, partition)| {
            let mutated = answer.and_then(decode)?;
            match &mutated {
                Mutated::Load(observed) => self.answered(*partition, observed.epoch),
                Mutated::Refused(Refusal::Moved { epoch, .. }) => self.answered(*partition, *epoch),
                _ => {}
            }
            Ok(mutated)
        });
        super::hot_errors("mutate", true, &partitions, decoded)
    }
}

/// Whether `update.lua` leaves a write to `mutate.lua`, since the partition is served unverified.
fn is_unverified(answer: &Answer) -> bool {
    matches!(answer, Ok(Value::Array(values)) if values.first() == Some(&Value::BulkString(b"unverified".to_vec())))
}

/// The answer of `update.lua` and `mutate.lua`.
pub(super) fn decode(value: Value) -> Result<Mutated, Failure> {
    if !matches!(value, Value::Array(_)) {
        return applied(&reply::bytes(value)?).map(Mutated::Applied);
    }
    let mut values = reply::list(value)?.into_iter();
    let mut next = || reply::bytes(values.next().unwrap_or_default());
    let refusal = match &*next()? {
        b"load" => {
            let marker = marker_of(&next()?)?;
            return Ok(Mutated::Load(Observed { marker, epoch: reply::epoch(&next()?)? }));
        }
        b"expired" => Refusal::Expired,
        b"moved" => Refusal::Moved { epoch: reply::epoch(&next()?)?, generation: reply::epoch(&next()?)? },
        b"version" => Refusal::Version(reply::version(&next()?)?),
        b"exists" => Refusal::Exists(field_of(&next()?)?),
        b"integer" => Refusal::NotInteger(field_of(&next()?)?),
        b"overflow" => Refusal::Overflow(field_of(&next()?)?),
        b"unlanded" => Refusal::NotLanded,
        other => return Err(Failure::Nonsense(format!("unknown answer {:?}", String::from_utf8_lossy(other)))),
    };
    Ok(Mutated::Refused(refusal))
}

/// "version changed counters…", as it is remembered under the operation's id.
fn applied(text: &[u8]) -> Result<Applied, Failure> {
    let mut parts = text.split(|byte| *byte == b' ');
    let mut next = || parts.next().ok_or_else(|| Failure::Nonsense("a reply without version or count".to_owned()));
    let (version, changed) = (reply::version(next()?)?, reply::digits(next()?)?);
    let counters = parts.map(reply::digits).collect::<Result<Vec<_>, _>>()?;
    Ok(Applied { version, changed, counters })
}

/// A marker as scripts name it.
pub(super) fn marker_of(text: &[u8]) -> Result<Marker, Failure> {
    match text {
        b"?" => Ok(Marker::Unknown),
        b"-" => Ok(Marker::Absent),
        version => reply::version(version).map(Marker::At),
    }
}

fn field_of(name: &[u8]) -> Result<Field, Failure> {
    let field = std::str::from_utf8(name).ok().and_then(key::field_of);
    field.ok_or_else(|| Failure::Nonsense("a refusal names no field".to_owned()))
}
