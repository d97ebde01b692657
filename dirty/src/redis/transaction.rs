//! The plain commands that set what `update.lua` would set (`writer.rs`).

use redis::{Cmd, Pipeline};
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
    /// Adds a write.
    pub(super) fn push(&mut self, space: &Space, partition: Partition, mutation: &Mutation, direct: &Direct<'_>) {
        let Direct { grant, mark, parity } = direct;
        let version = grant.version.get();
        let known = self.partitions.iter().position(|(known, ..)| *known == partition);
        let at = known.unwrap_or_else(|| {
            let commands = [space.keys.dirty(partition), space.keys.ops(partition, *parity)].map(|key| set(&key));
            let [marks, ids] = commands;
            self.partitions.push((partition, marks, ids));
            self.partitions.len() - 1
        });
        if let Some((_, marks, ids)) = self.partitions.get_mut(at) {
            marks.arg(*mark).arg(reply::mark_text(grant.version).as_slice());
            ids.arg(&mutation.id.0).arg(version);
        }
        self.head.clear();
        self.head.push_str(itoa::Buffer::new().format(version));
        self.head.push_str(&grant.flags);
        self.data.push(data(&grant.hash, &self.head, mutation));
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

/// The command that sets an owner's fields. It is made with exactly the room that it needs, since each round makes many.
fn data(hash: &str, head: &str, mutation: &Mutation) -> Cmd {
    let fields = || {
        mutation.changes.iter().filter_map(|(field, change)| match change {
            Change::Set(value) => Some((key::stored(field), value)),
            _ => None,
        })
    };
    let bytes: usize = fields().map(|(name, value)| name.len() + value.len()).sum();
    let [command, version] = ["HSET", ":v"];
    let bytes = command.len() + hash.len() + version.len() + head.len() + bytes;
    let mut data = Cmd::with_capacity(4 + 2 * mutation.changes.len(), bytes);
    data.arg(command).arg(hash).arg(version).arg(head);
    for (name, value) in fields() {
        data.arg(&*name).arg(&**value);
    }
    data
}
