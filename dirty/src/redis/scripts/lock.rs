//! Calls about locks and the workers that share the partitions.

use std::time::Duration;

use storage_model::Partition;

use super::SCRIPTS;
use super::arguments::millis;
use super::script::Script;
use crate::Lock;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;

/// `announce.lua`.
pub(crate) fn announce(space: &Space, worker: &str, ttl: Duration) -> Command {
    let key = space.keys.workers();
    let slot = crate::redis::connections::slot::slot_of(key.as_bytes());
    let mut cmd = SCRIPTS.announce.call(&[key]);
    cmd.arg(worker).arg(millis(ttl));
    SCRIPTS.announce.write(slot, cmd)
}

/// `lock.lua`.
pub(crate) fn lock(space: &Space, partition: Partition, lock: &Lock, ttl: Duration) -> Command {
    timed_lock(&SCRIPTS.lock, space, partition, lock, ttl)
}

/// `renew.lua`.
pub(crate) fn renew(space: &Space, partition: Partition, lock: &Lock, ttl: Duration) -> Command {
    timed_lock(&SCRIPTS.renew, space, partition, lock, ttl)
}

fn timed_lock(
    script: &Script,
    space: &Space,
    partition: Partition,
    lock: &Lock,
    ttl: Duration,
) -> Command {
    let mut cmd = script.call(&[space.keys.lock(partition)]);
    cmd.arg(lock_value(lock)).arg(millis(ttl));
    script.write(space.slot(partition), cmd)
}

/// `unlock.lua`.
pub(crate) fn unlock(space: &Space, partition: Partition, lock: &Lock) -> Command {
    let mut cmd = SCRIPTS.unlock.call(&[space.keys.lock(partition)]);
    cmd.arg(lock_value(lock));
    SCRIPTS.unlock.write(space.slot(partition), cmd)
}

/// The stored value of a lock: the token, then the name of the holder.
pub(super) fn lock_value(lock: &Lock) -> String {
    format!("{}\n{}", lock.token, lock.holder)
}

/// The holder's name in a value that [`lock`] stored.
pub(crate) fn holder_of(value: &str) -> &str {
    value.split_once('\n').map_or(value, |(_, holder)| holder)
}
