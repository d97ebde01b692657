//! Calls that load owners, and the arguments of a load.

use std::time::Duration;

use redis::Cmd;
use storage_model::{Cell, Owner};

use super::SCRIPTS;
use super::arguments::{life, millis};
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::{Load, Marker, key};

fn fill_keys(space: &Space, owner: &Owner) -> (u16, [String; 3]) {
    let partition = space.partition(owner);
    let keys = [
        space.keys.data(partition, owner),
        space.keys.exist(partition, owner),
        space.keys.part(partition),
    ];
    (space.slot(partition), keys)
}

/// `observe.lua`.
pub(crate) fn observe(space: &Space, owner: &Owner) -> Command {
    let (slot, keys) = fill_keys(space, owner);
    SCRIPTS.observe.write(slot, SCRIPTS.observe.call(&keys))
}

/// `fill.lua`.
pub(crate) fn fill(
    space: &Space,
    load: &Load,
    clean_ttl: Duration,
    absent_ttl: Duration,
    marker_ttl: Option<Duration>,
) -> Command {
    let (slot, keys) = fill_keys(space, &load.owner);
    let maps = space.keys.maps(space.partition(&load.owner));
    let sessions = [space.keys.sessions(space.partition(&load.owner))];
    let mut cmd = SCRIPTS.fill.call(&[&keys[..], &maps, &sessions].concat());
    cmd.arg(millis(clean_ttl))
        .arg(millis(absent_ttl))
        .arg(life(marker_ttl))
        .arg(key::owner_part(&load.owner));
    load_args(&mut cmd, load);
    SCRIPTS.fill.write(slot, cmd)
}

/// `fill_part.lua`.
pub(crate) fn fill_part(
    space: &Space,
    part: &Load,
    clean_ttl: Duration,
    marker_ttl: Option<Duration>,
) -> Command {
    let (slot, keys) = fill_keys(space, &part.owner);
    let maps = space.keys.maps(space.partition(&part.owner));
    let sessions = [space.keys.sessions(space.partition(&part.owner))];
    let mut cmd = SCRIPTS
        .fill_part
        .call(&[&keys[..], &maps, &sessions].concat());
    cmd.arg(millis(clean_ttl))
        .arg(life(marker_ttl))
        .arg(key::owner_part(&part.owner));
    load_args(&mut cmd, part);
    SCRIPTS.fill_part.write(slot, cmd)
}

/// `check_fill.lua`.
pub(crate) fn check_fill(space: &Space, load: &Load) -> Command {
    let (slot, keys) = fill_keys(space, &load.owner);
    let maps = space.keys.maps(space.partition(&load.owner));
    let mut cmd = SCRIPTS.check_fill.call(&[&keys[..], &maps].concat());
    cmd.arg(key::owner_part(&load.owner));
    load_args(&mut cmd, load);
    SCRIPTS.check_fill.read(slot, cmd)
}

pub(super) fn load_args(cmd: &mut Cmd, load: &Load) {
    cmd.arg(marker_name(load.observed.marker));
    cmd.arg(u8::from(load.observed.present))
        .arg(load.observed.epoch.0)
        .arg(u8::from(load.complete))
        .arg(load.rows.len());
    for (field, cell, version) in &load.rows {
        cmd.arg(&*key::stored(field));
        match cell {
            Cell::Live(value) => cmd.arg(&*key::stored(field)).arg(&**value),
            Cell::Removed(value) => cmd
                .arg(key::tombstone(field))
                .arg([b"r", &**value].concat()),
            Cell::Purged => cmd.arg(key::tombstone(field)).arg("p"),
        };
        cmd.arg(version.get());
    }
}

/// A marker with its kind, as the scripts name it.
fn marker_name(marker: Marker) -> String {
    match marker {
        Marker::Unknown(number) => format!("?{number}"),
        Marker::Absent(number) => format!("-{number}"),
        Marker::At(number) => number.to_string(),
        Marker::Missing(number) => format!("={number}"),
    }
}
