//! The cure for sessions that no server knows. A server lists its sessions by the hot tier's
//! record, and ends those that it does not know.
//!
//! The hot tier ends none before the grace of the epoch has ended. Before that, an ended session
//! may be the hot tier's only trace of a steal. Without it, the session that was stolen from would
//! be claimed and go on.
//!
//! The list and the ends are one step here. Each opening draws a new token, so a server will never
//! know a token that it does not know now. An end names its fence.

use storage_dirty::memory::{holder, session};
use storage_dirty::{OpenSession, Opened};
use storage_model::OpId;

use super::world::{At, DEADLINE, Server, World, holder, number_of};
use super::{Sessions, Sweeps, Take, step};
use crate::names::{PARTITION, owner};

/// A server that has just been started, and the token of its session.
const FRESH: OpId = OpId::new([250; 16]);

impl Server {
    /// Whether the server has the session of this token, or is about to open it.
    fn knows(&self, token: OpId, sweeps: Sweeps) -> bool {
        match &self.at {
            At::Open(known) => known.fence.token == token,
            At::Opening { token: sent, .. } => *sent == token && sweeps != Sweeps::Unregistered,
            At::Idle | At::Lost => false,
        }
    }
}

impl Sessions {
    /// Ends the session that the hot tier records for a server, if the server does not know it.
    /// Returns whether there was one.
    fn ends_unknown(&self, world: &mut World, at: usize) -> Result<bool, String> {
        let held = session::session_of(&world.hot.part, &owner());
        let held = held.filter(|held| held.holder == holder(at) && !held.is_lapsed());
        let (Some(held), Some(server)) = (held, world.servers.get(at)) else {
            return Ok(false);
        };
        if self.sweeps == Sweeps::Never || server.knows(held.fence.token, self.sweeps) {
            return Ok(false);
        }
        if server.knows(held.fence.token, Sweeps::Known) {
            return Err(
                "a sweep ends a session that its server has, or is about to have".to_owned(),
            );
        }
        Ok(world.end(held.fence))
    }

    pub(super) fn sweep(&self, world: &World, at: usize, take: Take<'_>) {
        let mut next = world.clone();
        match self.ends_unknown(&mut next, at) {
            Ok(false) => {}
            ended => take(
                step("server", at, "ends a session that it does not know"),
                ended.map(|_| next),
            ),
        }
    }

    /// The reason why the owner can't be opened again without a steal once no late call is left. By
    /// then, each server that is awake has ended its session and swept. Each server that is paused
    /// for ever is called gone, and the grace is over.
    pub(super) fn stuck(&self, world: &World) -> Option<String> {
        session::session_of(&world.hot.part, &owner()).filter(|held| !held.is_lapsed())?;
        let mut next = world.clone();
        if !next.adopted {
            next.adopt();
        }
        let present = next.present();
        let adoption = holder::adoption(next.part(), PARTITION, "end_grace").ok()?;
        holder::end_grace(next.part(), PARTITION, adoption).ok()?;
        for at in 0..next.servers.len() {
            let Some(server) = next.servers.get(at).cloned() else {
                continue;
            };
            if server.paused {
                holder::lapse(next.part(), &present, PARTITION, holder(at), 0).ok()?;
                continue;
            }
            if let At::Open(known) = server.at {
                session::close(next.part(), &present, PARTITION, &owner(), known.fence).ok()?;
            }
            next.set(at, At::Idle);
            if let Err(wrong) = self.ends_unknown(&mut next, at) {
                return Some(wrong);
            }
        }
        let (name, deadline) = (String::new(), DEADLINE);
        let first = OpenSession {
            owner: owner(),
            token: FRESH,
            holder: FRESH,
            name,
            takes: None,
            deadline,
            load: None,
        };
        let mut answer = session::open(next.part(), &present, PARTITION, &first);
        if matches!(answer, Ok(Opened::Load(_))) {
            let load = next.load();
            answer = session::open(
                next.part(),
                &present,
                PARTITION,
                &OpenSession { load, ..first },
            );
        }
        let Ok(Opened::Open { read, .. }) = answer else {
            return Some(format!("the owner can't be opened again: {answer:?}"));
        };
        let value = read
            .cells
            .iter()
            .find_map(|(_, cell)| number_of(cell))
            .unwrap_or_default();
        let truth = next.hot.truth.value;
        (value != truth)
            .then(|| format!("it is had again with {value}, and {truth} was written last"))
    }
}
