//! Mutations.

pub(in crate::redis) mod answers;
#[doc(hidden)]
pub mod calls;
mod completion;
pub(in crate::redis) mod queue;

use std::collections::BTreeMap;

use redis::Value;
use storage_model::{Attempt, Mutation, Outcome, Partition};

use self::calls::Fate;
use self::completion::replies;
use self::queue::{Line, Script, Waiting};
use crate::redis::RedisStore;
use crate::redis::connections::barrier::Barrier;
use crate::redis::connections::transport::Answer;
use crate::redis::error::{Failure, hot_error};
use crate::redis::operations::fill_parts::has_few_rows;
use crate::redis::scripts;
use crate::{HotError, Load, Mutated, Refusal};

impl RedisStore {
    pub(in crate::redis) async fn mutate_all(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
    ) -> Vec<Result<Mutated, HotError>> {
        match mutations {
            [one] if goes_with_others(one) => vec![self.mutate_one(&one.0).await],
            _ if has_large_load(mutations) => {
                let ahead = self.loaded_ahead(mutations).await;
                Box::pin(self.mutate_several(&ahead)).await
            }
            _ => Box::pin(self.mutate_several(mutations)).await,
        }
    }

    /// The writes, once the rows of their large loads are in the hot tier. A write whose load does not
    /// hold any more goes with an empty one, and learns that it must load again. Without a load it could
    /// go with others, and without its id (R11).
    async fn loaded_ahead(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
    ) -> Vec<(Mutation, Vec<Load>)> {
        let mut ahead = Vec::with_capacity(mutations.len());
        for (mutation, loads) in mutations {
            let written = self.written_ahead(loads).await.into_iter().zip(loads);
            let loads = written.map(|(written, load)| written.unwrap_or_else(|| empty(load)));
            ahead.push((mutation.clone(), loads.collect()));
        }
        ahead
    }

    /// Sends a write with other waiting writes of its partition.
    async fn mutate_one(&self, mutation: &Mutation) -> Result<Mutated, HotError> {
        let line = self.line_of(mutation);
        let mut answer = match mutation.attempt {
            Attempt::Retry => Box::pin(self.send_again(line, mutation)).await,
            _ => self.send_queued(line, mutation).await,
        };
        if is_left(&answer) {
            answer = Box::pin(self.send_apart(line.partition, mutation)).await;
        }
        self.mutated(line.partition, mutation, answer)
    }

    /// The queue of a write.
    fn line_of(&self, mutation: &Mutation) -> Line {
        Line {
            partition: self.space.partition(&mutation.owner),
            script: Script::of(mutation),
        }
    }

    /// Resends a write whose call was lost, unless that call was carried out.
    async fn send_again(&self, line: Line, mutation: &Mutation) -> Answer {
        match self.fate(line, mutation.id).await? {
            Fate::Answered(answer) => answer,
            Fate::Void => self.send_queued(line, mutation).await,
            Fate::Apart => self.send_apart(line.partition, mutation).await,
        }
    }

    /// Sends a write by mutate.lua, under its id.
    async fn send_apart(&self, partition: Partition, mutation: &Mutation) -> Answer {
        let answers = self.send_each(&[(mutation, &[])], &[partition]).await;
        answers
            .into_iter()
            .next()
            .unwrap_or(Err(Failure::Unverified))
    }

    async fn mutate_several(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
    ) -> Vec<Result<Mutated, HotError>> {
        let partitions: Vec<_> = mutations
            .iter()
            .map(|(mutation, _)| self.space.partition(&mutation.owner))
            .collect();
        let mut answers: Vec<Answer> = mutations.iter().map(|_| Err(Failure::Unverified)).collect();
        let (shared, alone): (Vec<usize>, Vec<usize>) = (0..mutations.len())
            .partition(|index| mutations.get(*index).is_some_and(goes_with_others));
        let (again, shared): (Vec<usize>, Vec<usize>) = shared.into_iter().partition(|index| {
            mutations
                .get(*index)
                .is_some_and(|(mutation, _)| mutation.attempt == Attempt::Retry)
        });
        let (together, each, repeated) = futures::join!(
            self.mutate_together(mutations, &shared),
            self.mutate_apart(mutations, &partitions, &alone),
            self.mutate_again(mutations, &again)
        );
        for (index, answer) in together
            .into_iter()
            .chain(alone.into_iter().zip(each))
            .chain(again.into_iter().zip(repeated))
        {
            if let Some(slot) = answers.get_mut(index) {
                *slot = answer;
            }
        }
        let left: Vec<usize> = (0..answers.len())
            .filter(|index| answers.get(*index).is_some_and(is_left))
            .collect();
        if !left.is_empty() {
            for (index, answer) in left
                .iter()
                .zip(self.mutate_left(mutations, &partitions, &left).await)
            {
                if let Some(slot) = answers.get_mut(*index) {
                    *slot = answer;
                }
            }
        }
        let named = answers.into_iter().zip(&partitions).zip(mutations);
        named
            .map(|((answer, partition), (mutation, _))| self.mutated(*partition, mutation, answer))
            .collect()
    }

