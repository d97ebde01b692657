//! The queues of writes, two for each partition: one for the writes that `update.lua` takes, and one
//! for those that `transact.lua` takes. While one call of a queue is under way, new writes wait and
//! go together in the next call. No write waits for company: a write that finds no call under way
//! goes at once, alone, sent by its caller. A task sends the waiting writes, so none of them depends
//! on how another caller's future is polled.
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

use storage_model::{Bytes, Change, Mutation, OpId, Partition, tries};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::answers::answers_of;
use super::calls::{Calls, Fate};
use super::completion::{Reply, told};
use super::is_unknown;
use crate::redis::RedisStore;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts::{self, CallNumber};
use storage_coalesce::locked;

/// About the most owners of one call, and about the most bytes of its values and notes. The server
/// does nothing else during a call. The last write of a call can exceed both.
const OWNERS_MAX: usize = 128;
const BYTES_MAX: usize = 256 * 1024;

/// After the response timeout divided by this, waiting writes go without the call before them. A
/// call takes so long only if its caller's future is not polled, for example beside the running
/// branch of a `select!`. That branch may itself wait for a write.
const PATIENCE: u32 = 2;

/// The script that carries out the writes of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::redis) enum Script {
    /// `update.lua`.
    Update,
    /// `transact.lua`.
    Transact,
}

impl Script {
    /// The script that takes a write.
    pub(in crate::redis) fn of(mutation: &Mutation) -> Self {
        if scripts::takes_update(mutation) {
            Self::Update
        } else {
            Self::Transact
        }
    }
}

/// The place of a queue: its partition and its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::redis) struct Line {
    pub(in crate::redis) partition: Partition,
    pub(in crate::redis) script: Script,
}

/// All queues.
#[derive(Debug)]
pub(in crate::redis) struct Queues {
    update: Side,
    transact: Side,
}

/// The queues of one script, one for each partition.
#[derive(Debug)]
struct Side {
    /// The name under which records keep the calls of these queues. No other store has it, not even
    /// one that was opened before.
    name: String,
    queues: Vec<Queue>,
}

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

/// Writes of one queue that go together in one call.
#[derive(Debug)]
pub(in crate::redis) struct Batch {
    line: Line,
    members: Vec<Waiting>,
    /// Released when the batch is dropped. `None` in a flusher's batch.
    _taken: Option<Taken>,
}

/// The right to send a call, which a caller has taken.
#[derive(Debug)]
struct Taken {
    queues: Arc<Queues>,
    line: Line,
}

/// Sends the waiting writes of a queue, call by call, until none is left.
struct Flusher {
    store: RedisStore,
    line: Line,
    /// No write was left, so the next waiting write gets another flusher.
    ended: bool,
}

impl Queues {
    pub(in crate::redis) fn new(partitions: u32, names: [String; 2]) -> Self {
        let [update, transact] = names.map(|name| Side {
            name,
            queues: (0..partitions).map(|_| Queue::default()).collect(),
        });
        Self { update, transact }
    }

    fn side(&self, script: Script) -> &Side {
        match script {
            Script::Update => &self.update,
            Script::Transact => &self.transact,
        }
    }

    fn name(&self, script: Script) -> &str {
        &self.side(script).name
    }

    fn of(&self, line: Line) -> Option<&Queue> {
        let queues = &self.side(line.script).queues;
        queues.get(usize::try_from(line.partition.0).ok()?)
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
        let mut group = Vec::with_capacity(self.waiting.len().min(OWNERS_MAX));
        let (mut owners, mut bytes) = (0, 0);
        while owners < OWNERS_MAX && bytes < BYTES_MAX {
            // A write of another epoch goes in another call.
            let fits = |next: &mut Waiting| {
                let same = |first: &Waiting| first.mutation.epoch == next.mutation.epoch;
                group.first().is_none_or(same)
            };
            let Some(next) = self.waiting.pop_front_if(fits) else {
                break;
            };
            if next.reply.is_awaited() {
                owners += 1 + next.mutation.also.len();
                bytes += size(&next.mutation);
                group.push(next);
            }
        }
        group
    }
}

