//! Landed marks on probation.

use async_trait::async_trait;
use redis::Value;
use storage_model::{Epoch, Partition};

use super::marks::{MARKS_MAX, of_entry};
use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::redis::scripts::{Head, MarkRef};
use crate::{Entry, Expire, HotError, Lock, Probation, Probations, Window};

#[async_trait]
impl Probations for RedisStore {
    async fn probation(&self, partition: Partition, lock: &Lock) -> Result<Probation, HotError> {
        let command = scripts::probation(&self.space, partition, lock);
        self.one("probation", Some(partition), command, probation_of)
            .await
    }

    async fn expire(&self, expire: &Expire) -> Result<u32, HotError> {
        let Expire {
            partition,
            lock,
            window,
            entries,
        } = expire;
        let head = Head {
            partition: *partition,
            lock: Some(lock),
            epoch: window.epoch,
            clean_ttl: self.clean_ttl,
        };
        let call = |marks: &[MarkRef<'_>]| scripts::expire(&self.space, head, *window, marks);
        self.in_chunks("expire", *partition, entries, call).await
    }

    async fn requeue(
        &self,
        partition: Partition,
        lock: &Lock,
        entries: &[Entry],
    ) -> Result<u32, HotError> {
        let head = Head {
            partition,
            lock: Some(lock),
            epoch: Epoch(0),
            clean_ttl: self.clean_ttl,
        };
        self.in_chunks("requeue", partition, entries, |marks| {
            scripts::requeue(&self.space, head, marks)
        })
        .await
    }
}

impl RedisStore {
    /// Sends entries in as many calls as are needed, at least one, and adds up their answers.
    async fn in_chunks(
        &self,
        operation: &'static str,
        partition: Partition,
        entries: &[Entry],
        call: impl Fn(&[MarkRef<'_>]) -> Command,
    ) -> Result<u32, HotError> {
        let marks: Vec<MarkRef<'_>> = entries.iter().map(|entry| of_entry(entry)).collect();
        let mut commands: Vec<_> = marks.chunks(MARKS_MAX).map(&call).collect();
        if commands.is_empty() {
            commands.push(call(&[]));
        }
        let partitions = vec![partition; commands.len()];
        let answers = self
            .each(operation, &partitions, commands, reply::number::<u32>)
            .await;
        answers
            .into_iter()
            .try_fold(0_u32, |sum, answer| Ok(sum.saturating_add(answer?)))
    }
}

/// The answer of `probation.lua`.
fn probation_of(value: Value) -> Result<Probation, Failure> {
    let mut words = reply::list(value)?.into_iter();
    let mut next = || reply::bytes(words.next().unwrap_or(Value::Nil));
    match &*next()? {
        b"empty" => Ok(Probation::Empty),
        b"lost" => Ok(Probation::Lost),
        b"leaves" => Ok(Probation::Leaves(Window {
            epoch: reply::epoch(&next()?)?,
            number: reply::epoch(&next()?)?.0,
        })),
        other => Err(Failure::Nonsense(format!(
            "unknown answer {:?}",
            String::from_utf8_lossy(other)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_makes_no_sense_is_an_error() {
        let answer = |words: &[&str]| {
            probation_of(Value::Array(
                words
                    .iter()
                    .map(|word| Value::BulkString(word.as_bytes().to_vec()))
                    .collect(),
            ))
        };
        let leaves = Probation::Leaves(Window {
            epoch: Epoch(3),
            number: 9,
        });
        assert_eq!(answer(&["leaves", "3", "9"]).unwrap(), leaves);
        for words in [
            &["leaves", "3"][..],
            &["leaves", "x", "9"],
            &["leaves", "3", "-1"],
            &["expired"],
            &[],
        ] {
            assert!(answer(words).is_err(), "{words:?}");
        }
    }
}
