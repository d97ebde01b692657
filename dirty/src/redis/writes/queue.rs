//! The queues of writes that `update.lua` takes, one for each partition. While one call of a
//! partition is under way, new writes wait and go together in the next call. No write waits for
//! company: a write that finds no call under way goes at once, alone, sent by its caller. A task
//! sends the waiting writes, so none of them depends on how another caller's future is polled.
//!
//! The writes of a call share the time, the record and the marks. Each of these costs the server
//! one command for the whole call. So the cost of a write falls as the load rises. Each call has a
//! number ([`Calls`]).
//!
//! This is no `Coalescer`: a lone write is sent by its caller, and waiting writes overtake a call
//! that stands still, since the number of the next call ends it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use redis::Value;
use storage_model::{Change, Mutation, OpId, Partition, tries};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::calls::{Calls, Fate};
use super::completion::{Reply, told};
use super::is_unknown;
use crate::redis::RedisStore;
use crate::redis::connections::common::locked;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;

/// The most writes of one call, and about the most bytes that they set. The server does nothing
/// else during a call.
const WRITES_MAX: usize = 128;
const BYTES_MAX: usize = 256 * 1024;

/// After the response timeout divided by this, waiting writes go without the call before them. A
/// call takes so long only if its caller's future is not polled, for example beside the running
/// branch of a `select!`. That branch may itself wait for a write.
const PATIENCE: u32 = 2;

/// The queues of all partitions.
#[derive(Debug)]
pub(in crate::redis) struct Queues(Vec<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Notifies the flusher that the call before it has ended.
    ended: Notify,
    /// Notifies callers that a lost call was ended, or could not be.
    call_ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a caller's [`Batch`] is under way.
    taken: bool,
    /// Whether there is a [`Flusher`], which sends the waiting writes.
    carried: bool,
    waiting: VecDeque<Waiting>,
    calls: Calls<Answer>,
    /// The call that a caller is about to end.
    ending: Option<u64>,
}

/// A write, and the reply to its caller.
#[derive(Debug)]
pub(in crate::redis) struct Waiting {
    pub(super) mutation: Mutation,
    pub(super) reply: Reply,
}

/// Writes of one partition that go together in one call.
#[derive(Debug)]
pub(in crate::redis) struct Batch {
    partition: Partition,
    members: Vec<Waiting>,
    /// Released when the batch is dropped. `None` in a flusher's batch.
    _taken: Option<Taken>,
}

/// The right to send a call, which a caller has taken.
#[derive(Debug)]
struct Taken {
    queues: Arc<Queues>,
    partition: Partition,
}

/// Sends the waiting writes of a partition, call by call, until none is left.
struct Flusher {
    store: RedisStore,
    partition: Partition,
    /// No write was left, so the next waiting write gets another flusher.
    ended: bool,
}

impl Queues {
    pub(in crate::redis) fn new(partitions: u32) -> Self {
        Self((0..partitions).map(|_| Queue::default()).collect())
    }

    fn of(&self, partition: Partition) -> Option<&Queue> {
        self.0.get(usize::try_from(partition.0).ok()?)
    }
}

impl Queue {
    /// Waits for the end of a caller's call. A wake-up may be left from an earlier call, so it
    /// proves nothing.
    async fn freed(&self) {
        while locked(&self.state).taken {
            self.ended.notified().await;
        }
    }
}

impl State {
    /// Adds a write to the queue. Returns the receiver of its answer.
    fn join(&mut self, mutation: Mutation) -> oneshot::Receiver<Answer> {
        let (to, told) = oneshot::channel();
        self.waiting.push_back(Waiting {
            mutation,
            reply: Reply::one(to),
        });
        told
    }

