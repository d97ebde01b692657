//! Calls about marks: snapshots, and the settling and rejecting of their marks.

use std::time::Duration;

use storage_model::{Epoch, Owner, Partition, Version};

use super::SCRIPTS;
use super::arguments::{micros, millis};
use super::lock::lock_value;
use crate::key::{self, Keys};
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Bound, Fields, Lock, Reject, Rejected, Settle, SnapshotId, mark};

/// `snapshot.lua`.
pub(crate) fn snapshot(space: &Space, partition: Partition, lock: &Lock) -> Command {
    let keys = &space.keys;
    let [links, links_saving] = keys.links(partition);
    let mut cmd = SCRIPTS.snapshot.call(&[
        keys.dirty(partition),
        keys.saving(partition),
        keys.part(partition),
        keys.lock(partition),
        keys.error(partition),
        keys.landed(partition),
        keys.expiring(partition),
        links,
        links_saving,
    ]);
    cmd.arg(lock_value(lock));
    SCRIPTS.snapshot.write(space.slot(partition), cmd)
}

/// `end_collect.lua`, for owners of which fields were read.
pub(crate) fn end_collect<'a>(
    space: &Space,
    partition: Partition,
    known: Option<SnapshotId>,
    owners: impl ExactSizeIterator<Item = &'a Owner>,
) -> Command {
    let mut keys = space.keys.maps(partition).to_vec();
    keys.push(space.keys.part(partition));
    let room = 48 * owners.len();
    let call = &SCRIPTS.end_collect;
    let mut cmd = call.call_with_room(&keys, 1 + owners.len(), 24 + room);
    match known {
        Some(SnapshotId(number)) => cmd.arg(number),
        None => cmd.arg("-1"),
    };
    for owner in owners {
        cmd.arg(key::owner_part(owner));
    }
    call.write(space.slot(partition), cmd)
}

/// Wants all fields of an owner. No field has this name.
const ALL_FIELDS: &str = "\u{1f}";

/// `collect_linked.lua`.
pub(crate) fn collect_linked(
    space: &Space,
    partition: Partition,
    wanted: &[(Owner, Fields)],
    bound: Bound,
    follow: bool,
) -> Command {
    let mut keys = keys_of_links(space, partition);
    keys.extend(
        wanted
            .iter()
            .map(|(owner, _)| space.keys.data(partition, owner)),
    );
    let mut cmd = SCRIPTS.collect_linked.call(&keys);
    cmd.arg(bound.rows).arg(bound.bytes).arg(u8::from(follow));
    for (owner, fields) in wanted {
        cmd.arg(key::owner_part(owner));
        match fields {
            Fields::Cells(fields) | Fields::Live(fields) => cmd.arg(mark::fields_text(fields)),
            Fields::All | Fields::Names => cmd.arg(ALL_FIELDS),
        };
    }
    SCRIPTS.collect_linked.write(space.slot(partition), cmd)
}

/// `links.lua`.
pub(crate) fn links(
    space: &Space,
    partition: Partition,
    epoch: Epoch,
    owners: &[Owner],
    most: usize,
) -> Command {
    let keys = keys_of_links(space, partition);
    let mut cmd = SCRIPTS.links.call(&keys);
    cmd.arg(epoch.0).arg(most);
    for owner in owners {
        cmd.arg(key::owner_part(owner));
    }
    SCRIPTS.links.read(space.slot(partition), cmd)
}

/// The keys that `links.lua` and `collect_linked.lua` name first.
fn keys_of_links(space: &Space, partition: Partition) -> Vec<String> {
    let mut keys = space.keys.maps(partition).to_vec();
    keys.push(space.keys.part(partition));
    keys.extend(space.keys.links(partition));
    keys
}

/// A mark as a script gets it.
#[derive(Debug, Clone)]
pub(crate) struct MarkRef<'a> {
    pub(crate) name: &'a [u8],
    /// The owner whose hash may expire once no map names it. `None` for a mark that can't be read,
    /// or was put aside.
    pub(crate) owner: Option<&'a Owner>,
}

/// A committed row as `settle.lua` gets it.
#[derive(Debug, Clone)]
pub(crate) struct RowRef<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) field: String,
    pub(crate) version: Version,
    /// Error marks below it stay.
    pub(crate) from: Version,
}

/// The head of a call about marks: its partition, lock and epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) partition: Partition,
    pub(crate) lock: Option<&'a Lock>,
    pub(crate) epoch: Epoch,
    pub(crate) clean_ttl: Duration,
}

