//! The call of `update.lua`: many simple writes of one partition.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use redis::Cmd;
use storage_model::{Change, Condition, Mutation, Partition};

use super::arguments::life;
use super::mutation::{call_args, fence_of};
use super::{CallNumber, SCRIPTS};
use crate::key;
use crate::mark::SEPARATOR;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;

/// The most fields of a write that `update.lua` takes. Their values go through one unpack.
const UPDATE_FIELDS_MAX: usize = 2_000;

/// Whether `update.lua` takes the write. It takes a plain write that only sets or only adds. It
/// takes a write of a session that only sets and does not end the session.
pub(crate) fn takes_update(mutation: &Mutation) -> bool {
    let all = |kind: fn(&Change) -> bool| mutation.changes.iter().all(|(_, change)| kind(change));
    let sets = all(|change| matches!(change, Change::Set(_)));
    let is_plain = mutation.fence.is_none();
    let fits = match mutation.condition {
        Condition::None if mutation.closes => false,
        Condition::None => sets || is_plain && all(|change| matches!(change, Change::Incr(_))),
        Condition::Version(_) => sets && is_plain,
        Condition::Absent => false,
    };
    let is_alone = mutation.also.is_empty() && mutation.expected.is_empty();
    fits && is_alone && (1..=UPDATE_FIELDS_MAX).contains(&mutation.changes.len())
}

/// `update.lua`: a call of a store, with this number, for writes of one partition that it takes.
/// None of them waits for replicas or the disk.
pub(crate) fn update<'a>(
    space: &Space,
    partition: Partition,
    call: CallNumber<'_>,
    marker_ttl: Option<Duration>,
    mutations: impl IntoIterator<Item = &'a Mutation>,
) -> Command {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let parts: Vec<String> = mutations
        .iter()
        .map(|mutation| key::owner_part(&mutation.owner))
        .collect();
    let apart = parts.len() == 1 || all_differ(&parts);
    let [dirty, others @ ..] = space.keys.maps(partition);
    let mut keys = vec![dirty, space.keys.part(partition)];
    keys.extend(others);
    keys.push(space.keys.sessions(partition));
    keys.push(space.keys.notes(partition));
    keys.extend(
        parts
            .iter()
            .flat_map(|part| space.keys.of_write(partition, part)),
    );
    let mut cmd = SCRIPTS.update.call(&keys);
    call_args(&mut cmd, &mutations)
        .arg(u8::from(apart))
        .arg(call.store)
        .arg(call.number)
        .arg(life(marker_ttl));
    for part in &parts {
        cmd.arg(part);
    }
    for mutation in mutations {
        update_args(&mut cmd, mutation);
    }
    Command {
        needs_policy: true,
        ..SCRIPTS.update.write(space.slot(partition), cmd)
    }
}

fn all_differ<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    items.into_iter().all(|item| seen.insert(item))
}

fn update_args(cmd: &mut Cmd, mutation: &Mutation) {
    let fields = mutation.changes.len();
    let noted = if mutation.note.is_some() { "!" } else { "" };
    match (mutation.condition, mutation.changes.first()) {
        (Condition::Version(version), _) => cmd.arg(format!("{fields}={version}{noted}")),
        _ if mutation.fence.is_some() => cmd.arg(format!("{fields}@{}{noted}", fence_of(mutation))),
        (_, Some((_, Change::Incr(_)))) => cmd.arg(format!("{fields}+{noted}")),
        _ if mutation.note.is_some() => cmd.arg(format!("{fields}{noted}")),
        _ => cmd.arg(fields),
    };
    if fields > 1 {
        cmd.arg(names_in_mark(mutation));
    }
    for (field, change) in mutation.changes.iter() {
        match change {
            Change::Set(value) => cmd.arg(&*key::stored(field)).arg(&**value),
            Change::Incr(step) => cmd.arg(&*key::stored(field)).arg(*step),
            Change::Add { .. } | Change::Remove | Change::Restore | Change::Purge => continue,
        };
    }
    if let Some(body) = &mutation.note {
        cmd.arg(&**body);
    }
}

/// The fields of a mutation as a mark names them.
fn names_in_mark(mutation: &Mutation) -> String {
    let mut names = String::with_capacity(16 * mutation.changes.len());
    for (field, _) in mutation.changes.iter() {
        if !names.is_empty() {
            names.push(SEPARATOR);
        }
        names.push_str(&key::stored(field));
    }
    names
}
