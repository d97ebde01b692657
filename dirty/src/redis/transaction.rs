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
    markers: Option<Cmd>,
    data: Vec<Cmd>,
}

impl Transaction {
    /// Adds a write.
    pub(super) fn push(&mut self, space: &Space, partition: Partition, mutation: &Mutation, direct: &Direct<'_>) {
        let Direct { grant, mark, parity } = direct;
        let version = grant.version.get();
        let [hash, marker] = &grant.keys;
        let known = self.partitions.iter().position(|(known, ..)| *known == partition);
        let at = known.unwrap_or_else(|| {
            let commands = [space.keys.dirty(partition), space.keys.ops(partition, *parity)].map(|key| set(&key));
            let [marks, ids] = commands;
            self.partitions.push((partition, marks, ids));
            self.partitions.len() - 1
        });
        if let Some((_, marks, ids)) = self.partitions.get_mut(at) {
            marks.arg(*mark).arg(reply::mark_text(grant.version));
            ids.arg(&mutation.id.0).arg(version);
        }
        let markers = self.markers.get_or_insert_with(|| {
            let mut markers = Cmd::with_capacity(64, 4_096);
            markers.arg("MSET");
            markers
        });
        markers.arg(marker).arg(version);
        let mut data = Cmd::with_capacity(4 + 2 * mutation.changes.len(), 256);
        data.arg("HSET").arg(hash).arg(":v").arg(format!("{version}{}", grant.flags));
        for (field, change) in mutation.changes.iter() {
            if let Change::Set(value) = change {
                data.arg(&*key::stored(field)).arg(&**value);
            }
        }
        self.data.push(data);
    }

    /// Adds the commands to a pipeline, those on data last. Marks come before data, as in `update.lua`.
    pub(super) fn send(self, pipeline: &mut Pipeline) {
        for (_, marks, ids) in self.partitions {
            pipeline.add_command(marks).add_command(ids);
        }
        for command in self.markers.into_iter().chain(self.data) {
            pipeline.add_command(command);
        }
    }
}

fn set(key: &str) -> Cmd {
    let mut command = Cmd::with_capacity(32, 1_024);
    command.arg("HSET").arg(key);
    command
}
