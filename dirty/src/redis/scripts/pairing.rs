//! Calls about the pairing of the tiers.

use super::SCRIPTS;
use crate::redis::connections::slot::slot_of;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{HotPaired, HotPairing};

/// `pairing.lua`.
pub(crate) fn pairing(space: &Space) -> Command {
    let key = space.keys.meta();
    SCRIPTS
        .pairing
        .read(slot_of(key.as_bytes()), SCRIPTS.pairing.call(&[key]))
}

/// `pair.lua`.
pub(crate) fn pair(space: &Space, seen: &HotPairing, paired: &HotPaired) -> Command {
    let key = space.keys.meta();
    let slot = slot_of(key.as_bytes());
    let mut cmd = SCRIPTS.pair.call(&[key]);
    cmd.arg(&seen.incarnation).arg(
        seen.paired
            .map(|paired| paired.token.to_string())
            .unwrap_or_default(),
    );
    cmd.arg(paired.token.to_string())
        .arg(paired.database.to_string());
    cmd.arg(paired.partitions)
        .arg(paired.layout)
        .arg(paired.since.0);
    SCRIPTS.pair.write(slot, cmd)
}