    fn group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes) = (Vec::with_capacity(self.waiting.len().min(WRITES_MAX)), 0);
        while group.len() < WRITES_MAX && bytes < BYTES_MAX {
            // A write of another epoch goes in another call.
            let fits = |next: &mut Waiting| {
                let same = |first: &Waiting| first.mutation.epoch == next.mutation.epoch;
                group.first().is_none_or(same)
            };
            let Some(next) = self.waiting.pop_front_if(fits) else {
                break;
            };
            if next.reply.is_awaited() {
                bytes += size(&next.mutation);
                group.push(next);
            }
        }
        group
    }
}

fn size(mutation: &Mutation) -> usize {
    // A sum is kept with the answer, like a value with the data.
    let values = mutation.changes.iter().map(|(_, change)| {
        if let Change::Set(value) = change {
            value.len()
        } else {
            20
        }
    });
    values.sum()
}

impl RedisStore {
    /// Adds writes to the queue of their partition. If no call is under way, the caller gets a
    /// batch to send. A flusher sends the rest.
    pub(in crate::redis) fn enqueue(
        &self,
        partition: Partition,
        writes: Vec<Waiting>,
    ) -> Option<Batch> {
        let mut state = locked(&self.queues.of(partition)?.state);
        state.waiting.extend(writes);
        self.begin(partition, state)
    }

    /// Has the waiting writes of a partition sent. If no call is under way, the caller gets a batch
    /// to send. A flusher sends the rest.
    fn begin(&self, partition: Partition, mut state: MutexGuard<'_, State>) -> Option<Batch> {
        let mut batch = None;
        if !state.taken && !state.carried {
            state.taken = true;
            let taken = Taken {
                queues: Arc::clone(&self.queues),
                partition,
            };
            batch = Some(Batch {
                partition,
                members: state.group(),
                _taken: Some(taken),
            });
        }
        let alone = !state.waiting.is_empty() && !state.carried;
        state.carried |= alone;
        // ORDER: the lock is released before the task begins. A runtime that ends drops the task at
        // once, and the drop takes the lock.
        drop(state);
        if alone {
            let flusher = Flusher {
                store: self.clone(),
                partition,
                ended: false,
            };
            tokio::spawn(flusher.flush());
        }
        batch
    }

    /// Sends one write, alone or with other waiting writes.
    pub(in crate::redis) async fn send_queued(
        &self,
        partition: Partition,
        mutation: &Mutation,
    ) -> Answer {
        let Some(queue) = self.queues.of(partition) else {
            return Err(Failure::Unverified);
        };
        let joined = {
            let mut state = locked(&queue.state);
            let apart = state.calls.is_apart(mutation.id);
            (!apart).then(|| (state.join(mutation.clone()), self.begin(partition, state)))
        };
        let Some((answered, batch)) = joined else {
            return Box::pin(self.send_apart(partition, mutation)).await;
        };
        if let Some(batch) = batch {
            // Boxed, so that the future of callers that only wait is small.
            Box::pin(self.send_batch(batch)).await;
        }
        self.carried(&[partition], told(answered)).await
    }

    /// Waits for answers that flushers bring. If they take longer than any call does, other
    /// flushers go on with the waiting writes. The runtime of a flusher may stand still, because it
    /// was left without being dropped. If it goes on after all, another flusher does no harm, since
    /// it ends the call that it finds open.
    pub(in crate::redis) async fn carried<T>(
        &self,
        partitions: &[Partition],
        told: impl Future<Output = T>,
    ) -> T {
        let mut told = std::pin::pin!(told);
        loop {
            if let Ok(told) = timeout(self.router.common.patience(), told.as_mut()).await {
                return told;
            }
            partitions
                .iter()
                .for_each(|partition| self.flush_on(*partition));
        }
    }

    fn flush_on(&self, partition: Partition) {
        let Some(queue) = self.queues.of(partition) else {
            return;
        };
        let mut state = locked(&queue.state);
        if !state.waiting.is_empty() {
            state.carried = true;
            drop(state);
            tokio::spawn(
                Flusher {
                    store: self.clone(),
                    partition,
                    ended: false,
                }
                .flush(),
            );
        }
    }

