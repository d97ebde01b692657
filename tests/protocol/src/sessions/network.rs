//! Openings, and calls that the network carries out late or once more.

use storage_dirty::memory::session;
use storage_dirty::{ClaimSession, Load, OpenSession, Opened};
use storage_model::{Fence, OpId};

use super::world::{At, DEADLINE, Known, World, holder, number_of};
use super::{Sessions, Take, step};
use crate::names::{PARTITION, owner};

/// A call that the network has a copy of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Open {
        server: usize,
        token: OpId,
        takes: Option<Fence>,
        /// The load at the time of sending.
        load: Option<Load>,
    },
    Claim(ClaimSession),
    Close {
        fence: Fence,
    },
}

impl World {
    /// The same world, with a copy of a call that was just sent. None if the network keeps no more
    /// copies.
    pub(super) fn with_copy(&self, call: impl FnOnce() -> Call) -> Option<Self> {
        let late = self.left.late.checked_sub(1)?;
        let mut next = self.clone();
        next.left.late = late;
        next.calls.push(call());
        Some(next)
    }

    /// Carries out an opening, with this load if one is asked for. Returns the session that it
    /// opened.
    fn open(
        &mut self,
        at: usize,
        token: OpId,
        takes: Option<Fence>,
        load: Option<Load>,
    ) -> Result<Option<Known>, String> {
        let held = session::session_of(&self.hot.part, &owner());
        let (name, deadline, present) = (String::new(), DEADLINE, self.present());
        let first = OpenSession {
            owner: owner(),
            token,
            holder: holder(at),
            name,
            takes,
            deadline,
            load: None,
        };
        let mut answer = session::open(self.part(), &present, PARTITION, &first);
        if matches!(answer, Ok(Opened::Load(_))) {
            answer = session::open(
                self.part(),
                &present,
                PARTITION,
                &OpenSession { load, ..first },
            );
        }
        let Ok(Opened::Open { fence, epoch, read }) = answer else {
            return Ok(None);
        };
        let others = held.filter(|held| !held.is_lapsed() && held.fence.token != token);
        if others.is_some_and(|others| Some(others.fence) != takes) {
            return Err("it takes the place of a session that it never saw".to_owned());
        }
        let value = read
            .cells
            .iter()
            .find_map(|(_, cell)| number_of(cell))
            .unwrap_or_default();
        let truth = self.hot.truth.value;
        if value != truth {
            return Err(format!(
                "it opens with {value}, and {truth} was written last"
            ));
        }
        if self.hot.truth.last < Some(fence) {
            (self.hot.truth.last, self.hot.truth.undone) = (Some(fence), None);
        }
        let acked = read.header.map(|header| header.version).unwrap_or_default();
        Ok(Some(Known {
            fence,
            epoch,
            acked,
            value,
            claims: false,
        }))
    }

    /// A server learns the result of its opening.
    fn hears(&mut self, at: usize, answer: Option<Known>) {
        let Some(server) = self.servers.get_mut(at) else {
            return;
        };
        server.epoch = answer.as_ref().map_or(server.epoch, |known| known.epoch);
        server.seen = None;
        server.at = answer.map_or(At::Idle, At::Open);
    }

    /// Ends a session without a save, if it is the owner's session. Returns whether it was.
    pub(super) fn end(&mut self, fence: Fence) -> bool {
        let present = self.present();
        let ended = session::close(self.part(), &present, PARTITION, &owner(), fence) == Ok(true);
        let is_last = self.hot.truth.last == Some(fence);
        if ended && is_last && !self.wrote.contains(&fence.token) {
            self.hot.truth.undone = Some(self.hot_epoch());
        }
        ended
    }

