//! Writes that `update.lua` takes go in turns by partition: while one call of a partition is under way, what comes meanwhile waits and
//! goes together in the next. Nobody waits for company: a write that finds nothing under way goes at once, alone, sent by its caller.
//! Whoever waits is carried by a task, so nobody depends on how a caller's future is polled.
//!
//! What the writes of a call share (the time, the record, the ids, the marks) costs the server one command for all of them, so that the
//! cost of a write falls as the load rises.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use storage_model::{Change, Mutation, Partition};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::RedisStore;
use super::common::locked;
use super::error::Failure;
use super::script;
use super::told::{Reply, told};
use super::transport::{Answer, Command};

/// The most writes of one call, and about the most bytes that they set: the server does nothing else meanwhile.
const WRITES_MAX: usize = 128;
const BYTES_MAX: usize = 256 * 1024;

/// The share of the response timeout after which those who wait go without the call before them. It takes so long only if its caller's
/// future is not polled, as beside the branch of a `select!` that runs; and that branch may be what waits.
const PATIENCE: u32 = 10;

/// Whose turn it is, in each partition.
#[derive(Debug)]
pub(super) struct Turns(Vec<Turn>);

#[derive(Debug, Default)]
struct Turn {
    state: Mutex<State>,
    /// The call that the carrier waits for has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a caller's [`Batch`] is under way.
    taken: bool,
    /// Whether there is a [`Carrier`], who sends whatever waits.
    carried: bool,
    waiting: VecDeque<Waiting>,
}

/// A write, and who waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) mutation: Mutation,
    pub(super) reply: Reply,
}

/// Writes of one partition that go together in one call.
#[derive(Debug)]
pub(super) struct Batch {
    partition: Partition,
    members: Vec<Waiting>,
    /// Given back when the batch is dropped. None in a carrier's batch.
    _turn: Option<Taken>,
}

/// A turn that a caller has taken.
#[derive(Debug)]
struct Taken {
    turns: Arc<Turns>,
    partition: Partition,
}

/// Sends what waits in a partition, call by call, until nothing does.
struct Carrier {
    store: RedisStore,
    partition: Partition,
    /// Nothing waited any more, and the next one who waits has a carrier of its own.
    ended: bool,
}

impl Turns {
    pub(super) fn new(partitions: u32) -> Self {
        Self((0..partitions).map(|_| Turn::default()).collect())
    }

    fn of(&self, partition: Partition) -> Option<&Turn> {
        self.0.get(usize::try_from(partition.0).ok()?)
    }
}

impl State {
    /// Has a write wait; answers where its answer comes.
    fn join(&mut self, mutation: Mutation) -> oneshot::Receiver<Answer> {
        let (to, told) = oneshot::channel();
        self.waiting.push_back(Waiting { mutation, reply: Reply::one(to) });
        told
    }

