//! Writes that wait for replicas or for the disk.
//!
//! These writes have connections of their own, since a WAIT holds up all commands behind it. Writes
//! that wait for the same thing while one group is under way go together in the next group. A group
//! is one pipeline on one connection: the scripts, a write, one WAIT. A WAIT on another connection
//! would say nothing of the group: a connection that wrote nothing is told that all is well (H19).
//! So if the connection breaks, the durability of its writes is unknown. A retry waits again,
//! behind a write of its own.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use storage_coalesce::{Coalescer, Group};
use storage_model::Durability;

use super::connect::Node;
use super::lane::{Lane, Ready};
use super::server::ServerInfo;
use super::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;

/// The most commands under one WAIT.
const GROUP_MAX: usize = 512;

/// The durability that the answer of a command waits for.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    pub(crate) until: Durability,
    /// The write before the WAIT, in the command's slot.
    sync: Box<Command>,
}

impl Barrier {
    /// Whether a write of this durability waits.
    pub(crate) fn is_of(until: Durability) -> bool {
        matches!(
            until,
            Durability::Replicated { .. } | Durability::Fsynced { .. }
        )
    }

    /// `None` for a write that does not wait.
    pub(crate) fn of(until: Durability, sync: impl FnOnce() -> Command) -> Option<Self> {
        Self::is_of(until).then(|| Self {
            until,
            sync: Box::new(sync()),
        })
    }
}

/// The durability that a group waits for, and whether an ASKING goes before each command.
type Kind = (Durability, bool);

/// The writes to one node that wait for one kind of durability. One group is under way at a time.
pub(in crate::redis) struct WaitingWrites {
    pub(in crate::redis) lane: Arc<Lane>,
    groups: Coalescer<Kind, Vec<Command>, Vec<Answer>>,
}

impl Default for WaitingWrites {
    fn default() -> Self {
        Self {
            lane: Arc::default(),
            groups: Coalescer::of_weight(1, 1, GROUP_MAX, Vec::len),
        }
    }
}

impl Node {
    /// Sends commands. An applied command is answered once it has this durability.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        until: Durability,
        commands: &[&Command],
        asking: bool,
    ) -> Vec<Answer> {
        let all = commands.iter().map(|command| (*command).clone()).collect();
        let groups = &self.waiting(until).groups;
        let (answered, carrier) = groups.join_with_carrier((until, asking), all);
        // Each caller's runtime has a carrier. So the end of one runtime leaves no other caller
        // without one.
        let node = Arc::clone(self);
        tokio::spawn(async move {
            let node = &*node;
            let commit = |batch: Vec<_>| async move {
                for group in batch {
                    node.carry(group).await;
                }
            };
            carrier.carry(commit).await;
        });
        let lost = |_| {
            commands
                .iter()
                .map(|_| Err(Failure::Lost("the group of writes ended".to_owned())))
                .collect()
        };
        answered.await.unwrap_or_else(lost)
    }

    async fn carry(&self, group: Group<Kind, Vec<Command>, Vec<Answer>>) {
        let commands: Vec<&Command> = group.inputs().flatten().collect();
        let mut answers = self.commit_group(*group.key(), &commands).await.into_iter();
        let parts: Vec<Vec<Answer>> = group
            .inputs()
            .map(|commands| answers.by_ref().take(commands.len()).collect())
            .collect();
        group.answer(parts);
    }

    async fn commit_group(&self, (until, asking): Kind, commands: &[&Command]) -> Vec<Answer> {
        let all = |failure: Failure| commands.iter().map(|_| Err(failure.clone())).collect();
        let (mut ready, wait) = match self.prepared(until).await {
            Ok(prepared) => prepared,
            Err(failure) => return all(failure),
        };
        if commands
            .iter()
            .all(|command| self.refusal(command, &ready, asking).is_some())
        {
            // Nothing is sent, so there is nothing to wait for.
            return self.send_on(ready, commands, asking).await;
        }
        let last = commands.last().and_then(|last| last.barrier.as_ref());
        let Some(sync) = last.map(|barrier| &*barrier.sync) else {
            return all(Failure::Nonsense(
                "a write in a group waits for nothing".to_owned(),
            ));
        };
        ready.patience(self.response_timeout().saturating_add(timeout(until)));
        let mut sent: Vec<&Command> = commands.to_vec();
        // ORDER: the write goes behind the scripts and before the WAIT. The WAIT covers the last
        // write of its own connection, and a script that only found its id again wrote nothing.
        sent.push(sync);
        sent.extend(wait.as_ref());
        let mut answers = self.send_on(ready, &sent, asking).await;
        let mut barrier = answers
            .split_off(commands.len().min(answers.len()))
            .into_iter();
        let synced = barrier.next().unwrap_or(Err(Failure::TimedOut)).map(drop);
        let reached = synced.and_then(|()| match wait {
            Some(_) => reached(until, barrier.next().unwrap_or(Err(Failure::TimedOut))),
            None => Ok(()),
        });
        answers
            .into_iter()
            .map(|answer| guarded(answer, &reached))
            .collect()
    }

    /// The connection of writes that wait, and the command that waits, if one is needed. Checks the
    /// server first, so that an impossible durability is rejected before anything is written.
    async fn prepared(&self, until: Durability) -> Result<(Ready, Option<Command>), Failure> {
        let ready = self.ready_in(&self.waiting(until).lane).await?;
        let replicated = matches!(until, Durability::Replicated { .. });
        // A wait for nothing. It answers at once, and shows whether the command exists and is
        // allowed.
        let probe: &[&str] = if replicated {
            &["WAIT", "0", "0"]
        } else {
            &["WAITAOF", "0", "0", "0"]
        };
        let config = |name| ["CONFIG", "GET", name];
        let looks: [&[&str]; 4] = [
            &["INFO"],
            probe,
            &config("appendfsync"),
            &config("no-appendfsync-on-rewrite"),
        ];
        let looks = looks.map(look);
        let answers = self
            .send_on(ready.clone(), &looks.iter().collect::<Vec<_>>(), false)
            .await;
        let Ok([info, probe, fsync, pauses]) = <[Answer; 4]>::try_from(answers) else {
            return Err(Failure::TimedOut);
        };
        let info = info.map_err(|failure| self.unsent(failure))?;
        let info = ServerInfo::parse(&reply::text(info)?)?;
        if !self.is_still(&info, &ready) {
            return Err(Failure::NoConnection(format!(
                "{} has another identity by now",
                self.name
            )));
        }
        let wait = match until {
            Durability::Replicated { replicas, timeout } => {
                probe.map_err(|failure| refused(&info, &failure))?;
                enough(&info, replicas)?;
                Some(wait("WAIT", &[replicas.into(), millis(timeout)]))
            }
            _ if !info.appends => return Err(no_append_only_file(&info)),
            _ if probe.is_ok() => Some(wait("WAITAOF", &[1, 0, millis(timeout(until))])),
            // Then the server answers no write before it is on the disk, unless the server stops
            // that while it rewrites the file.
            _ if setting(fsync)? == "always" && setting(pauses)? == "no" => None,
            _ => return Err(no_waitaof(&info)),
        };
        Ok((ready, wait))
    }
}