fn size(mutation: &Mutation) -> usize {
    mutation.parts().map(size_of_part).sum()
}

fn size_of_part(part: &Mutation) -> usize {
    // A sum is kept with the answer, like a value with the data.
    let values = part.changes.iter().map(|(_, change)| match change {
        Change::Set(value) => value.len(),
        _ => 20,
    });
    let expected = part.expected.iter().flat_map(|(_, value)| value);
    let note = part.note.as_ref().map_or(0, Bytes::len);
    values.sum::<usize>() + expected.map(Bytes::len).sum::<usize>() + note
}

impl RedisStore {
    /// Adds writes to their queue. If no call is under way, the caller gets a
    /// batch to send. A flusher sends the rest.
    pub(in crate::redis) fn enqueue(&self, line: Line, writes: Vec<Waiting>) -> Option<Batch> {
        let mut state = locked(&self.queues.of(line)?.state);
        state.waiting.extend(writes);
        self.begin(line, state)
    }

    /// Has the waiting writes of a queue sent. If no call is under way, the caller gets a batch
    /// to send. A flusher sends the rest.
    fn begin(&self, line: Line, mut state: MutexGuard<'_, State>) -> Option<Batch> {
        let mut batch = None;
        if !state.taken && !state.carried {
            state.taken = true;
            let taken = Taken {
                queues: Arc::clone(&self.queues),
                line,
            };
            batch = Some(Batch {
                line,
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
                line,
                ended: false,
            };
            tokio::spawn(flusher.flush());
        }
        batch
    }

    /// Sends one write, alone or with other waiting writes.
    pub(in crate::redis) async fn send_queued(&self, line: Line, mutation: &Mutation) -> Answer {
        let Some(queue) = self.queues.of(line) else {
            return Err(Failure::Unverified);
        };
        let joined = {
            let mut state = locked(&queue.state);
            let apart = state.calls.is_apart(mutation.id);
            (!apart).then(|| (state.join(mutation.clone()), self.begin(line, state)))
        };
        let Some((answered, batch)) = joined else {
            return Box::pin(self.send_apart(line.partition, mutation)).await;
        };
        if let Some(batch) = batch {
            // Boxed, so that the future of callers that only wait is small.
            Box::pin(self.send_batch(batch)).await;
        }
        self.carried(&[line], told(answered)).await
    }

    /// Waits for answers that flushers bring. If they take longer than any call does, other
    /// flushers go on with the waiting writes. The runtime of a flusher may stand still, because it
    /// was left without being dropped. If it goes on after all, another flusher does no harm, since
    /// it ends the call that it finds open.
    pub(in crate::redis) async fn carried<T>(
        &self,
        lines: &[Line],
        told: impl Future<Output = T>,
    ) -> T {
        let mut told = std::pin::pin!(told);
        loop {
            if let Ok(told) = timeout(self.router.common.patience(), told.as_mut()).await {
                return told;
            }
            lines.iter().for_each(|line| self.flush_on(*line));
        }
    }

    fn flush_on(&self, line: Line) {
        let Some(queue) = self.queues.of(line) else {
            return;
        };
        let mut state = locked(&queue.state);
        if !state.waiting.is_empty() {
            state.carried = true;
            drop(state);
            tokio::spawn(
                Flusher {
                    store: self.clone(),
                    line,
                    ended: false,
                }
                .flush(),
            );
        }
    }

    /// Sends batches together and hands out their answers. A batch goes by itself if its queue has an
    /// open call that can't be ended.
    // ORDER: open calls are ended before the first call begins. So no call waits, unsent, for
    // another queue.
    pub(in crate::redis) async fn send_batches(&self, batches: Vec<Batch>) {
        let open = batches
            .iter()
            .filter_map(|batch| Some((batch.line, self.open_call(batch.line)?)));
        let ends = open.map(|(line, number)| self.end_call(line, number));
        futures::future::join_all(ends).await;
        let (mut calls, mut commands, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for mut batch in batches {
            match self.begin_call(batch.line, &mut batch.members) {
                Ok(number) => {
                    commands.push(self.command(batch.line, number, &batch.members));
                    calls.push((batch, number));
                }
                Err(_) => left.push(self.send_batch(batch)),
            }
        }
        let together = async {
            let partitions: Vec<Partition> = calls
                .iter()
                .map(|(batch, _)| batch.line.partition)
                .collect();
            let answers = self.send_verified(commands, &partitions, false).await;
            for ((batch, number), answer) in calls.into_iter().zip(answers) {
                self.hand_out(batch.line, number, batch.members, answer)
                    .await;
            }
        };
        futures::join!(together, futures::future::join_all(left));
    }

    async fn send_batch(
        &self,
        Batch {
            line,
            mut members,
            _taken,
        }: Batch,
    ) {
        match self.number(line, &mut members).await {
            Ok(number) => {
                let answer = self
                    .send_one_verified(self.command(line, number, &members), line.partition)
                    .await;
                self.hand_out(line, number, members, answer).await;
            }
            Err(failure) => answer_all(members, std::iter::repeat(Err(failure))),
        }
    }

    fn command(&self, line: Line, number: u64, members: &[Waiting]) -> Command {
        let call = CallNumber {
            store: self.queues.name(line.script),
            number,
        };
        let mutations = members.iter().map(|member| &member.mutation);
        match line.script {
            Script::Update => scripts::update(
                &self.space,
                line.partition,
                call,
                self.marker_ttl,
                mutations,
            ),
            Script::Transact => scripts::transact(
                &self.space,
                line.partition,
                call,
                self.marker_ttl,
                mutations,
            ),
        }
    }

    /// The number of the next call. An earlier call is ended first if its answer is lost.
    async fn number(&self, line: Line, members: &mut [Waiting]) -> Result<u64, Failure> {
        for _ in 0..tries::NUMBERS {
            match self.begin_call(line, members) {
                Ok(number) => return Ok(number),
                Err(Some(open)) => {
                    let ended = Box::pin(self.end_call(line, open)).await;
                    ended
                        .map_err(|failure| failure.before_sending("the end of an earlier call"))?;
                }
                Err(None) => return Err(Failure::Unverified),
            }
        }
        Err(Failure::NoConnection(
            "another call of the queue began first in every attempt".to_owned(),
        ))
    }

    /// Begins a call and returns its number. Fails with the number of the open call, if there is
    /// one.
    // ORDER: the call is open before it is sent. So a caller that goes away in the middle leaves it
    // open.
    fn begin_call(&self, line: Line, members: &mut [Waiting]) -> Result<u64, Option<u64>> {
        let queue = self.queues.of(line).ok_or(None)?;
        let ids = members.iter().map(|member| member.mutation.id).collect();
        let number = locked(&queue.state).calls.begin(ids).map_err(Some)?;
        members.iter_mut().for_each(|member| member.reply.is_sent());
        Ok(number)
    }

    fn open_call(&self, line: Line) -> Option<u64> {
        locked(&self.queues.of(line)?.state).calls.open()
    }

    /// Ends a call whose answer is lost, once for all callers that ask for it at a time.
    async fn end_call(&self, line: Line, number: u64) -> Result<(), Failure> {
        let Some(queue) = self.queues.of(line) else {
            return Err(Failure::Unverified);
        };
        let mut others = std::pin::pin!(queue.call_ended.notified());
        others.as_mut().enable();
        let is_first = locked(&queue.state).ending.replace(number) != Some(number);
        if !is_first {
            // Not for long, since the first caller may have gone away.
            let _ = timeout(self.router.common.response_timeout / PATIENCE, others).await;
            if self.open_call(line) != Some(number) {
                return Ok(());
            }
        }
        let ended = self.send_end(line, number).await;
        locked(&queue.state)
            .ending
            .take_if(|ending| *ending == number);
        queue.call_ended.notify_waiters();
        ended
    }

    /// Ends a call and keeps the fates of its writes. After that, the call was carried out or never
    /// will be.
    async fn send_end(&self, line: Line, number: u64) -> Result<(), Failure> {
        let Some(queue) = self.queues.of(line) else {
            return Err(Failure::Unverified);
        };
        let call = CallNumber {
            store: self.queues.name(line.script),
            number,
        };
        let command = scripts::end_call(&self.space, line.partition, call);
        let text = match self.send_one_verified(command, line.partition).await {
            Ok(value) => reply::bytes(value)?,
            // Another caller ended the call, and the next one was made meanwhile. The call is still
            // open here only if the stored number is wrong.
            Err(Failure::Server { code, .. }) if code == "STALE" => {
                self.close(line, number);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let answers = match &*text {
            b"void" => None,
            text => {
                // The call has ended. If its answer can't be read, its writes have no known fate.
                let answers = answers_of(text).inspect_err(|_| self.close(line, number))?;
                Some(answers.into_iter().map(Ok).collect())
            }
        };
        locked(&queue.state)
            .calls
            .ended(number, answers, Instant::now());
        Ok(())
    }

    /// The fate of a write of this queue whose answer was lost. [`Fate::Void`] if the write may go
    /// in another call.
    pub(in crate::redis) async fn fate(
        &self,
        line: Line,
        id: OpId,
    ) -> Result<Fate<Answer>, Failure> {
        let Some(queue) = self.queues.of(line) else {
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
            Some(number) => self.end_call(line, number).await,
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
    pub(in crate::redis) fn sent_apart(&self, line: Line, id: OpId) {
        if let Some(queue) = self.queues.of(line) {
            locked(&queue.state).calls.sent_apart(id, Instant::now());
        }
    }

    async fn hand_out(&self, line: Line, number: u64, members: Vec<Waiting>, answer: Answer) {
        let decoded = answer
            .and_then(reply::bytes)
            .map_err(stale_is_lost)
            .and_then(|text| answers_of(&text));
        let answers = match decoded {
            Err(failure) if is_spoilt(&failure) && members.len() > 1 => {
                match Box::pin(self.end_call(line, number)).await {
                    Ok(()) => Box::pin(self.each_alone(line, &members)).await,
                    Err(failure) => vec![Err(failure); members.len()],
                }
            }
            Err(failure) => {
                let was_sent = matches!(failure, Failure::Server { .. } | Failure::Forbidden(_));
                let answer = Err(failure);
                // The server keeps no trace of a call that it rejected with an error. The next call
                // ends it, so that no copy comes later.
                if !was_sent && !is_unknown(&answer) {
                    self.never_sent(line, number);
                }
                vec![answer; members.len()]
            }
            Ok(answers) => {
                let answers: Vec<Answer> = answers.into_iter().map(Ok).collect();
                if answers.len() == members.len() {
                    if let Some(queue) = self.queues.of(line) {
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
    fn never_sent(&self, line: Line, number: u64) {
        if let Some(queue) = self.queues.of(line) {
            locked(&queue.state)
                .calls
                .ended(number, None, Instant::now());
        }
    }

    fn close(&self, line: Line, number: u64) {
        if let Some(queue) = self.queues.of(line) {
            locked(&queue.state).calls.close(number);
        }
    }

    /// Sends each write of a batch alone. One key of the batch has the wrong type, so nothing was
    /// applied, and the call is ended. Only the write of that key must fail.
    async fn each_alone(&self, line: Line, members: &[Waiting]) -> Vec<Answer> {
        let fates: Vec<_> = {
            let calls = self.queues.of(line).map(|queue| locked(&queue.state));
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
        self.send_each(&writes, &vec![line.partition; members.len()])
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
        let Some(queue) = queues.of(self.line) else {
            return;
        };
        let patience = self.store.router.common.response_timeout / PATIENCE;
        let _ = timeout(patience, queue.freed()).await;
        while let Some(members) = self.next(queue) {
            self.store
                .send_batch(Batch {
                    line: self.line,
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
        if let Some(queue) = self.store.queues.of(self.line).filter(|_| !self.ended) {
            let mut state = locked(&queue.state);
            state.carried = false;
            state.waiting.clear();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(queue) = self.queues.of(self.line) else {
            return;
        };
        let mut state = locked(&queue.state);
        state.taken = false;
        if state.carried {
            queue.ended.notify_one();
        }
    }
}
