//! The calls of `mutate.lua` and `transact.lua`, which take every write.

use std::time::Duration;

use redis::Cmd;
use storage_model::{Change, Condition, ID_WINDOW, Mutation, Partition};

use super::arguments::{deadline_of, life, micros};
use super::load::load_args;
use super::partition::write_for_wait;
use super::{CallNumber, SCRIPTS};
use crate::redis::connections::barrier::Barrier;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Load, key};

/// The keys that `mutate.lua` and `transact.lua` name before their own.
fn mutation_keys(space: &Space, partition: Partition) -> Vec<String> {
    let all = &space.keys;
    let mut keys = vec![all.part(partition)];
    keys.extend(all.maps(partition));
    keys.extend([
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.beats(partition),
        all.notes(partition),
    ]);
    let [links, _] = all.links(partition);
    keys.push(links);
    keys
}

/// `mutate.lua`.
pub(crate) fn mutate(
    space: &Space,
    mutation: &Mutation,
    loads: &[Load],
    marker_ttl: Option<Duration>,
) -> Command {
    let partition = space.partition(&mutation.owner);
    let mut keys = mutation_keys(space, partition);
    keys.extend([0, 1].map(|parity| space.keys.ops(partition, parity)));
    let names = names_of(mutation);
    for name in &names {
        keys.extend(space.keys.of_write(partition, name));
    }
    let mut cmd = SCRIPTS.mutate.call(&keys);
    epoch(
        cmd.arg(mutation.id.as_bytes()).arg(deadline(mutation)),
        Some(mutation),
    )
    .arg(micros(ID_WINDOW))
    .arg(life(marker_ttl));
    for (part, name) in mutation.parts().zip(names) {
        let load = loads.iter().find(|load| load.owner == part.owner);
        part_args(cmd.arg(name), part, load);
    }
    let barrier = Barrier::of(mutation.durability, || write_for_wait(space, partition));
    Command {
        needs_policy: true,
        barrier,
        ..SCRIPTS.mutate.write(space.slot(partition), cmd)
    }
}

/// `transact.lua`: a call of a store, with this number, for writes of one partition. None of them
/// waits for replicas or the disk.
pub(crate) fn transact<'a>(
    space: &Space,
    partition: Partition,
    call: CallNumber<'_>,
    marker_ttl: Option<Duration>,
    mutations: impl IntoIterator<Item = &'a Mutation>,
) -> Command {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let names: Vec<_> = mutations
        .iter()
        .map(|mutation| names_of(mutation))
        .collect();
    let mut keys = mutation_keys(space, partition);
    for name in names.iter().flatten() {
        keys.extend(space.keys.of_write(partition, name));
    }
    let mut cmd = SCRIPTS.transact.call(&keys);
    call_args(&mut cmd, &mutations)
        .arg(call.store)
        .arg(call.number)
        .arg(life(marker_ttl));
    for (mutation, names) in mutations.into_iter().zip(names) {
        cmd.arg(names.len());
        for (part, name) in mutation.parts().zip(names) {
            part_args(cmd.arg(name), part, None);
        }
    }
    Command {
        needs_policy: true,
        ..SCRIPTS.transact.write(space.slot(partition), cmd)
    }
}

/// The names of a mutation's owners, as maps have them.
fn names_of(mutation: &Mutation) -> Vec<String> {
    let names = mutation.parts().map(|part| key::owner_part(&part.owner));
    names.collect()
}

/// The deadlines and the epoch of the writes of one call.
pub(super) fn call_args<'a>(cmd: &'a mut Cmd, mutations: &[&Mutation]) -> &'a mut Cmd {
    let deadlines = || mutations.iter().map(|mutation| deadline(mutation));
    cmd.arg(micros(ID_WINDOW))
        .arg(deadlines().min())
        .arg(deadlines().max());
    epoch(cmd, mutations.first().copied())
}

/// The time until which a copy of a mutation may be applied.
fn deadline(mutation: &Mutation) -> u64 {
    deadline_of(mutation.deadline)
}

/// The epoch in which a mutation may be applied.
fn epoch<'a>(cmd: &'a mut Cmd, mutation: Option<&Mutation>) -> &'a mut Cmd {
    match mutation.and_then(|mutation| mutation.epoch) {
        Some(epoch) => cmd.arg(epoch.0),
        None => cmd.arg(""),
    }
}

/// The fence of the session that writes. Empty for a plain write.
pub(super) fn fence_of(mutation: &Mutation) -> String {
    mutation
        .fence
        .map(|fence| fence.to_string())
        .unwrap_or_default()
}

/// One owner's part of a mutation.
fn part_args(cmd: &mut Cmd, part: &Mutation, load: Option<&Load>) {
    match part.condition {
        Condition::None => cmd.arg("none"),
        Condition::Absent => cmd.arg("absent"),
        Condition::Version(version) => cmd.arg(version.get()),
    };
    cmd.arg(fence_of(part))
        .arg(u8::from(part.closes))
        .arg(match &part.note {
            Some(body) => [b"=", &**body].concat(),
            None => Vec::new(),
        })
        .arg(part.changes.len())
        .arg(part.expected.len())
        .arg(load.map_or(0, |load| 5 + 4 * load.rows.len()));
    for (field, change) in part.changes.iter() {
        cmd.arg(&*key::stored(field));
        match change {
            Change::Set(value) => cmd.arg("set").arg(&**value),
            Change::Incr(step) => cmd.arg("incr").arg(*step),
            Change::Add { by, floor, ceiling } => {
                cmd.arg("add").arg(format!("{by} {floor} {ceiling}"))
            }
            Change::Remove => cmd.arg("remove").arg(""),
            Change::Restore => cmd.arg("restore").arg(""),
            Change::Purge => cmd.arg("purge").arg(""),
        };
    }
    for (field, value) in &part.expected {
        cmd.arg(&*key::stored(field));
        match value {
            Some(value) => cmd.arg([b"=", &**value].concat()),
            None => cmd.arg("-"),
        };
    }
    if let Some(load) = load {
        load_args(cmd, load);
    }
}
