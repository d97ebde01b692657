//! A round of a writer: writes that need a script, and in a transaction those that need none, in one pipeline (`writer.rs`).
//!
//! The scripts come first, so that a write never overtakes an earlier one of its owner: an owner's writes of a round go all one way or
//! all the other, or wait for the next round.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use storage_model::sabotage::broken;
use storage_model::{Epoch, Known, Mutation, Partition, Version};
use tokio::time::Instant;

use super::RedisStore;
use super::common::locked;
use super::connect::Node;
use super::error::Failure;
use super::lane::{Introduced, Ready};
use super::transaction::{Name, Transaction};
use super::turns::{Queue, Waiting, answer_all};
use super::write::applied;
use super::writer::{OWN, Who, Writer, time_of};
use super::{reply, script, server};

/// How often a round is tried at most whose transaction is not applied, or that left something for later.
const ROUNDS_MAX: usize = 3;

/// The writers of a store, one for each connection that all calls share.
#[derive(Debug)]
pub(super) struct Writers {
    seats: Vec<Mutex<Seat>>,
    /// How long a writer that sends nothing keeps what it was granted.
    lease: Duration,
}

/// A writer's place.
#[derive(Debug, Default)]
enum Seat {
    /// Nobody was there yet, or the last one did not come back.
    #[default]
    Empty,
    /// It is in a round.
    Away,
    Here(Box<Writer>),
}

/// A writer in a round. Dropped without a word, it is not believed any more.
struct Pilot<'a> {
    seat: &'a Mutex<Seat>,
    writer: Option<Box<Writer>>,
}

/// A write of the transaction.
struct Plain {
    waiting: Waiting,
    partition: Partition,
    version: Version,
    answer: Value,
}

/// What goes how.
#[derive(Default)]
struct Plan {
    /// Whether the writer's key is watched.
    watching: bool,
    scripts: BTreeMap<(Partition, Option<Epoch>), Vec<Waiting>>,
    plain: Vec<Plain>,
    transaction: Transaction,
    /// What can't go in this round.
    later: Vec<Waiting>,
}

/// What a round did not answer.
struct Left {
    /// To be planned anew.
    again: Vec<Waiting>,
    /// To be sent by scripts alone.
    by_script: Vec<Waiting>,
}

impl Writers {
    pub(super) fn new(count: usize, lease: Duration) -> Self {
        Self { seats: (0..count).map(|_| Mutex::default()).collect(), lease }
    }

    /// The writer, if it is not in a round.
    fn board(&self, at: usize) -> Option<Pilot<'_>> {
        let seat = self.seats.get(at)?;
        let mut taken = locked(seat);
        let writer = match std::mem::replace(&mut *taken, Seat::Away) {
            Seat::Away => return None,
            Seat::Empty => None,
            Seat::Here(writer) => Some(writer),
        };
        Some(Pilot { seat, writer })
    }
}

impl Drop for Pilot<'_> {
    fn drop(&mut self) {
        *locked(self.seat) = self.writer.take().map_or(Seat::Empty, Seat::Here);
    }
}

impl RedisStore {
    /// Where a write waits that goes with others.
    pub(super) fn queue_of(&self, partition: Partition, mutation: &Mutation) -> Queue {
        let writer = usize::try_from(partition.0).ok().and_then(|number| number.checked_rem(self.writers.seats.len()));
        writer.filter(|_| mutation.known != Known::Sent).map_or(Queue::Partition(partition), Queue::Writer)
    }

    /// Sends writes of a writer's partitions in a round, and answers them.
    pub(super) async fn send_round(&self, at: usize, members: Vec<Waiting>) {
        let left = self.try_round(at, members).await;
        // By scripts, which end what the writer was granted.
        let mut calls: BTreeMap<(Partition, Option<Epoch>), Vec<Waiting>> = BTreeMap::new();
        for waiting in left {
            calls.entry((self.space.partition(&waiting.mutation.owner), waiting.mutation.epoch)).or_default().push(waiting);
        }
        futures::future::join_all(calls.into_iter().map(|((partition, _), members)| self.send_call(partition, members))).await;
    }