/// `settle.lua`, for some of a call's marks and rows.
pub(crate) fn settle(
    space: &Space,
    head: Head<'_>,
    settle: &Settle,
    marks: &[MarkRef<'_>],
    rows: &[RowRef<'_>],
) -> Command {
    let owners = marks
        .iter()
        .map(|mark| mark.owner)
        .chain(rows.iter().map(|row| Some(row.owner)));
    let keys = keys(space, head.partition, owners);
    // Each name comes with its length and two line ends.
    let bytes =
        256 + marks.iter().map(|mark| mark.name.len() + 16).sum::<usize>() + 128 * rows.len();
    let mut cmd = SCRIPTS
        .settle
        .call_with_room(&keys, 7 + marks.len() + 4 * rows.len(), bytes);
    cmd.arg(head.lock.map(lock_value).unwrap_or_default())
        .arg(head.epoch.0)
        .arg(settle.snapshot.0)
        .arg(settle.landed.get());
    cmd.arg(millis(head.clean_ttl))
        .arg(u8::from(settle.probation))
        .arg(marks.len());
    for mark in marks {
        cmd.arg(mark.name);
    }
    for row in rows {
        cmd.arg(key::owner_part(row.owner))
            .arg(&row.field)
            .arg(row.version.get())
            .arg(row.from.get());
    }
    SCRIPTS.settle.write(space.slot(head.partition), cmd)
}

/// `reject.lua`, for some of a call's entries.
pub(crate) fn reject(
    space: &Space,
    head: Head<'_>,
    reject: &Reject,
    chunk: &[Rejected],
) -> Command {
    // A mark that was put aside names its owner, too, so that the present hash of the owner stays.
    let keys = keys(
        space,
        head.partition,
        chunk.iter().map(|rejected| rejected.owner.as_ref()),
    );
    let mut cmd = SCRIPTS.reject.call(&keys);
    cmd.arg(head.lock.map(lock_value).unwrap_or_default())
        .arg(head.epoch.0)
        .arg(reject.snapshot.0);
    cmd.arg(micros(reject.retry_min))
        .arg(micros(reject.retry_max))
        .arg(millis(head.clean_ttl));
    for rejected in chunk {
        let source = rejected.source.as_ref();
        let raw = source.map_or(&[][..], |entry| &entry.raw);
        cmd.arg(u8::from(source.is_some()) + u8::from(reject.probation && rejected.has_landed()))
            .arg(raw);
        match &rejected.owner {
            Some(owner) => {
                cmd.arg(key::owner_part(owner))
                    .arg(rejected.faults.len())
                    .arg(rejected.leaves.len());
                for fault in &rejected.faults {
                    let field = key::stored(&fault.field);
                    cmd.arg(&*field)
                        .arg(fault.version.get())
                        .arg(fault.code)
                        .arg(one_line(&fault.message));
                }
                for partner in &rejected.leaves {
                    cmd.arg(key::owner_part(partner));
                }
            }
            // An unreadable mark names no field. It keeps its own name, so that it is not lost.
            None => {
                let message = rejected
                    .faults
                    .first()
                    .map_or("unreadable mark", |fault| &fault.message);
                cmd.arg(raw)
                    .arg(1)
                    .arg(0)
                    .arg("")
                    .arg(source.map_or(0, |entry| entry.version.get()))
                    .arg(0)
                    .arg(one_line(message));
            }
        }
    }
    SCRIPTS.reject.write(space.slot(head.partition), cmd)
}

/// An error mark is a line of its owner's entry.
fn one_line(message: &str) -> String {
    message.replace(['\n', '\r'], " ")
}

/// The keys of a call about marks, as `marks.lua` names them. A mark without an owner has the key
/// of the owners to evict in place of a hash.
pub(super) fn keys<'a>(
    space: &Space,
    partition: Partition,
    owners: impl Iterator<Item = Option<&'a Owner>>,
) -> Vec<String> {
    let keys: &Keys = &space.keys;
    let nobody = keys.evict(partition);
    let hash = |owner: Option<&Owner>| {
        owner.map_or_else(|| nobody.clone(), |owner| keys.data(partition, owner))
    };
    let [_, links] = keys.links(partition);
    let fixed = [
        keys.part(partition),
        keys.lock(partition),
        nobody.clone(),
        keys.sessions(partition),
        links,
    ];
    keys.maps(partition)
        .into_iter()
        .chain(fixed)
        .chain(owners.map(hash))
        .collect()
}

/// `tear.lua`.
pub(crate) fn tear(space: &Space, partition: Partition, owner: &Owner) -> Command {
    let mut keys = space.keys.maps(partition).to_vec();
    keys.push(space.keys.part(partition));
    let mut cmd = SCRIPTS.tear.call(&keys);
    cmd.arg(key::owner_part(owner));
    SCRIPTS.tear.write(space.slot(partition), cmd)
}
