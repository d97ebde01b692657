//! Calls about marks: snapshots, and what becomes of a snapshot's marks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use storage_model::sabotage::broken;
use storage_model::{Epoch, Field, Owner, Partition, Version};

use super::lock::lock_value;
use super::{SCRIPTS, Space, micros, millis};
use crate::key::Keys;
use crate::redis::reply;
use crate::redis::transport::Command;
use crate::{Lock, Park, Parked, Settle, mark};

/// `snapshot.lua`.
pub(crate) fn snapshot(space: &Space, partition: Partition, lock: &Lock) -> Command {
    let keys = &space.keys;
    let mut cmd =
        SCRIPTS.snapshot.call(&[keys.dirty(partition), keys.saving(partition), keys.part(partition), keys.lock(partition)]);
    cmd.arg(lock_value(lock));
    SCRIPTS.snapshot.write(space.slot(partition), cmd)
}

/// What `settle.lua` and `park.lua` are told of a mark.
#[derive(Debug, Clone)]
pub(crate) struct MarkRef<'a> {
    pub(crate) name: Cow<'a, [u8]>,
    pub(crate) version: Version,
    pub(crate) owner: Option<&'a Owner>,
}

/// The head of a call about marks: which partition, under which lock and epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) partition: Partition,
    pub(crate) lock: Option<&'a Lock>,
    pub(crate) epoch: Epoch,
    pub(crate) clean_ttl: Duration,
}

/// `settle.lua`, for some of a call's marks and error marks.
pub(crate) fn settle(space: &Space, head: Head<'_>, settle: &Settle, marks: &[MarkRef<'_>], errors: &[MarkRef<'_>]) -> Command {
    let (keys, partition) = (&space.keys, head.partition);
    let count = marks.len() + errors.len();
    let mut owners = Owners { numbers: HashMap::with_capacity(count), order: Vec::with_capacity(count) };
    let numbered: Vec<_> = marks.iter().chain(errors).map(|mark| (mark, owners.number(mark.owner))).collect();
    // A version has up to 16 digits, an owner's number up to 3.
    let bytes = 256 + numbered.iter().map(|(mark, _)| mark.name.len() + 19).sum::<usize>();
    let mut cmd = SCRIPTS.settle.call_with_room(&owners.keys(space, partition, fixed(keys, partition)), 6 + 3 * count, bytes);
    cmd.arg(head.lock.map(lock_value).unwrap_or_default()).arg(head.epoch.0).arg(settle.landed.get());
    cmd.arg(millis(head.clean_ttl)).arg(u8::from(settle.probation && !broken("H33-forgotten"))).arg(marks.len());
    for (at, (mark, owner)) in numbered.into_iter().enumerate() {
        // As either map keeps it.
        cmd.arg(&*mark.name);
        if at < marks.len() {
            cmd.arg(reply::mark_text(mark.version).as_slice())
        } else {
            cmd.arg(mark.version.get())
        };
        cmd.arg(owner);
    }
    SCRIPTS.settle.write(space.slot(head.partition), cmd)
}

/// `park.lua`, for some of a call's entries.
pub(crate) fn park(space: &Space, head: Head<'_>, park: &Park, chunk: &[Parked]) -> Command {
    let mut owners = Owners::default();
    let numbered: Vec<_> = chunk.iter().map(|parked| (parked, owners.number(parked.owner.as_ref()))).collect();
    let (keys, partition) = (&space.keys, head.partition);
    let mut cmd = SCRIPTS.park.call(&owners.keys(space, partition, fixed(keys, partition)));
    cmd.arg(head.lock.map(lock_value).unwrap_or_default()).arg(head.epoch.0);
    cmd.arg(micros(park.retry_min)).arg(micros(park.retry_max)).arg(millis(head.clean_ttl));
    for (parked, owner) in numbered {
        let source = parked.source.as_ref();
        let stays = park.probation && parked.has_landed();
        cmd.arg(owner).arg(u8::from(source.is_some()) + u8::from(stays));
        cmd.arg(source.map_or(&[][..], |entry| &entry.raw)).arg(source.map_or(0, |entry| entry.version.get()));
        match &parked.owner {
            Some(owner) => {
                cmd.arg(parked.faults.len());
                for fault in &parked.faults {
                    cmd.arg(mark::encode(owner, [&fault.field])).arg(fault.version.get()).arg(fault.code).arg(&fault.message);
                }
            }
            // What can't be read names no field; it keeps its own name, so that it is not lost.
            None => {
                cmd.arg(1).arg(source.map_or(&[][..], |entry| &entry.raw));
                let message = parked.faults.first().map_or("unreadable mark", |fault| &fault.message);
                cmd.arg(source.map_or(0, |entry| entry.version.get())).arg(0).arg(message);
            }
        }
    }
    SCRIPTS.park.write(space.slot(head.partition), cmd)
}

/// The keys of a call that settles or parks, before those of the owners.
fn fixed(keys: &Keys, partition: Partition) -> [String; 5] {
    let [saving, error, part] = [keys.saving(partition), keys.error(partition), keys.part(partition)];
    [saving, error, part, keys.lock(partition), keys.landed(partition)]
}

/// The owners that a call names, numbered from 1 in the order they come up; 0 is nobody.
#[derive(Default)]
pub(super) struct Owners<'a> {
    numbers: HashMap<&'a Owner, usize>,
    order: Vec<&'a Owner>,
}

impl<'a> Owners<'a> {
    pub(super) fn number(&mut self, owner: Option<&'a Owner>) -> usize {
        let Some(owner) = owner else { return 0 };
        *self.numbers.entry(owner).or_insert_with(|| {
            self.order.push(owner);
            self.order.len()
        })
    }

    /// The keys of a call: these, then the owners' hashes.
    pub(super) fn keys<const N: usize>(&self, space: &Space, partition: Partition, fixed: [String; N]) -> Vec<String> {
        fixed.into_iter().chain(self.order.iter().map(|owner| space.keys.data(partition, owner))).collect()
    }
}

/// The error mark of a field.
pub(crate) fn error_mark(owner: &Owner, field: &Field) -> String {
    mark::encode(owner, [field])
}
