//! The plain commands that set what `update.lua` would set (`writer.rs`).

use redis::{Cmd, Pipeline, Value};
use storage_model::{Change, Mutation, Partition};

use super::reply;
use super::space::Space;
use super::writer::Direct;
use crate::key;

/// The commands of some writes.
#[derive(Default)]
pub(super) struct Transaction {
    /// For each partition its marks and operation ids.
    partitions: Vec<(Partition, Cmd, Cmd)>,
    data: Vec<Cmd>,
    /// The reserved field of a write, while it is made.
    head: String,
}

impl Transaction {
    /// Adds a write. Answers what `update.lua` would answer.
    pub(super) fn push(&mut self, space: &Space, partition: Partition, mutation: &Mutation, direct: &Direct<'_>) -> Value {
        let Direct { grant, mark, parity, sums } = direct;
        let version = grant.version.get();
        let counted = if sums.is_empty() { None } else { Some(counted(version, sums)) };
        let known = self.partitions.iter().position(|(known, ..)| *known == partition);
        let at = known.unwrap_or_else(|| {
            let commands = [space.keys.dirty(partition), space.keys.ops(partition, *parity)].map(|key| set(&key));
            let [marks, ids] = commands;
            self.partitions.push((partition, marks, ids));
            self.partitions.len() - 1
        });
        if let Some((_, marks, ids)) = self.partitions.get_mut(at) {
            marks.arg(*mark).arg(reply::mark_text(grant.version).as_slice());
            ids.arg(&mutation.id.0);
            match &counted {
                None => ids.arg(version),
                Some(counted) => ids.arg(counted),
            };
        }
        self.head.clear();
        self.head.push_str(itoa::Buffer::new().format(version));
        self.head.push_str(&grant.flags);
        self.data.push(data(&grant.hash, &self.head, mutation, sums));
        match counted {
            None => Value::Int(i64::try_from(version).unwrap_or(i64::MAX)),
            Some(counted) => Value::BulkString(counted.into_bytes()),
        }
    }

    /// Adds the commands to a pipeline, those on data last. Marks come before data, as in `update.lua`.
    pub(super) fn send(self, pipeline: &mut Pipeline) {
        for (_, marks, ids) in self.partitions {
            pipeline.add_command(marks).add_command(ids);
        }
        for command in self.data {
            pipeline.add_command(command);
        }
    }
}

/// What begins to set fields of a key of a partition, with room for those of most rounds.
fn set(key: &str) -> Cmd {
    let mut command = Cmd::with_capacity(32, 1_024);
    command.arg("HSET").arg(key);
    command
}

/// The reply to a write that adds, as it is remembered under its id.
fn counted(version: u64, sums: &[i64]) -> String {
    let mut reply = String::with_capacity(24 + DIGITS * sums.len());
    reply.push_str(itoa::Buffer::new().format(version));
    reply.push(' ');
    reply.push_str(itoa::Buffer::new().format(sums.len()));
    for sum in sums {
        reply.push(' ');
        reply.push_str(itoa::Buffer::new().format(*sum));
    }
    reply
}

/// The most characters of a sum, and a space.
const DIGITS: usize = 21;

/// The command that sets an owner's fields, counters to their sums. It is made with all the room that it needs, since each round makes
/// many.
fn data(hash: &str, head: &str, mutation: &Mutation, sums: &[i64]) -> Cmd {
    let value = |change: &Change| if let Change::Set(value) = change { value.len() } else { DIGITS };
    let fields: usize = mutation.changes.iter().map(|(field, change)| 1 + field.as_str().len() + value(change)).sum();
    let mut data = Cmd::with_capacity(4 + 2 * mutation.changes.len(), "HSET:v".len() + hash.len() + head.len() + fields);
    data.arg("HSET").arg(hash).arg(":v").arg(head);
    let mut sums = sums.iter();
    for (field, change) in mutation.changes.iter() {
        match (change, sums.next()) {
            (Change::Set(value), _) => data.arg(&*key::stored(field)).arg(&**value),
            (_, Some(sum)) => data.arg(&*key::stored(field)).arg(*sum),
            (_, None) => continue,
        };
    }
    data
}