    /// Answers those that were not sent, or surely not applied.
    async fn try_round(&self, at: usize, mut members: Vec<Waiting>) -> Vec<Waiting> {
        let Some(mut pilot) = self.writers.board(at) else { return members };
        let Some(node) = self.router.only_node() else { return members };
        let Ok(ready) = node.ready_at(at).await else { return members };
        if node.distrusts() {
            return members;
        }
        let known = pilot.writer.take().filter(|writer| writer.serial == ready.serial);
        let mut writer = match known {
            Some(writer) => writer,
            None => Box::new(self.introduce(&node, at, &ready).await),
        };
        if !writer.is_able() {
            pilot.writer = Some(writer);
            return members;
        }
        let verified =
            |waiting: &mut Waiting| self.guard.is_verified(self.space.partition(&waiting.mutation.owner), ready.incarnation);
        let mut left: Vec<Waiting> = members.extract_if(.., |waiting| !verified(waiting)).collect();
        for _ in 0..ROUNDS_MAX {
            if members.is_empty() {
                break;
            }
            let plan = self.plan(&mut writer, members);
            match self.fly(&node, &ready, &mut writer, plan).await {
                Ok(Left { again, by_script }) => {
                    members = again;
                    left.extend(by_script);
                }
                Err(Left { by_script, .. }) => {
                    left.extend(by_script);
                    return left;
                }
            }
        }
        pilot.writer = Some(writer);
        left.extend(members);
        left
    }

    /// The writer of this connection, which the server's own number for it tells from all others. Without a key if the server does not
    /// say what is needed.
    async fn introduce(&self, node: &Node, at: usize, ready: &Ready) -> Writer {
        let who = match node.introduced_at(at, ready.serial) {
            Some(introduced) => self.who(introduced),
            None => self.ask_who(node, ready).await,
        };
        Writer::new(who.unwrap_or_default(), ready.serial, self.writers.lease)
    }

    async fn ask_who(&self, node: &Node, ready: &Ready) -> Option<Who> {
        let mut pipeline = Pipeline::with_capacity(3);
        pipeline.cmd("CLIENT").arg("ID");
        pipeline.cmd("TIME");
        pipeline.cmd("INFO").arg("replication");
        let values = node.exchange_as(ready, &["introduce"], &pipeline).await.ok()?;
        let [id, time, info] = values.try_into().ok()?;
        let history = server::history(&reply::text(info).ok()?)?.to_owned();
        self.who(Introduced { id, time, history })
    }

    fn who(&self, Introduced { id, time, history }: Introduced) -> Option<Who> {
        let (id, time): (u64, u64) = (reply::number(id).ok()?, time_of(time).ok()?);
        // No two connections are asked who they are within a microsecond, but for one over which the clock was set back.
        let number = (time << 12) | (id % 4096);
        Some(Who { key: self.space.keys.writer(&format!("{id}-{time}")), number, history })
    }

    fn plan(&self, writer: &mut Writer, members: Vec<Waiting>) -> Plan {
        let now = writer.now();
        let watching = now.is_some();
        let count = members.len();
        let mut plan =
            Plan { watching, plain: Vec::with_capacity(count), transaction: Transaction::with_room(count), ..Plan::default() };
        if !watching {
            writer.forget();
        }
        let (mut by_script, mut waits) = (HashSet::new(), HashSet::new());
        let (first, number_of_writer) = (writer.planned + 1, writer.number);
        writer.planned += count as u64;
        let last = writer.planned;
        for (number, mut waiting) in (first..).zip(members) {
            let mutation = &waiting.mutation;
            let partition = self.space.partition(&mutation.owner);
            if waits.contains(&mutation.owner) {
                plan.later.push(waiting);
                continue;
            }
            let now = now.filter(|_| !by_script.contains(&mutation.owner));
            let direct = now.and_then(|now| writer.take(now, partition, mutation));
            if let Some(direct) = direct {
                let (answer, id) = plan.transaction.push(
                    &self.space,
                    partition,
                    mutation,
                    &direct,
                    Name { writer: number_of_writer, number, last },
                );
                let version = direct.grant.version;
                waiting.reply.id = id;
                plan.plain.push(Plain { waiting, partition, version, answer });
            } else if plan.plain.iter().any(|plain| plain.waiting.mutation.owner == mutation.owner) {
                waits.insert(mutation.owner.clone());
                plan.later.push(waiting);
            } else {
                if watching {
                    by_script.insert(mutation.owner.clone());
                }
                plan.scripts.entry((partition, mutation.epoch)).or_default().push(waiting);
            }
        }
        plan
    }