    fn group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes) = (Vec::with_capacity(self.waiting.len().min(WRITES_MAX)), 0);
        while group.len() < WRITES_MAX && bytes < BYTES_MAX {
            // What is sent in another epoch goes in another call.
            let fits = |next: &mut Waiting| {
                let same = |first: &Waiting| first.mutation.epoch == next.mutation.epoch;
                group.first().is_none_or(same)
            };
            let Some(next) = self.waiting.pop_front_if(fits) else { break };
            if next.reply.is_awaited() {
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
    /// Has writes of one partition sent: those that find its turn free by the caller, who gets them as a batch, the others by
    /// a carrier.
    pub(super) fn take_turn(&self, partition: Partition, writes: Vec<Waiting>) -> Option<Batch> {
        let mut state = locked(&self.turns.of(partition)?.state);
        state.waiting.extend(writes);
        self.begin(partition, state)
    }

    /// Has what waits in a partition sent: by the caller, who gets it as a batch, if it finds the turn free; else by a carrier.
    fn begin(&self, partition: Partition, mut state: MutexGuard<'_, State>) -> Option<Batch> {
        let mut batch = None;
        if !state.taken && !state.carried {
            state.taken = true;
            let turn = Taken { turns: Arc::clone(&self.turns), partition };
            batch = Some(Batch { partition, members: state.group(), _turn: Some(turn) });
        }
        let alone = !state.waiting.is_empty() && !state.carried;
        state.carried |= alone;
        // ORDER: before the task, which a runtime that ends drops at once.
        drop(state);
        if alone {
            let carrier = Carrier { store: self.clone(), partition, ended: false };
            tokio::spawn(carrier.carry());
        }
        batch
    }

    /// Sends one write when it is its turn, alone or with others.
    pub(super) async fn send_in_turn(&self, partition: Partition, mutation: &Mutation) -> Answer {
        let Some(turn) = self.turns.of(partition) else { return Err(Failure::Unverified) };
        let (answered, batch) = {
            let mut state = locked(&turn.state);
            (state.join(mutation.clone()), self.begin(partition, state))
        };
        if let Some(batch) = batch {
            // Boxed, so that the future of all who only wait is small.
            Box::pin(self.send_batch(batch)).await;
        }
        self.carried(&[partition], told(answered)).await
    }

    /// Waits for what carriers bring. Where they take longer than any call does, other carriers go on with what waits: the runtime of one
    /// may stand still, as one does that is left without being dropped. It does no harm if it does not: turns only save work.
    pub(super) async fn carried<T>(&self, partitions: &[Partition], told: impl Future<Output = T>) -> T {
        let mut told = std::pin::pin!(told);
        loop {
            if let Ok(told) = timeout(self.router.common.patience(), told.as_mut()).await {
                return told;
            }
            partitions.iter().for_each(|partition| self.carry_on(*partition));
        }
    }

    fn carry_on(&self, partition: Partition) {
        let Some(turn) = self.turns.of(partition) else { return };
        let mut state = locked(&turn.state);
        if !state.waiting.is_empty() {
            state.carried = true;
            drop(state);
            tokio::spawn(Carrier { store: self.clone(), partition, ended: false }.carry());
        }
    }

    /// Sends batches together and hands out their answers.
    pub(super) async fn send_batches(&self, batches: Vec<Batch>) {
        let partitions: Vec<Partition> = batches.iter().map(|batch| batch.partition).collect();
        let commands: Vec<_> = batches.iter().map(|batch| self.command(batch.partition, &batch.members)).collect();
        let answers = self.send_verified(commands, &partitions, false).await;
        for (batch, answer) in batches.into_iter().zip(answers) {
            self.hand_out(batch.partition, batch.members, answer).await;
        }
    }

    async fn send_batch(&self, Batch { partition, members, _turn }: Batch) {
        let answer = self.send_one_verified(self.command(partition, &members), partition).await;
        self.hand_out(partition, members, answer).await;
    }

    fn command(&self, partition: Partition, members: &[Waiting]) -> Command {
        script::update(&self.space, partition, members.iter().map(|member| &member.mutation))
    }

    async fn hand_out(&self, partition: Partition, members: Vec<Waiting>, answer: Answer) {
        let answers = match answer {
            Err(failure) if failure.is_of_stored_data() && members.len() > 1 => {
                Box::pin(self.each_alone(partition, &members)).await
            }
            answer => shared(answer, members.len()),
        };
        answer_all(members, answers);
    }

    /// One key among those of the batch is spoilt, and nothing was applied: only its own write shall suffer.
    async fn each_alone(&self, partition: Partition, members: &[Waiting]) -> Vec<Answer> {
        let commands = members.iter().map(|member| script::update(&self.space, partition, [&member.mutation])).collect();
        let answers = self.send_verified(commands, &vec![partition; members.len()], false).await;
        answers.into_iter().flat_map(|answer| shared(answer, 1)).collect()
    }
}

/// Answers those who wait.
fn answer_all(members: impl IntoIterator<Item = Waiting>, answers: impl IntoIterator<Item = Answer>) {
    for (mut member, answer) in members.into_iter().zip(answers) {
        member.reply.send(answer);
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

impl Carrier {
    async fn carry(mut self) {
        let turns = Arc::clone(&self.store.turns);
        let Some(turn) = turns.of(self.partition) else { return };
        let patience = self.store.router.common.response_timeout / PATIENCE;
        let taken = locked(&turn.state).taken;
        if taken {
            let _ = timeout(patience, turn.ended.notified()).await;
        }
        while let Some(members) = self.next(turn) {
            self.store.send_batch(Batch { partition: self.partition, members, _turn: None }).await;
        }
    }

    /// What goes next; none if nothing waits.
    fn next(&mut self, turn: &Turn) -> Option<Vec<Waiting>> {
        let mut state = locked(&turn.state);
        let members = state.group();
        self.ended = members.is_empty();
        state.carried = !self.ended;
        state.carried.then_some(members)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // It panicked, or its runtime ends: those who wait are told so by their channels.
        if let Some(turn) = self.store.turns.of(self.partition).filter(|_| !self.ended) {
            let mut state = locked(&turn.state);
            state.carried = false;
            state.waiting.clear();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(turn) = self.turns.of(self.partition) else { return };
        let mut state = locked(&turn.state);
        state.taken = false;
        if state.carried {
            turn.ended.notify_one();
        }
    }
}
