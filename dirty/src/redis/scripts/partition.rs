//! Calls about a partition's record, and about a server.

use storage_model::{Epoch, Partition, Version};

use super::SCRIPTS;
use crate::Adopt;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;

/// `rights.lua`, on any node. It needs no slot, since it reads no data.
pub(crate) fn rights(some_key: &str) -> Command {
    let mut cmd = SCRIPTS.rights.call(&[]);
    cmd.arg(some_key);
    SCRIPTS.rights.read(0, cmd)
}

/// `part_state.lua`.
pub(crate) fn part_state(space: &Space, partition: Partition) -> Command {
    SCRIPTS.part_state.read(
        space.slot(partition),
        SCRIPTS.part_state.call(&[space.keys.part(partition)]),
    )
}

/// `adopt.lua`.
pub(crate) fn adopt(space: &Space, adopt: &Adopt) -> Command {
    let (keys, partition) = (&space.keys, adopt.partition);
    let mut all = vec![keys.part(partition)];
    all.extend(keys.maps(partition));
    let mut cmd = SCRIPTS.adopt.call(&all);
    let recorded = adopt
        .seen
        .record
        .as_ref()
        .map_or("", |record| &record.incarnation);
    cmd.arg(recorded)
        .arg(&adopt.seen.incarnation)
        .arg(adopt.epoch.0)
        .arg(adopt.last_version.get());
    cmd.arg(
        adopt
            .database
            .map(|database| database.to_string())
            .unwrap_or_default(),
    )
    .arg(u8::from(adopt.landed_here));
    cmd.arg(u8::from(adopt.compare_all));
    cmd.arg(Version::rewind_leap(adopt.epoch))
        .arg(adopt.feed.to_string())
        .arg(adopt.stamp.0)
        .arg(adopt.until.0.min(Version::MAX.get()));
    SCRIPTS.adopt.write(space.slot(adopt.partition), cmd)
}

/// `raise_landed.lua`.
pub(crate) fn raise_landed(
    space: &Space,
    partition: Partition,
    epoch: Epoch,
    landed: Version,
) -> Command {
    let mut cmd = SCRIPTS.raise_landed.call(&[space.keys.part(partition)]);
    cmd.arg(epoch.0).arg(landed.get());
    SCRIPTS.raise_landed.write(space.slot(partition), cmd)
}

/// `peek.lua`.
pub(crate) fn peek(space: &Space, partition: Partition) -> Command {
    let keys = &space.keys;
    let keys = [
        keys.maps(partition).as_slice(),
        &[
            keys.part(partition),
            keys.lock(partition),
            keys.notes(partition),
        ],
    ]
    .concat();
    SCRIPTS
        .peek
        .read(space.slot(partition), SCRIPTS.peek.call(&keys))
}

/// `write_for_wait.lua`.
pub(crate) fn write_for_wait(space: &Space, partition: Partition) -> Command {
    SCRIPTS.write_for_wait.write(
        space.slot(partition),
        SCRIPTS.write_for_wait.call(&[space.keys.sync(partition)]),
    )
}