    /// Sends a plan, and answers what was applied or refused. Answers what is to be planned again, and what goes by scripts alone;
    /// an error if the writer is not to be used any more, since its connection is lost or leads to another history.
    async fn fly(&self, node: &Node, ready: &Ready, writer: &mut Writer, plan: Plan) -> Result<Left, Left> {
        let Plan { watching, scripts, plain, transaction, later } = plan;
        let mut pipeline = Pipeline::with_capacity(scripts.len() + 2 * plain.len() + 12);
        let mut names = Vec::with_capacity(scripts.len() + 1);
        let renews = (!watching || writer.is_to_be_renewed()).then(Instant::now);
        if !watching {
            // Together, so that a connection that breaks leaves no key that lasts.
            pipeline.add_command(plain_command(&[b"MULTI"]));
            pipeline.add_command(plain_command(&[b"HSET", writer.key.as_bytes(), OWN, b""]));
            pipeline.add_command(renewal(writer));
            pipeline.add_command(plain_command(&[b"EXEC"]));
        }
        let first = pipeline.len();
        let (mut before, mut epochs) = (0, Vec::new());
        for ((partition, _), members) in &scripts {
            let mutations = members.iter().map(|waiting| &waiting.mutation);
            pipeline.add_command(script::update(&self.space, *partition, mutations, Some(&writer.key)).cmd);
            names.push("update");
        }
        if watching {
            let earliest = plain.iter().map(|plain| plain.waiting.mutation.deadline).min();
            if let Some(deadline) = earliest.filter(|deadline| writer.may_outlive(*deadline)) {
                pipeline.add_command(script::direct(&writer.key, deadline));
            }
            pipeline.add_command(plain_command(&[b"MULTI"]));
            let begin = pipeline.len();
            clearing(&mut pipeline, writer);
            if renews.is_some() {
                pipeline.add_command(renewal(writer));
            }
            before = pipeline.len() - begin;
            epochs = transaction.send(&mut pipeline);
            pipeline.add_command(plain_command(&[b"EXEC"]));
            names.push("direct");
        }
        let tail = pipeline.len();
        let watched = if broken("R17-unwatched") { "nothing" } else { &writer.key };
        pipeline.add_command(plain_command(&[b"WATCH", watched.as_bytes()]));
        pipeline.add_command(plain_command(&[b"HGETALL", writer.key.as_bytes()]));
        pipeline.add_command(plain_command(&[b"INFO", b"replication"]));
        if renews.is_some() {
            pipeline.add_command(plain_command(&[b"TIME"]));
        }

        let mut values = match node.exchange_as(ready, &names, &pipeline).await {
            Ok(values) => values,
            Err(failure) => {
                // Whatever was applied, its repeat finds the id; what is still on its way is not applied once its repeat was.
                let unknown = scripts.into_values().flatten().chain(plain.into_iter().map(|plain| plain.waiting));
                answer_all(unknown, std::iter::repeat(Err(failure)));
                return Err(Left { again: Vec::new(), by_script: later });
            }
        };
        let mut value = |at: usize| values.get_mut(at).map(std::mem::take).unwrap_or_default();
        let mut left = Left { again: later, by_script: Vec::new() };
        for (at, ((partition, _), members)) in scripts.into_iter().enumerate() {
            left.by_script.extend(self.granted(writer, partition, members, value(first + at)));
        }
        let executed = value(if watching { tail } else { first } - 1);
        if let (Some(sent), Value::Array(_)) = (renews, &executed) {
            writer.renew(sent, time_of(value(tail + 3)).ok());
        }
        let is_here = writer.hear(value(tail), value(tail + 1), value(tail + 2)).is_ok_and(|is_here| is_here);
        let is_intact = is_intact(&executed, before, &epochs, plain.len());
        if is_here && is_intact {
            concluded(writer, plain, executed, &mut left);
            return Ok(left);
        }
        if let Value::Array(_) = executed {
            // It was applied, but perhaps to data that lack what was written before, or where no adoption tells the writer any more.
            let which = if is_here { "a partition's record or ids" } else { "the server's replication history" };
            let failure = Failure::Lost(format!("{which} changed without a word to the writer"));
            answer_all(plain.into_iter().map(|plain| plain.waiting), std::iter::repeat(Err(failure)));
        } else {
            concluded(writer, plain, executed, &mut left);
        }
        left.by_script.append(&mut left.again);
        Err(left)
    }