    fn mutated(
        &self,
        partition: Partition,
        mutation: &Mutation,
        answer: Answer,
    ) -> Result<Mutated, HotError> {
        let mutated = answer.and_then(|value| answers::decode(value, mutation.changes.len()));
        let mutated =
            mutated.map_err(|failure| hot_error(failure, "mutate", true, Some(partition)))?;
        match &mutated {
            Mutated::Load(observed) => self.answered(partition, observed.epoch),
            Mutated::Refused(Refusal::Moved { epoch, .. }) => self.answered(partition, *epoch),
            _ => {}
        }
        Ok(mutated)
    }

    /// Sends writes through their queues, those of each queue together. The answers come in the
    /// order of the indices.
    async fn mutate_together(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
        indices: &[usize],
    ) -> Vec<(usize, Answer)> {
        if indices.is_empty() {
            return Vec::new();
        }
        let (replies, told) = replies(indices.len());
        let mut by_line: BTreeMap<Line, Vec<Waiting>> = BTreeMap::new();
        for (index, reply) in indices.iter().zip(replies) {
            if let Some((mutation, _)) = mutations.get(*index) {
                let waiting = Waiting {
                    mutation: mutation.clone(),
                    reply,
                };
                let line = self.line_of(mutation);
                by_line.entry(line).or_default().push(waiting);
            }
        }
        let waiting_in: Vec<Line> = by_line.keys().copied().collect();
        let batches: Vec<_> = by_line
            .into_iter()
            .filter_map(|(at, writes)| self.enqueue(at, writes))
            .collect();
        if !batches.is_empty() {
            self.send_batches(batches).await;
        }
        // Every write is answered, at the latest when its reply is dropped.
        let answers = self.carried(&waiting_in, told).await.unwrap_or_default();
        indices.iter().copied().zip(answers).collect()
    }

    /// Resends writes whose calls were lost.
    async fn mutate_again(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
        indices: &[usize],
    ) -> Vec<Answer> {
        let some = indices.iter().filter_map(|index| mutations.get(*index));
        let sent = some.map(|(mutation, _)| self.send_again(self.line_of(mutation), mutation));
        futures::future::join_all(sent).await
    }

    /// Sends writes, each in a call of its own.
    async fn mutate_apart(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
        partitions: &[Partition],
        indices: &[usize],
    ) -> Vec<Answer> {
        let some = picked(mutations, partitions, indices);
        let (writes, partitions): (Vec<_>, Vec<_>) = some
            .map(|((mutation, loads), partition)| ((mutation, loads.as_slice()), partition))
            .unzip();
        self.send_each(&writes, &partitions).await
    }

    /// Sends writes that calls with others left, each in a call of its own.
    async fn mutate_left(
        &self,
        mutations: &[(Mutation, Vec<Load>)],
        partitions: &[Partition],
        indices: &[usize],
    ) -> Vec<Answer> {
        let some = picked(mutations, partitions, indices);
        let (writes, partitions): (Vec<_>, Vec<_>) = some
            .map(|((mutation, _), partition)| ((mutation, &[][..]), partition))
            .unzip();
        self.send_each(&writes, &partitions).await
    }

    /// Sends writes by mutate.lua. If an answer is lost, the store remembers that the write's id
    /// tells its fate.
    pub(in crate::redis) async fn send_each(
        &self,
        writes: &[(&Mutation, &[Load])],
        partitions: &[Partition],
    ) -> Vec<Answer> {
        if writes.is_empty() {
            return Vec::new();
        }
        let commands = writes
            .iter()
            .map(|(mutation, loads)| scripts::mutate(&self.space, mutation, loads, self.marker_ttl))
            .collect();
        let answers = self.send_verified(commands, partitions, false).await;
        for (answer, (mutation, _)) in answers.iter().zip(writes) {
            if is_unknown(answer) && !mutation.attempt.is_named() {
                self.sent_apart(self.line_of(mutation), mutation.id);
            }
        }
        answers
    }
}

/// The writes at these indices, each with its partition.
fn picked<'a>(
    mutations: &'a [(Mutation, Vec<Load>)],
    partitions: &'a [Partition],
    indices: &'a [usize],
) -> impl Iterator<Item = (&'a (Mutation, Vec<Load>), Partition)> {
    indices
        .iter()
        .filter_map(|index| Some((mutations.get(*index)?, *partitions.get(*index)?)))
}

/// Whether a write with this answer may have been applied.
pub(in crate::redis) fn is_unknown(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|failure| {
        hot_error(failure.clone(), "mutate", true, None).outcome == Outcome::Unknown
    })
}

/// Whether a write is sent together with others of its partition. Writes that wait for replicas or
/// the disk have groups of their own. A write with an id that its caller keeps goes alone, since
/// only mutate.lua looks ids up.
fn goes_with_others((mutation, loads): &(Mutation, Vec<Load>)) -> bool {
    !mutation.attempt.is_named() && loads.is_empty() && !Barrier::is_of(mutation.durability)
}

/// The observation of a load alone. It tells nothing of the owner.
fn empty(load: &Load) -> Load {
    Load {
        rows: Vec::new(),
        complete: false,
        ..load.clone()
    }
}

/// Whether any of the writes has a load of many rows.
fn has_large_load(mutations: &[(Mutation, Vec<Load>)]) -> bool {
    let mut loads = mutations.iter().flat_map(|(_, loads)| loads);
    !loads.all(has_few_rows)
}

/// Whether a call with other writes left a write to `mutate.lua`.
fn is_left(answer: &Answer) -> bool {
    matches!(answer, Ok(Value::Array(values)) if values.first() == Some(&Value::BulkString(b"alone".to_vec())))
}
