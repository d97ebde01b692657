//! Calls about landed marks on probation.

use storage_model::Partition;

use super::landing::Owners;
use super::lock::lock_value;
use super::{Head, MarkRef, SCRIPTS, Space, millis};
use crate::redis::transport::Command;
use crate::{Lock, Window};

/// `probation.lua`.
pub(crate) fn probation(space: &Space, partition: Partition, lock: &Lock) -> Command {
    let keys = &space.keys;
    let named = [keys.landed(partition), keys.leaving(partition), keys.part(partition), keys.lock(partition)];
    let mut cmd = SCRIPTS.probation.call(&named);
    cmd.arg(lock_value(lock));
    SCRIPTS.probation.write(space.slot(partition), cmd)
}

/// `acquit.lua`.
pub(crate) fn acquit(space: &Space, head: Head<'_>, window: Window, marks: &[MarkRef<'_>]) -> Command {
    let (keys, partition) = (&space.keys, head.partition);
    let mut owners = Owners::default();
    let numbered: Vec<_> = marks.iter().map(|mark| (mark, owners.number(mark.owner))).collect();
    let fixed = [keys.leaving(partition), keys.part(partition), keys.lock(partition)];
    let mut cmd = SCRIPTS.acquit.call(&owners.keys(space, partition, fixed));
    cmd.arg(head.lock.map(lock_value).unwrap_or_default()).arg(window.epoch.0).arg(window.number).arg(millis(head.clean_ttl));
    for (mark, owner) in numbered {
        cmd.arg(&*mark.name).arg(mark.version.get()).arg(owner);
    }
    SCRIPTS.acquit.write(space.slot(partition), cmd)
}

/// `relive.lua`. The epoch of the head is not looked at.
pub(crate) fn relive(space: &Space, head: Head<'_>, marks: &[MarkRef<'_>]) -> Command {
    let (keys, partition) = (&space.keys, head.partition);
    let mut owners = Owners::default();
    let numbered: Vec<_> = marks.iter().map(|mark| (mark, owners.number(mark.owner))).collect();
    let fixed =
        [keys.landed(partition), keys.leaving(partition), keys.dirty(partition), keys.part(partition), keys.lock(partition)];
    let mut cmd = SCRIPTS.relive.call(&owners.keys(space, partition, fixed));
    cmd.arg(head.lock.map(lock_value).unwrap_or_default()).arg(millis(head.clean_ttl));
    for (mark, owner) in numbered {
        cmd.arg(&*mark.name).arg(mark.version.get()).arg(owner);
    }
    SCRIPTS.relive.write(space.slot(partition), cmd)
}