fn look(words: &[&str]) -> Command {
    let mut cmd = redis::Cmd::new();
    cmd.arg(words);
    Command::read("look", 0, cmd)
}

fn wait(name: &str, numbers: &[u64]) -> Command {
    let mut cmd = redis::cmd(name);
    cmd.arg(numbers);
    Command::read("wait", 0, cmd)
}

fn timeout(until: Durability) -> Duration {
    match until {
        Durability::Replicated { timeout, .. } | Durability::Fsynced { timeout } => timeout,
        _ => Duration::ZERO,
    }
}

/// Never 0, since 0 waits forever.
fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis())
        .unwrap_or(u64::MAX)
        .clamp(1, 600_000)
}

fn enough(info: &ServerInfo, wanted: u32) -> Result<(), Failure> {
    if info.replicas >= wanted {
        return Ok(());
    }
    let there = info.replicas;
    Err(Failure::Durability(format!(
        "{wanted} replicas are asked for, and {there} follow the server; nothing was written"
    )))
}

fn refused(info: &ServerInfo, failure: &Failure) -> Failure {
    match failure {
        Failure::Server { code, text } => Failure::Durability(format!(
            "{} refuses WAIT, so nothing was written: {code} {text}",
            info.program
        )),
        other => other.clone(),
    }
}

fn no_append_only_file(info: &ServerInfo) -> Failure {
    let program = &info.program;
    Failure::Durability(format!(
        "{program} keeps no append-only file, so nothing was written; set appendonly yes there, or ask for Landed or Replicated"
    ))
}

fn no_waitaof(info: &ServerInfo) -> Failure {
    let program = &info.program;
    Failure::Durability(format!(
        "{program} can't wait for its disk, so nothing was written; set appendfsync always and no-appendfsync-on-rewrite no there, use \
         Redis or Valkey 7.2 or later, or ask for Landed or Replicated"
    ))
}

/// The value that CONFIG GET answers for one name. Empty if the server has none or does not tell.
fn setting(answer: Answer) -> Result<String, Failure> {
    match answer {
        Ok(value) => match reply::pairs(value)?.into_iter().next() {
            Some((_, value)) => Ok(String::from_utf8_lossy(&value).into_owned()),
            None => Ok(String::new()),
        },
        Err(Failure::Server { .. }) => Ok(String::new()),
        Err(failure) => Err(failure),
    }
}

/// Fails unless as many answered as the write asked for.
fn reached(until: Durability, answer: Answer) -> Result<(), Failure> {
    match until {
        Durability::Replicated { replicas, timeout } => {
            let reached: u32 = reply::number(answer?)?;
            let message = || {
                format!(
                    "{reached} of {replicas} replicas had the write after {timeout:?}; it is written and lands later"
                )
            };
            if reached >= replicas {
                Ok(())
            } else {
                Err(Failure::NotReached(message()))
            }
        }
        _ => {
            let [local, _] = reply::array(answer?)?;
            let message = || {
                format!(
                    "the write was not on the disk after {:?}; it is written and lands later",
                    timeout(until)
                )
            };
            if reply::number::<u32>(local)? >= 1 {
                Ok(())
            } else {
                Err(Failure::NotReached(message()))
            }
        }
    }
}

/// The answer of a script, given the result of the barrier behind it. A refusal changed nothing, so
/// it stands.
fn guarded(answer: Answer, reached: &Result<(), Failure>) -> Answer {
    match (answer, reached) {
        (Ok(Value::BulkString(_) | Value::SimpleString(_)), Err(failure)) => Err(match failure {
            Failure::NotReached(text) => Failure::NotReached(text.clone()),
            // A retry finds its id again, and waits again.
            other => Failure::Lost(format!(
                "the durability of the write is unknown: {}",
                other.text()
            )),
        }),
        (answer, _) => answer,
    }
}
