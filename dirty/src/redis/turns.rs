//! Writes that `update.lua` takes go in turns by partition: while one call of a partition is under way, what comes meanwhile waits and
//! goes together in the next. Nobody waits for company: a write that finds nothing under way goes at once, alone, sent by its caller.
//! Whoever waits is carried by a task, so nobody depends on how a caller's future is polled.
//!
//! What the writes of a call share (the time, the record, the ids, the marks) costs the server one command for all of them, so that the
//! cost of a write falls as the load rises.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use storage_model::{Change, Mutation, Partition};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::RedisStore;
use super::common::locked;
use super::error::Failure;
use super::script;
use super::transport::{Answer, Command};
use super::write::given;

/// The most writes of one call, and about the most bytes that they set: the server does nothing else meanwhile.
const WRITES_MAX: usize = 128;
const BYTES_MAX: usize = 256 * 1024;

/// The share of the response timeout after which those who wait go without the call before them. It takes so long only if its caller's
/// future is not polled, as beside the branch of a `select!` that runs; and that branch may be what waits.
const PATIENCE: u32 = 10;

/// Whose turn it is, by partition.
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
struct Waiting {
    mutation: Mutation,
    answer: oneshot::Sender<Answer>,
}

/// Writes of one partition that go in one call.
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
    fn group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < WRITES_MAX && bytes < BYTES_MAX {
            // What is sent in another epoch goes in another call.
            let fits =
                |next: &mut Waiting| group.first().is_none_or(|first: &Waiting| first.mutation.epoch == next.mutation.epoch);
            let Some(next) = self.waiting.pop_front_if(fits) else { break };
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
    /// Has writes of one partition sent: those that find its turn free by the caller, who gets them as a batch, the others by
    /// a carrier. Each is answered on its own, or by nobody if the runtime ends.
    pub(super) fn take_turn(
        &self,
        partition: Partition,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> (Vec<oneshot::Receiver<Answer>>, Option<Batch>) {
        let Some(turn) = self.turns.of(partition) else { return (Vec::new(), None) };
        let mut state = locked(&turn.state);
        let mut answers = Vec::new();
        for mutation in mutations {
            let (answer, answered) = oneshot::channel();
            state.waiting.push_back(Waiting { mutation, answer });
            answers.push(answered);
        }
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
        (answers, batch)
    }

    /// Sends one write when it is its turn, alone or with others.
    pub(super) async fn send_in_turn(&self, partition: Partition, mutation: &Mutation) -> Answer {
        let (mut answers, batch) = self.take_turn(partition, [mutation.clone()]);
        if let Some(batch) = batch {
            self.send_batch(batch).await;
        }
        match answers.pop() {
            Some(answered) => given(answered.await),
            None => Err(Failure::Unverified),
        }
    }

    /// Sends batches together and hands out their answers.
    pub(super) async fn send_batches(&self, batches: Vec<Batch>) {
        let partitions: Vec<Partition> = batches.iter().map(|batch| batch.partition).collect();
        let answers = self.send_verified(batches.iter().map(|batch| self.command(batch)).collect(), &partitions).await;
        for (batch, answer) in batches.into_iter().zip(answers) {
            self.hand_out(batch, answer).await;
        }
    }

    async fn send_batch(&self, batch: Batch) {
        let answer = self.send_one_verified(self.command(&batch), batch.partition).await;
        self.hand_out(batch, answer).await;
    }

    fn command(&self, batch: &Batch) -> Command {
        script::update(&self.space, batch.partition, batch.mutations())
    }

    async fn hand_out(&self, mut batch: Batch, answer: Answer) {
        let answers = match answer {
            Err(failure) if failure.is_of_stored_data() && batch.members.len() > 1 => Box::pin(self.each_alone(&batch)).await,
            answer => shared(answer, batch.members.len()),
        };
        for (member, answer) in batch.members.drain(..).zip(answers) {
            // Who does not wait any more needs no answer.
            let _ = member.answer.send(answer);
        }
    }

    /// One key among those of the batch is spoilt, and nothing was applied: only its own write shall suffer.
    async fn each_alone(&self, batch: &Batch) -> Vec<Answer> {
        let commands = batch.mutations().map(|mutation| script::update(&self.space, batch.partition, [mutation])).collect();
        let answers = self.send_verified(commands, &vec![batch.partition; batch.members.len()]).await;
        answers.into_iter().flat_map(|answer| shared(answer, 1)).collect()
    }
}

impl Batch {
    fn mutations(&self) -> impl Iterator<Item = &Mutation> {
        self.members.iter().map(|member| &member.mutation)
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