    /// Carries out a copy. No server gets the answer.
    fn carry_out(&mut self, call: Call) -> Result<(), String> {
        match call {
            Call::Open {
                server,
                token,
                takes,
                load,
            } => {
                self.open(server, token, takes, load)?;
            }
            Call::Claim(claim) => {
                // An incarnation without an adoption rejects it. Then it has no effect.
                let _ = session::claim(self.part(), PARTITION, &claim);
            }
            Call::Close { fence } => {
                self.end(fence);
            }
        }
        Ok(())
    }
}

impl Sessions {
    /// A server wants the owner. It opens a session, or takes the place of another one.
    pub(super) fn wants(&self, world: &World, at: usize, take: Take<'_>) {
        let seen = world.servers.get(at).and_then(|server| server.seen);
        let held = session::session_of(&world.hot.part, &owner());
        if let Some(held) = held
            .as_ref()
            .filter(|held| world.left.opens > 0 && Some(held.fence) != seen)
        {
            let mut next = world.clone();
            if let Some(server) = next.servers.get_mut(at) {
                server.seen = Some(held.fence);
            }
            take(step("server", at, "sees the holder of the owner"), Ok(next));
        }
        let steal = seen.map(|seen| (Some(seen), "steals the owner"));
        for (takes, what) in [(None, "opens a session")].into_iter().chain(steal) {
            let Some(opens) = world.left.opens.checked_sub(1) else {
                continue;
            };
            let mut next = world.clone();
            next.left.opens = opens;
            next.next_token += 1;
            let token = OpId::new([100 + next.next_token; 16]);
            if self.late == 0 {
                let load = next.load();
                match next.open(at, token, takes, load) {
                    Ok(None) => {}
                    Ok(answer) => {
                        next.hears(at, answer);
                        take(step("server", at, what), Ok(next));
                    }
                    Err(wrong) => take(step("server", at, what), Err(wrong)),
                }
                continue;
            }
            next.set(
                at,
                At::Opening {
                    token,
                    takes,
                    answer: None,
                },
            );
            let [sent, copied] = match takes {
                None => [
                    "sends an opening",
                    "sends an opening, of which the network keeps a copy",
                ],
                Some(_) => [
                    "sends a steal",
                    "sends a steal, of which the network keeps a copy",
                ],
            };
            let load = next.load();
            let copy = next.with_copy(|| Call::Open {
                server: at,
                token,
                takes,
                load,
            });
            take(step("server", at, sent), Ok(next));
            if let Some(next) = copy {
                take(step("server", at, copied), Ok(next));
            }
        }
    }

    /// The fates of an opening that was sent: it is carried out, its answer comes, or its server
    /// gives it up.
    pub(super) fn opening(&self, world: &World, at: usize, take: Take<'_>) {
        let Some(At::Opening {
            token,
            takes,
            answer,
        }) = world.servers.get(at).map(|server| server.at.clone())
        else {
            return;
        };
        let mut given_up = world.clone();
        given_up.hears(at, None);
        take(step("server", at, "gives its opening up"), Ok(given_up));
        let mut next = world.clone();
        if answer.is_some() {
            next.hears(at, answer);
            take(
                step("server", at, "hears that its session is open"),
                Ok(next),
            );
        } else if world.is_ready() {
            let load = next.load();
            match next.open(at, token, takes, load) {
                Ok(None) => next.hears(at, None),
                Ok(answer) => next.set(
                    at,
                    At::Opening {
                        token,
                        takes,
                        answer,
                    },
                ),
                Err(wrong) => return take(step("server", at, "opens its session"), Err(wrong)),
            }
            take(step("hot tier", at, "carries an opening out"), Ok(next));
        }
    }

    /// Copies come at any time.
    pub(super) fn copies(&self, world: &World, take: Take<'_>) {
        if !world.is_ready() {
            return;
        }
        for number in 0..world.calls.len() {
            let mut next = world.clone();
            let call = next.calls.remove(number);
            let carried = next.carry_out(call);
            take(
                step("network", number, "brings a copy of a call"),
                carried.map(|()| next),
            );
        }
    }
}
