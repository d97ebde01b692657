//! The numbered calls of a store, and the calls about them.

use storage_model::Partition;

use super::SCRIPTS;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;

/// The name of a numbered call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallNumber<'a> {
    /// The store that makes the call.
    pub(crate) store: &'a str,
    /// Its place among the calls of the store in the partition.
    pub(crate) number: u64,
}

/// `end_call.lua`.
pub(crate) fn end_call(space: &Space, partition: Partition, call: CallNumber<'_>) -> Command {
    let mut cmd = SCRIPTS.end_call.call(&[space.keys.part(partition)]);
    cmd.arg(call.store).arg(call.number);
    SCRIPTS.end_call.write(space.slot(partition), cmd)
}

/// `forget_calls.lua`, for a page of the record. `gone` are names of stores, and the numbers of their last calls.
pub(crate) fn forget_calls(
    space: &Space,
    partition: Partition,
    cursor: u64,
    gone: &[(String, String)],
) -> Command {
    let mut cmd = SCRIPTS.forget_calls.call(&[space.keys.part(partition)]);
    cmd.arg(cursor);
    for (store, number) in gone {
        cmd.arg(store).arg(number);
    }
    SCRIPTS.forget_calls.write(space.slot(partition), cmd)
}
