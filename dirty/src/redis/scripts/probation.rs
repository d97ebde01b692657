//! Calls about landed marks on probation.

use storage_model::Partition;

use super::arguments::millis;
use super::lock::lock_value;
use super::marks::keys;
use super::{Head, MarkRef, SCRIPTS};
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Lock, Window};

/// `probation.lua`.
pub(crate) fn probation(space: &Space, partition: Partition, lock: &Lock) -> Command {
    let all = &space.keys;
    let named = [
        all.landed(partition),
        all.expiring(partition),
        all.part(partition),
        all.lock(partition),
    ];
    let mut cmd = SCRIPTS.probation.call(&named);
    cmd.arg(lock_value(lock));
    SCRIPTS.probation.write(space.slot(partition), cmd)
}

/// `expire.lua`.
pub(crate) fn expire(
    space: &Space,
    head: Head<'_>,
    window: Window,
    marks: &[MarkRef<'_>],
) -> Command {
    let mut cmd = SCRIPTS.expire.call(&keys(
        space,
        head.partition,
        marks.iter().map(|mark| mark.owner),
    ));
    cmd.arg(head.lock.map(lock_value).unwrap_or_default())
        .arg(window.epoch.0)
        .arg(window.number)
        .arg(millis(head.clean_ttl));
    for mark in marks {
        cmd.arg(mark.name);
    }
    SCRIPTS.expire.write(space.slot(head.partition), cmd)
}

/// `requeue.lua`. The epoch of the head is ignored.
pub(crate) fn requeue(space: &Space, head: Head<'_>, marks: &[MarkRef<'_>]) -> Command {
    let all = &space.keys;
    let record = [all.part(head.partition), all.lock(head.partition)];
    let mut cmd = SCRIPTS
        .requeue
        .call(&[&all.maps(head.partition)[..], &record].concat());
    cmd.arg(head.lock.map(lock_value).unwrap_or_default());
    for mark in marks {
        cmd.arg(mark.name);
    }
    SCRIPTS.requeue.write(space.slot(head.partition), cmd)
}
