//! Calls about sessions.

use std::time::Duration;

use redis::Cmd;
use storage_model::{Fence, OpId, Owner, Partition};

use super::SCRIPTS;
use super::arguments::{deadline_of, life, millis};
use super::load::load_args;
use crate::key;
use crate::redis::connections::space::Space;
use crate::redis::connections::transport::Command;
use crate::session::one_word;
use crate::{Adoption, ClaimSession, OpenSession};

/// `open_session.lua`.
pub(crate) fn open_session(
    space: &Space,
    open: &OpenSession,
    absent_ttl: Duration,
    marker_ttl: Option<Duration>,
) -> Command {
    let partition = space.partition(&open.owner);
    let all = &space.keys;
    let own = [
        all.data(partition, &open.owner),
        all.exist(partition, &open.owner),
        all.part(partition),
    ];
    let sessions = [
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.beats(partition),
    ];
    let mut cmd = SCRIPTS
        .open_session
        .call(&[&own[..], &all.maps(partition), &sessions].concat());
    cmd.arg(key::owner_part(&open.owner))
        .arg(open.token.to_string())
        .arg(open.holder.to_string())
        .arg(one_word(&open.name));
    cmd.arg(
        open.takes
            .map(|fence| fence.to_string())
            .unwrap_or_default(),
    )
    .arg(deadline_of(open.deadline));
    cmd.arg(millis(absent_ttl)).arg(life(marker_ttl));
    if let Some(load) = &open.load {
        load_args(&mut cmd, load);
    }
    Command {
        needs_policy: true,
        ..SCRIPTS.open_session.write(space.slot(partition), cmd)
    }
}

/// `claim_session.lua`.
pub(crate) fn claim_session(space: &Space, claim: &ClaimSession) -> Command {
    let partition = space.partition(&claim.owner);
    let all = &space.keys;
    let own = [all.data(partition, &claim.owner), all.part(partition)];
    let sessions = [
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.beats(partition),
    ];
    let mut cmd = SCRIPTS.claim_session.call(&[&own[..], &sessions].concat());
    fence(cmd.arg(key::owner_part(&claim.owner)), claim.fence);
    cmd.arg(claim.epoch.0)
        .arg(claim.holder.to_string())
        .arg(one_word(&claim.name))
        .arg(claim.acked.get());
    SCRIPTS.claim_session.write(space.slot(partition), cmd)
}

/// `close_session.lua`.
pub(crate) fn close_session(
    space: &Space,
    owner: &Owner,
    of: Fence,
    clean_ttl: Duration,
) -> Command {
    let partition = space.partition(owner);
    let all = &space.keys;
    let own = [all.data(partition, owner), all.evict(partition)];
    let sessions = [
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.part(partition),
    ];
    let mut cmd = SCRIPTS
        .close_session
        .call(&[&own[..], &all.maps(partition), &sessions].concat());
    fence(cmd.arg(key::owner_part(owner)), of).arg(millis(clean_ttl));
    SCRIPTS.close_session.write(space.slot(partition), cmd)
}

/// `ask_session.lua`.
pub(crate) fn ask_session(space: &Space, owner: &Owner, of: Fence, ask: OpId, by: &str) -> Command {
    let partition = space.partition(owner);
    let all = &space.keys;
    let mut cmd = SCRIPTS.ask_session.call(&[
        all.sessions(partition),
        all.asked(partition),
        all.part(partition),
    ]);
    fence(cmd.arg(key::owner_part(owner)), of)
        .arg(ask.to_string())
        .arg(one_word(by));
    SCRIPTS.ask_session.write(space.slot(partition), cmd)
}

/// The beats of all holders, and then `beat.lua`, which raises the beat of a holder if one is given.
pub(crate) fn beat(
    space: &Space,
    partition: Partition,
    raise: Option<(OpId, u64)>,
) -> [Command; 2] {
    let mut beats = Cmd::new();
    beats.arg("HGETALL").arg(space.keys.beats(partition));
    let mut cmd = SCRIPTS
        .beat
        .call(&[space.keys.part(partition), space.keys.beats(partition)]);
    let (holder, number) = raise
        .map(|(holder, number)| (holder.to_string(), number))
        .unwrap_or_default();
    cmd.arg(holder).arg(number);
    let slot = space.slot(partition);
    [
        Command::read("beats", slot, beats),
        SCRIPTS.beat.write(slot, cmd),
    ]
}

