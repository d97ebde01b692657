//! Calls about one owner.

use storage_model::{Epoch, Owner};

use super::SCRIPTS;
use crate::key;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;

/// `read_names.lua`.
pub(crate) fn read_names(space: &Space, owner: &Owner) -> Command {
    let partition = space.partition(owner);
    SCRIPTS.read_names.read(
        space.slot(partition),
        SCRIPTS
            .read_names
            .call(&[space.keys.data(partition, owner)]),
    )
}

/// `evict.lua`.
pub(crate) fn evict(space: &Space, owner: &Owner) -> Command {
    let partition = space.partition(owner);
    let own = [
        space.keys.data(partition, owner),
        space.keys.evict(partition),
    ];
    let keys = [
        &own[..],
        &space.keys.maps(partition),
        &[space.keys.sessions(partition)],
    ]
    .concat();
    let mut cmd = SCRIPTS.evict.call(&keys);
    cmd.arg(key::owner_part(owner));
    SCRIPTS.evict.write(space.slot(partition), cmd)
}

/// `marked.lua`.
pub(crate) fn marked(space: &Space, owner: &Owner, epoch: Option<Epoch>) -> Command {
    let partition = space.partition(owner);
    let keys = [
        &space.keys.maps(partition)[..],
        &[space.keys.part(partition)],
    ]
    .concat();
    let mut cmd = SCRIPTS.marked.call(&keys);
    cmd.arg(key::owner_part(owner))
        .arg(epoch.map(|epoch| epoch.to_string()).unwrap_or_default());
    SCRIPTS.marked.read(space.slot(partition), cmd)
}