    /// Sends batches together and hands out their answers. A batch goes by itself if its partition
    /// has an open call that can't be ended.
    // ORDER: open calls are ended before the first call begins. So no call waits, unsent, for
    // another partition.
    pub(in crate::redis) async fn send_batches(&self, batches: Vec<Batch>) {
        let open = batches
            .iter()
            .filter_map(|batch| Some((batch.partition, self.open_call(batch.partition)?)));
        let ends = open.map(|(partition, number)| self.end_call(partition, number));
        futures::future::join_all(ends).await;
        let (mut calls, mut commands, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for mut batch in batches {
            match self.begin_call(batch.partition, &mut batch.members) {
                Ok(number) => {
                    commands.push(self.command(batch.partition, number, &batch.members));
                    calls.push((batch, number));
                }
                Err(_) => left.push(self.send_batch(batch)),
            }
        }
        let together = async {
            let partitions: Vec<Partition> =
                calls.iter().map(|(batch, _)| batch.partition).collect();
            let answers = self.send_verified(commands, &partitions, false).await;
            for ((batch, number), answer) in calls.into_iter().zip(answers) {
                self.hand_out(batch.partition, number, batch.members, answer)
                    .await;
            }
        };
        futures::join!(together, futures::future::join_all(left));
    }

    async fn send_batch(
        &self,
        Batch {
            partition,
            mut members,
            _taken,
        }: Batch,
    ) {
        match self.number(partition, &mut members).await {
            Ok(number) => {
                let answer = self
                    .send_one_verified(self.command(partition, number, &members), partition)
                    .await;
                self.hand_out(partition, number, members, answer).await;
            }
            Err(failure) => answer_all(members, std::iter::repeat(Err(failure))),
        }
    }

    fn command(&self, partition: Partition, number: u64, members: &[Waiting]) -> Command {
        scripts::update(
            &self.space,
            partition,
            &self.name,
            number,
            members.iter().map(|member| &member.mutation),
        )
    }

    /// The number of the next call. An earlier call is ended first if its answer is lost.
    async fn number(&self, partition: Partition, members: &mut [Waiting]) -> Result<u64, Failure> {
        for _ in 0..tries::NUMBERS {
            match self.begin_call(partition, members) {
                Ok(number) => return Ok(number),
                Err(Some(open)) => {
                    let ended = Box::pin(self.end_call(partition, open)).await;
                    ended
                        .map_err(|failure| failure.before_sending("the end of an earlier call"))?;
                }
                Err(None) => return Err(Failure::Unverified),
            }
        }
        Err(Failure::NoConnection(
            "another call of the partition began first in every attempt".to_owned(),
        ))
    }

    /// Begins a call and answers its number. Fails with the number of the open call, if there is
    /// one.
    // ORDER: the call is open before it is sent. So a caller that goes away in the middle leaves it
    // open.
    fn begin_call(
        &self,
        partition: Partition,
        members: &mut [Waiting],
    ) -> Result<u64, Option<u64>> {
        let queue = self.queues.of(partition).ok_or(None)?;
        let ids = members.iter().map(|member| member.mutation.id).collect();
        let number = locked(&queue.state).calls.begin(ids).map_err(Some)?;
        members.iter_mut().for_each(|member| member.reply.is_sent());
        Ok(number)
    }

    fn open_call(&self, partition: Partition) -> Option<u64> {
        locked(&self.queues.of(partition)?.state).calls.open()
    }

    /// Ends a call whose answer is lost, once for all callers that ask for it at a time.
    async fn end_call(&self, partition: Partition, number: u64) -> Result<(), Failure> {
        let Some(queue) = self.queues.of(partition) else {
            return Err(Failure::Unverified);
        };
        let mut others = std::pin::pin!(queue.call_ended.notified());
        others.as_mut().enable();
        let is_first = locked(&queue.state).ending.replace(number) != Some(number);
        if !is_first {
            // Not for long, since the first caller may have gone away.
            let _ = timeout(self.router.common.response_timeout / PATIENCE, others).await;
            if self.open_call(partition) != Some(number) {
                return Ok(());
            }
        }
        let ended = self.send_end(partition, number).await;
        locked(&queue.state)
            .ending
            .take_if(|ending| *ending == number);
        queue.call_ended.notify_waiters();
        ended
    }

    /// Ends a call and keeps the fates of its writes. After that, the call was carried out or never
    /// will be.
    async fn send_end(&self, partition: Partition, number: u64) -> Result<(), Failure> {
        let Some(queue) = self.queues.of(partition) else {
            return Err(Failure::Unverified);
        };
        let command = scripts::end_call(&self.space, partition, &self.name, number);
        let text = match self.send_one_verified(command, partition).await {
            Ok(value) => reply::bytes(value)?,
            // Another caller ended the call, and the next one was made meanwhile. The call is still
            // open here only if the stored number is wrong.
            Err(Failure::Server { code, .. }) if code == "STALE" => {
                self.close(partition, number);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let answers = (*text != *b"void").then(|| lines(&text).map(Ok).collect());
        locked(&queue.state)
            .calls
            .ended(number, answers, Instant::now());
        Ok(())
    }

    /// The fate of a write of this store whose answer was lost. [`Fate::Void`] if the write may go
    /// in another call.
    pub(in crate::redis) async fn fate(
        &self,
        partition: Partition,
        id: OpId,
    ) -> Result<Fate<Answer>, Failure> {
        let Some(queue) = self.queues.of(partition) else {
            return Err(Failure::Unverified);
        };
        let open = {
            let state = locked(&queue.state);
            if let Some(fate) = state.calls.fate(id) {
                return Ok(fate);
            }
            state.calls.open_with(id)
        };
        let ended = match open {
            Some(number) => self.end_call(partition, number).await,
            None => Ok(()),
        };
        // The fate may be known now, even if another caller ended the call.
        if let Some(fate) = locked(&queue.state).calls.fate(id) {
            return Ok(fate);
        }
        ended?;
        Err(Failure::Lost(
            "the outcome of the call with this write is no longer known".to_owned(),
        ))
    }

    /// Notes that a write went by mutate.lua, under its id, and that its answer was lost.
    pub(in crate::redis) fn sent_apart(&self, partition: Partition, id: OpId) {
        if let Some(queue) = self.queues.of(partition) {
            locked(&queue.state).calls.sent_apart(id, Instant::now());
        }
    }

    async fn hand_out(
        &self,
        partition: Partition,
        number: u64,
        members: Vec<Waiting>,
        answer: Answer,
    ) {
        let answer = answer.and_then(reply::bytes).map_err(stale_is_lost);
        let answers = match answer {
            Err(failure) if is_spoilt(&failure) && members.len() > 1 => {
                match Box::pin(self.end_call(partition, number)).await {
                    Ok(()) => Box::pin(self.each_alone(partition, &members)).await,
                    Err(failure) => vec![Err(failure); members.len()],
                }
            }
            Err(failure) => {
                let was_sent = matches!(failure, Failure::Server { .. } | Failure::Forbidden(_));
                let answer = Err(failure);
                // The server keeps no trace of a call that it rejected with an error. The next call
                // ends it, so that no copy comes later.
                if !was_sent && !is_unknown(&answer) {
                    self.never_sent(partition, number);
                }
                vec![answer; members.len()]
            }
            Ok(text) => {
                let answers: Vec<Answer> = lines(&text).map(Ok).collect();
                if answers.len() == members.len() {
                    if let Some(queue) = self.queues.of(partition) {
                        let calls = &mut locked(&queue.state).calls;
                        calls.close(number);
                        calls.heard(members.iter().map(|member| member.mutation.id));
                    }
                    answers
                } else {
                    let text = format!("{} answers to {} writes", answers.len(), members.len());
                    vec![Err(Failure::Nonsense(text)); members.len()]
                }
            }
        };
        answer_all(members, answers);
    }

    /// Notes that a call was not sent, so it is void.
    fn never_sent(&self, partition: Partition, number: u64) {
        if let Some(queue) = self.queues.of(partition) {
            locked(&queue.state)
                .calls
                .ended(number, None, Instant::now());
        }
    }

    fn close(&self, partition: Partition, number: u64) {
        if let Some(queue) = self.queues.of(partition) {
            locked(&queue.state).calls.close(number);
        }
    }

    /// Sends each write of a batch alone. One key of the batch has the wrong type, so nothing was
    /// applied, and the call is ended. Only the write of that key must fail.
    async fn each_alone(&self, partition: Partition, members: &[Waiting]) -> Vec<Answer> {
        let fates: Vec<_> = {
            let calls = self.queues.of(partition).map(|queue| locked(&queue.state));
            members
                .iter()
                .map(|member| calls.as_ref()?.calls.fate(member.mutation.id))
                .collect()
        };
        // The key was repaired meanwhile, and a copy of the call was carried out.
        let answered = fates.into_iter().map(|fate| match fate {
            Some(Fate::Answered(answer)) => Some(answer),
            _ => None,
        });
        if let Some(answers) = answered.collect::<Option<Vec<_>>>() {
            return answers;
        }
        let writes: Vec<_> = members
            .iter()
            .map(|member| (&member.mutation, &[][..]))
            .collect();
        self.send_each(&writes, &vec![partition; members.len()])
            .await
    }
}

/// Whether a key has another type than the script expects. The script fails on that before it
/// writes anything.
fn is_spoilt(failure: &Failure) -> bool {
    matches!(failure, Failure::Server { code, .. } if code == "WRONGTYPE")
}

/// A late copy of a call says nothing of the copy before it.
fn stale_is_lost(failure: Failure) -> Failure {
    match failure {
        Failure::Server { code, text } if code == "STALE" => Failure::Lost(text),
        other => other,
    }
}

/// The answers to the writes of a call, as [`decode`](super::decode) takes them.
fn lines(text: &[u8]) -> impl Iterator<Item = Value> {
    text.split(|byte| *byte == b'\n').map(|line| {
        if line.first().is_some_and(u8::is_ascii_digit) {
            return Value::BulkString(line.to_vec());
        }
        // The text of an error has spaces of its own.
        let words: usize = if line.starts_with(b"failed ") {
            2
        } else {
            usize::MAX
        };
        let words = line.splitn(words, |byte| *byte == b' ');
        Value::Array(words.map(|word| Value::BulkString(word.to_vec())).collect())
    })
}

/// Answers the waiting callers.
fn answer_all(
    members: impl IntoIterator<Item = Waiting>,
    answers: impl IntoIterator<Item = Answer>,
) {
    for (mut member, answer) in members.into_iter().zip(answers) {
        member.reply.send(answer);
    }
}

impl Flusher {
    async fn flush(mut self) {
        let queues = Arc::clone(&self.store.queues);
        let Some(queue) = queues.of(self.partition) else {
            return;
        };
        let patience = self.store.router.common.response_timeout / PATIENCE;
        let _ = timeout(patience, queue.freed()).await;
        while let Some(members) = self.next(queue) {
            self.store
                .send_batch(Batch {
                    partition: self.partition,
                    members,
                    _taken: None,
                })
                .await;
        }
    }

    /// The next writes to send. `None` if no write waits.
    fn next(&mut self, queue: &Queue) -> Option<Vec<Waiting>> {
        let mut state = locked(&queue.state);
        let members = state.group();
        self.ended = members.is_empty();
        state.carried = !self.ended;
        state.carried.then_some(members)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // The flusher panicked, or its runtime ends. The channels tell the waiting callers.
        if let Some(queue) = self.store.queues.of(self.partition).filter(|_| !self.ended) {
            let mut state = locked(&queue.state);
            state.carried = false;
            state.waiting.clear();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(queue) = self.queues.of(self.partition) else {
            return;
        };
        let mut state = locked(&queue.state);
        state.taken = false;
        if state.carried {
            queue.ended.notify_one();
        }
    }
}