    /// Reads the answer of a script and hands it out; answers the writes that are to be sent by other ways.
    fn granted(&self, writer: &mut Writer, partition: Partition, members: Vec<Waiting>, value: Value) -> Vec<Waiting> {
        let mut answers = reply::list(value).unwrap_or_default();
        let grants = answers.pop().and_then(|grants| reply::text(grants).ok()).unwrap_or_default();
        if answers.len() != members.len() {
            // An error, or an answer that is none: what the script did nobody knows.
            writer.forget();
            return members;
        }
        if self.note(writer, partition, &members, &answers, &grants).is_none() {
            writer.forget();
        }
        answer_all(members, answers.into_iter().map(Ok));
        Vec::new()
    }

    /// Has the writer take note of what was granted. None if that can't be read: then it does not know what became of what it had.
    fn note(
        &self,
        writer: &mut Writer,
        partition: Partition,
        members: &[Waiting],
        answers: &[Value],
        grants: &str,
    ) -> Option<()> {
        if grants.is_empty() {
            // Nothing was applied, or by mutate.lua, which tells.
            return Some(());
        }
        let mut grants = grants.split('\u{1f}');
        let (epoch, window) = grants.next()?.split_once(' ')?;
        let (epoch, window) = (reply::epoch(epoch.as_bytes()).ok()?, window.parse().ok()?);
        for (Waiting { mutation, .. }, answer) in members.iter().zip(answers) {
            let flags = grants.next()?;
            let Value::BulkString(reply) = answer else { continue };
            let applied = applied(reply, mutation.id, mutation.changes.len()).ok()?;
            writer.grant(&self.space, (partition, epoch, window), mutation, &applied, flags);
        }
        Some(())
    }
}

/// Whether an applied transaction met the records that its writer knows, whose epochs it read behind so many other commands: who deletes
/// one deletes the names of its writers. And whether it left its ids, by commands that come before those on data. One that was not applied
/// left all as it was.
fn is_intact(executed: &Value, before: usize, epochs: &[Epoch], writes: usize) -> bool {
    let Value::Array(results) = executed else { return true };
    let mut shared = results.iter().take(results.len().saturating_sub(writes));
    let epoch_of = |value: &Value| if let Value::BulkString(text) = value { reply::epoch(text).ok() } else { None };
    let found = results.get(before..before + epochs.len()).unwrap_or_default();
    let are_known = found.len() == epochs.len() && epochs.iter().zip(found).all(|(epoch, found)| epoch_of(found) == Some(*epoch));
    are_known && !shared.any(|result| matches!(result, Value::ServerError(_))) || broken("R17-record")
}

/// Answers the writes of a transaction. If it was not applied, they are left.
fn concluded(writer: &mut Writer, plain: Vec<Plain>, executed: Value, left: &mut Left) {
    let Value::Array(results) = executed else {
        for plain in plain.iter().rev() {
            writer.give_back(plain.partition, &plain.waiting.mutation.owner, plain.version);
        }
        let waiting = plain.into_iter().map(|Plain { mut waiting, .. }| {
            waiting.reply.id = None;
            waiting
        });
        if executed == Value::Nil {
            left.again.splice(..0, waiting);
        } else {
            left.by_script.extend(waiting);
        }
        return;
    };
    // The commands on data are the last ones.
    let data = results.len().saturating_sub(plain.len());
    for (plain, result) in plain.into_iter().zip(results.into_iter().skip(data)) {
        let answer = match result {
            Value::ServerError(error) => Err(Failure::from(&error)),
            _ => Ok(plain.answer),
        };
        answer_all([plain.waiting], [answer]);
    }
}

/// A command of which each round has one, made with exactly the room that it needs.
fn plain_command(arguments: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(arguments.len(), arguments.iter().map(|argument| argument.len()).sum());
    for argument in arguments {
        command.arg(*argument);
    }
    command
}

fn renewal(writer: &Writer) -> Cmd {
    let mut command = plain_command(&[b"PEXPIRE", writer.key.as_bytes()]);
    command.arg(script::millis(writer.lease));
    command
}

/// Clears what the writer has heard. What it has not heard yet keeps the transaction from being applied.
fn clearing(pipeline: &mut Pipeline, writer: &mut Writer) {
    if writer.heard.is_empty() {
        return;
    }
    let mut clear = redis::cmd("HDEL");
    clear.arg(&writer.key);
    for name in std::mem::take(&mut writer.heard) {
        clear.arg(&*name);
    }
    pipeline.add_command(clear);
}
