//! Blind writes take turns by partition: while one call of a partition is under way, what comes meanwhile waits and goes together in
//! the next. Nobody waits for company: a write that finds nothing under way goes at once, alone.
//!
//! What the writes of a call share (the time, the record, the ids, the marks) costs the server one command for all of them, so that the
//! cost of a write falls as the load rises.

use std::collections::VecDeque;
use std::sync::Mutex;

use storage_model::{Change, Mutation, Partition};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::RedisStore;
use super::common::locked;
use super::error::Failure;
use super::script;
use super::transport::Answer;

/// The most writes of one call, and about the most bytes that they set: the server does nothing else meanwhile.
const WRITES_MAX: usize = 128;
const BYTES_MAX: usize = 256 * 1024;

/// Whose turn it is, by partition.
#[derive(Debug)]
pub(super) struct Turns(Vec<Mutex<Turn>>);

#[derive(Debug, Default)]
struct Turn {
    /// Whether there is a [`Batch`]. Taken by the caller who makes it, given back when the last one ends.
    taken: bool,
    waiting: VecDeque<Waiting>,
}

/// A write, and who waits for its answer.
#[derive(Debug)]
struct Waiting {
    mutation: Mutation,
    answer: oneshot::Sender<Answer>,
}

/// Writes of one partition that go in one call, and the turn for it. Dropped, it passes the turn on.
#[derive(Debug)]
pub(super) struct Batch {
    store: RedisStore,
    partition: Partition,
    members: Vec<Waiting>,
}

impl Turns {
    pub(super) fn new(partitions: u32) -> Self {
        Self((0..partitions).map(|_| Mutex::default()).collect())
    }

    fn of(&self, partition: Partition) -> Option<&Mutex<Turn>> {
        self.0.get(usize::try_from(partition.0).ok()?)
    }

    /// What goes next in this partition, whose turn has ended.
    fn next(&self, partition: Partition) -> Vec<Waiting> {
        let Some(turn) = self.of(partition) else { return Vec::new() };
        let mut turn = locked(turn);
        let next = turn.group();
        turn.taken = !next.is_empty();
        next
    }
}

impl Turn {
    fn group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < WRITES_MAX && bytes < BYTES_MAX {
            let Some(next) = self.waiting.pop_front() else { break };
            if !next.answer.is_closed() {
                bytes += size(&next.mutation);
                group.push(next);
            }
        }
        group
    }
}

fn size(mutation: &Mutation) -> usize {
    let values = mutation.changes.iter().map(|(_, change)| if let Change::Set(value) = change { value.len() } else { 0 });
    values.sum()
}

impl RedisStore {
    /// Has blind writes of one partition sent: those that find its turn free by the caller, who gets them as a batch, the others by
    /// whoever has the turn. Each is answered on its own, or by nobody if the runtime ends.
    pub(super) fn take_turn(
        &self,
        partition: Partition,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> (Vec<oneshot::Receiver<Answer>>, Option<Batch>) {
        let Some(turn) = self.turns.of(partition) else { return (Vec::new(), None) };
        let mut turn = locked(turn);
        let mut answers = Vec::new();
        for mutation in mutations {
            let (answer, answered) = oneshot::channel();
            turn.waiting.push_back(Waiting { mutation, answer });
            answers.push(answered);
        }
        if turn.taken {
            return (answers, None);
        }
        let members = turn.group();
        turn.taken = !members.is_empty();
        drop(turn);
        let batch = (!members.is_empty()).then(|| Batch { store: self.clone(), partition, members });
        (answers, batch)
    }

    /// Sends batches together and hands out their answers.
    pub(super) async fn send_batches(&self, mut batches: Vec<Batch>) {
        let command = |batch: &Batch| script::update(&self.space, batch.partition, batch.mutations());
        let answers = if let [batch] = &*batches {
            vec![self.send_one_verified(command(batch), batch.partition).await]
        } else {
            let partitions: Vec<Partition> = batches.iter().map(|batch| batch.partition).collect();
            self.send_verified(batches.iter().map(command).collect(), &partitions).await
        };
        for (batch, answer) in batches.iter_mut().zip(answers) {
            let answers = match answer {
                Err(failure) if failure.is_of_stored_data() && batch.members.len() > 1 => batch.each_alone().await,
                answer => shared(answer, batch.members.len()),
            };
            for (member, answer) in batch.members.drain(..).zip(answers) {
                // Who does not wait any more needs no answer.
                let _ = member.answer.send(answer);
            }
        }
    }
}

impl Batch {
    fn mutations(&self) -> impl Iterator<Item = &Mutation> {
        self.members.iter().map(|member| &member.mutation)
    }

    /// One key among those of the batch is spoilt, and nothing was applied: only its own write shall suffer.
    async fn each_alone(&self) -> Vec<Answer> {
        let commands = self.mutations().map(|mutation| script::update(&self.store.space, self.partition, [mutation])).collect();
        let answers = self.store.send_verified(commands, &vec![self.partition; self.members.len()]).await;
        answers.into_iter().flat_map(|answer| shared(answer, 1)).collect()
    }
}

/// What each of so many writes of a call is answered.
fn shared(answer: Answer, count: usize) -> Vec<Answer> {
    match answer.and_then(super::reply::list) {
        Ok(values) if values.len() == count => values.into_iter().map(Ok).collect(),
        Ok(values) => vec![Err(Failure::Nonsense(format!("{} answers to {count} writes", values.len()))); count],
        Err(failure) => vec![Err(failure); count],
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let members = self.store.turns.next(self.partition);
        if members.is_empty() {
            return;
        }
        let next = Self { store: self.store.clone(), partition: self.partition, members };
        // In a task of its own, so that a caller who goes away takes nobody with it. Without a runtime nobody waits any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { next.store.clone().send_batches(vec![next]).await });
        }
    }
}
