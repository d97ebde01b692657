//! The plain commands that set what `update.lua` would set, but for ids and marks (`writer.rs`).

use redis::{Cmd, Pipeline, Value};
use storage_model::sabotage::broken;
use storage_model::{Change, Epoch, Known, Mutation, OpId, Partition};

use super::space::Space;
use super::writer::Direct;
use crate::key;

/// The commands of some writes.
#[derive(Default)]
pub(super) struct Transaction {
    partitions: Vec<Part>,
    data: Vec<Cmd>,
    /// The reserved field of a write, while it is made.
    head: String,
}

/// What a write is remembered by that its caller did not name. No two writes share one, though their owners may have the same version.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) writer: u64,
    /// The write's number among those of its writer.
    pub(super) number: u64,
    /// That of the last write of its round, which the round leaves in each partition.
    pub(super) last: u64,
}

/// What a partition's writes have together.
struct Part {
    partition: Partition,
    /// The epoch in which the writer was granted what it has there, and what reads that of the record.
    epoch: Epoch,
    record: Cmd,
    ids: Cmd,
    /// Whether the round is among the ids.
    has_round: bool,
}

impl Transaction {
    /// With room for so many writes.
    pub(super) fn with_room(writes: usize) -> Self {
        Self { data: Vec::with_capacity(writes), ..Self::default() }
    }

    /// Adds a write of a round. Answers what `update.lua` would answer, and the id that the write is given, if it takes one.
    pub(super) fn push(
        &mut self,
        space: &Space,
        partition: Partition,
        mutation: &Mutation,
        direct: &Direct<'_>,
        Name { writer, number, last }: Name,
    ) -> (Value, Option<OpId>) {
        let Direct { grant, epoch, parity, sums } = direct;
        let version = grant.version.get();
        let counted = if sums.is_empty() { None } else { Some(counted(version, sums)) };
        // What a counter came to can't be told from the id.
        let given = counted.is_none() && mutation.known == Known::Nobody;
        let known = self.partitions.iter().position(|part| part.partition == partition);
        let at = known.unwrap_or_else(|| {
            let (record, ids) = (epoch_of(&space.keys.part(partition)), set(&space.keys.ops(partition, *parity)));
            self.partitions.push(Part { partition, epoch: *epoch, record, ids, has_round: false });
            self.partitions.len() - 1
        });
        if let Some(part) = self.partitions.get_mut(at) {
            if !given {
                part.ids.arg(mutation.id.as_bytes());
                match &counted {
                    None => part.ids.arg(version),
                    Some(counted) => part.ids.arg(counted),
                };
            } else if !part.has_round {
                part.has_round = true;
                part.ids.arg(&writer.to_be_bytes()).arg(last);
            }
        }
        self.head.clear();
        self.head.push_str(itoa::Buffer::new().format(version));
        self.head.push_str(&grant.flags);
        self.data.push(data(&grant.hash, &self.head, mutation, sums));
        let answer = match counted {
            None => Value::Int(i64::try_from(version).unwrap_or(i64::MAX)),
            Some(counted) => Value::BulkString(counted.into_bytes()),
        };
        let number = if broken("R11-shared") { last } else { number };
        (answer, given.then(|| OpId::given(writer, number, grant.version)))
    }

    /// Adds the commands to a pipeline: first those that read the epochs, which are answered as they should be; those on data last, one a
    /// write.
    pub(super) fn send(self, pipeline: &mut Pipeline) -> Vec<Epoch> {
        let epochs = self.partitions.iter().map(|part| part.epoch).collect();
        let (records, ids): (Vec<_>, Vec<_>) = self.partitions.into_iter().map(|part| (part.record, part.ids)).unzip();
        for command in records.into_iter().chain(ids) {
            pipeline.add_command(command);
        }
        for command in self.data {
            pipeline.add_command(command);
        }
        epochs
    }
}

/// What reads the epoch of a record.
fn epoch_of(record: &str) -> Cmd {
    let mut command = Cmd::with_capacity(3, "HGETepoch".len() + record.len());
    command.arg("HGET").arg(record).arg("epoch");
    command
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