/// A step of `lapse.lua`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LapseStep<'a> {
    /// The holder's beat is marked.
    Mark,
    /// The sessions of some of its owners lapse.
    Lapse(&'a [Owner]),
    /// Its beat goes.
    End,
}

/// `lapse.lua`. All steps of one caller have the same mark.
pub(crate) fn lapse(
    space: &Space,
    partition: Partition,
    (holder, beat): (OpId, u64),
    (mark, step): (OpId, LapseStep<'_>),
    clean_ttl: Duration,
) -> Command {
    let (name, owners) = match step {
        LapseStep::Mark => ("mark", &[][..]),
        LapseStep::Lapse(owners) => ("lapse", owners),
        LapseStep::End => ("end", &[][..]),
    };
    let all = &space.keys;
    let mut keys = vec![all.beats(partition), all.evict(partition)];
    keys.extend(all.maps(partition));
    keys.extend([
        all.sessions(partition),
        all.lapsed(partition),
        all.asked(partition),
        all.part(partition),
    ]);
    keys.extend(owners.iter().map(|owner| all.data(partition, owner)));
    let mut cmd = SCRIPTS.lapse.call(&keys);
    cmd.arg(holder.to_string())
        .arg(beat)
        .arg(millis(clean_ttl))
        .arg(mark.to_string())
        .arg(name);
    for owner in owners {
        cmd.arg(key::owner_part(owner));
    }
    SCRIPTS.lapse.write(space.slot(partition), cmd)
}

/// `end_grace.lua`.
pub(crate) fn end_grace(space: &Space, partition: Partition, adoption: Adoption) -> Command {
    let mut cmd = SCRIPTS.end_grace.call(&[space.keys.part(partition)]);
    cmd.arg(adoption.epoch.0).arg(adoption.at.0);
    SCRIPTS.end_grace.write(space.slot(partition), cmd)
}

/// The session of an owner, and its lapsed session.
pub(crate) fn sessions_of(space: &Space, owner: &Owner) -> [Command; 2] {
    let partition = space.partition(owner);
    [space.keys.sessions(partition), space.keys.lapsed(partition)].map(|key| {
        let mut cmd = Cmd::new();
        cmd.arg("HGET").arg(key).arg(key::owner_part(owner));
        Command::read("sessions_of", space.slot(partition), cmd)
    })
}

/// The requests for held owners of a partition.
pub(crate) fn asked(space: &Space, partition: Partition) -> Command {
    let mut cmd = Cmd::new();
    cmd.arg("HGETALL").arg(space.keys.asked(partition));
    Command::read("asked", space.slot(partition), cmd)
}

/// `forget_lapsed.lua`.
pub(crate) fn forget_lapsed(
    space: &Space,
    partition: Partition,
    sessions: &[(Owner, Fence)],
) -> Command {
    let mut cmd = SCRIPTS
        .forget_lapsed
        .call(&[space.keys.part(partition), space.keys.lapsed(partition)]);
    for (owner, of) in sessions {
        fence(cmd.arg(key::owner_part(owner)), *of);
    }
    SCRIPTS.forget_lapsed.write(space.slot(partition), cmd)
}

/// A page of the sessions of a partition, or of its lapsed sessions.
pub(crate) fn scan_sessions(
    space: &Space,
    partition: Partition,
    lapsed: bool,
    cursor: u64,
) -> Command {
    let key = if lapsed {
        space.keys.lapsed(partition)
    } else {
        space.keys.sessions(partition)
    };
    let mut cmd = Cmd::new();
    cmd.arg("HSCAN").arg(key).arg(cursor).arg("COUNT").arg(200);
    Command::read("scan_sessions", space.slot(partition), cmd)
}

fn fence(cmd: &mut Cmd, fence: Fence) -> &mut Cmd {
    cmd.arg(fence.version.get()).arg(fence.token.to_string())
}
