//! Calls about notes.

use storage_model::{Epoch, Lead, Partition, Position};

use super::SCRIPTS;
use super::lock::lock_value;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Bound, Lock, key};

/// `read_notes.lua`.
pub(crate) fn read_notes(
    space: &Space,
    partition: Partition,
    after: Position,
    bound: Bound,
) -> Command {
    let keys = [space.keys.part(partition), space.keys.notes(partition)];
    let mut cmd = SCRIPTS.read_notes.call(&keys);
    cmd.arg(after.to_string()).arg(bound.rows).arg(bound.bytes);
    SCRIPTS.read_notes.read(space.slot(partition), cmd)
}

/// `resync.lua`. `last` if no more leads follow.
pub(crate) fn resync(
    space: &Space,
    partition: Partition,
    lock: &Lock,
    epoch: Epoch,
    leads: &[Lead],
    last: bool,
) -> Command {
    let mut cmd = SCRIPTS.resync.call(&keys(space, partition));
    cmd.arg(lock_value(lock)).arg(epoch.0).arg(u8::from(last));
    for lead in leads {
        cmd.arg(lead.position.to_string())
            .arg(key::owner_part(&lead.owner));
    }
    SCRIPTS.resync.write(space.slot(partition), cmd)
}

/// `trim_notes.lua`.
pub(crate) fn trim_notes(
    space: &Space,
    partition: Partition,
    lock: &Lock,
    epoch: Epoch,
    upto: Position,
    drop: bool,
) -> Command {
    let mut cmd = SCRIPTS.trim_notes.call(&keys(space, partition));
    cmd.arg(lock_value(lock))
        .arg(epoch.0)
        .arg(upto.to_string())
        .arg(u8::from(drop));
    SCRIPTS.trim_notes.write(space.slot(partition), cmd)
}

fn keys(space: &Space, partition: Partition) -> [String; 3] {
    [
        space.keys.part(partition),
        space.keys.notes(partition),
        space.keys.lock(partition),
    ]
}
