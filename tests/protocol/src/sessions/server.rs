//! The steps of a server with its session: it saves, claims and loses it.

use storage_dirty::memory::session;
use storage_dirty::{Claimed, Mutated, Refusal};
use storage_model::sabotage::broken;
use storage_model::{Condition, Epoch, Fence, Mutation, OpId, Version};

use super::network::Call;
use super::world::{At, Known, Truth, World};
use super::{Sessions, Take, step};
use crate::names::PARTITION;

impl Sessions {
    /// A session saves an edit, or ends with one.
    pub(super) fn save(&self, world: &World, at: usize, known: &Known, take: Take<'_>) {
        if known.claims || world.next_value >= self.edits {
            return;
        }
        for (closes, what) in [
            (false, "saves an edit"),
            (true, "saves its last edit and ends"),
        ] {
            let mut next = world.clone();
            next.next_value += 1;
            let value = next.next_value;
            let epoch = world
                .servers
                .get(at)
                .map(|server| server.epoch)
                .unwrap_or_default();
            let mut save = next.mutation(value, epoch).by(known.fence);
            save.closes = closes;
            let Some(answer) = next.mutate(&save) else {
                continue;
            };
            if matches!(answer, Mutated::Applied(_)) && world.stored().0 > known.acked {
                take(
                    step("server", at, what),
                    Err("it goes over a write that its session never saw".to_owned()),
                );
                continue;
            }
            take(
                step("server", at, what),
                next.heard(at, known, value, closes, &answer).map(|()| next),
            );
        }
    }

    /// A session of an epoch that has passed claims its owner again.
    pub(super) fn claim(&self, world: &World, at: usize, known: &Known, take: Take<'_>) {
        if !known.claims {
            return;
        }
        let mut next = world.clone();
        let claim = known.claim(at);
        let Ok(answer) = session::claim(next.part(), PARTITION, &claim) else {
            return;
        };
        let call = || Call::Claim(claim.clone());
        match answer {
            Claimed::No(other) => {
                let lost = next.lose(at, known, other.map(|session| session.fence));
                take(
                    step("server", at, "claims its owner and has lost it"),
                    lost.map(|()| next),
                );
            }
            Claimed::Yes {
                epoch,
                graced: true,
                begun,
            } => self.resume(next, at, known, (epoch, begun), take),
            Claimed::Yes { .. } if next.hot == world.hot => {}
            Claimed::Yes { .. } => {
                if let Some(copied) = next.with_copy(call) {
                    take(
                        step(
                            "server",
                            at,
                            "claims its owner, and the network keeps a copy",
                        ),
                        Ok(copied),
                    );
                }
                take(step("server", at, "claims its owner"), Ok(next));
            }
        }
    }

    /// Ends a session without a save. Its server may also give the end up, and then the call comes
    /// late or never.
    pub(super) fn end(&self, world: &World, at: usize, known: &Known, take: Take<'_>) {
        if self.late == 0 {
            return;
        }
        let mut next = world.clone();
        next.set(at, At::Idle);
        if let Some(copied) = next.with_copy(|| Call::Close { fence: known.fence }) {
            take(
                step("server", at, "gives the end of its session up"),
                Ok(copied),
            );
        }
        next.end(known.fence);
        take(step("server", at, "ends its session"), Ok(next));
    }

    /// The grace has ended. The session goes on if the owner is as the session left it or older,
    /// and not of an epoch that the session has not seen.
    fn resume(
        &self,
        mut next: World,
        at: usize,
        known: &Known,
        (epoch, begun): (Epoch, Version),
        take: Take<'_>,
    ) {
        let (stored, _) = next.stored();
        let is_later = stored > begun && epoch != known.epoch && !broken("S7-later");
        if stored > known.acked || is_later {
            let lost = next.lose(at, known, None);
            return take(
                step("server", at, "finds a newer state than its own"),
                lost.map(|()| next),
            );
        }
        let save = next
            .mutation(known.value, epoch)
            .by(known.fence)
            .when(Condition::Version(stored));
        let save = Mutation {
            id: OpId::new([200 + known.value; 16]),
            ..save
        };
        let is_news = next.hot.truth.is_news_to(known, epoch);
        let Some(answer) = next.mutate(&save) else {
            return;
        };
        if matches!(answer, Mutated::Applied(_)) && is_news {
            return take(
                step("server", at, "goes on"),
                Err("it goes over a write of the same epoch".to_owned()),
            );
        }
        let known = Known {
            claims: false,
            epoch,
            ..known.clone()
        };
        if let Some(server) = next.servers.get_mut(at) {
            server.epoch = epoch;
        }
        let heard = next.heard(at, &known, known.value, false, &answer);
        take(
            step("server", at, "saves its state and goes on"),
            heard.map(|()| next),
        );
    }
}

impl World {
    /// The reaction of a session to the answer to its save.
    fn heard(
        &mut self,
        at: usize,
        known: &Known,
        value: u8,
        closes: bool,
        answer: &Mutated,
    ) -> Result<(), String> {
        match answer {
            Mutated::Applied(applied) => {
                // S1: a former holder's write is not applied. A session that missed a grace may go
                // on if the stored data is not newer than its knowledge. In that case no part knows
                // that there was a successor.
                let is_gone = self
                    .hot
                    .truth
                    .undone
                    .is_some_and(|ended| ended < self.hot_epoch());
                let is_former =
                    self.hot.truth.last.is_some_and(|last| last > known.fence) && !is_gone;
                if is_former && !self.servers.get(at).is_some_and(|server| server.missed) {
                    return Err(format!("a former holder's write of {value} is applied"));
                }
                let wrote = Some((self.hot_epoch(), Some(known.fence.token)));
                self.hot.truth = Truth {
                    last: Some(known.fence),
                    undone: None,
                    value,
                    wrote,
                };
                self.wrote.insert(known.fence.token);
                let known = Known {
                    acked: applied.version,
                    value,
                    ..known.clone()
                };
                self.set(at, if closes { At::Idle } else { At::Open(known) });
            }
            Mutated::Refused(Refusal::Fenced(other)) => {
                // The hot tier may have forgotten the session.
                if self.hot_epoch() == known.epoch {
                    return self.lose(at, known, other.as_ref().map(|session| session.fence));
                }
                self.set(
                    at,
                    At::Open(Known {
                        claims: true,
                        ..known.clone()
                    }),
                );
            }
            Mutated::Refused(
                Refusal::Moved { .. } | Refusal::Grace(_) | Refusal::Unconfirmed(_),
            ) => {
                self.set(
                    at,
                    At::Open(Known {
                        claims: true,
                        ..known.clone()
                    }),
                );
            }
            // Another writer changed the owner between the session's look and its save.
            Mutated::Refused(Refusal::Version(_)) => return self.lose(at, known, None),
            other => return Err(format!("a save is answered {other:?}")),
        }
        Ok(())
    }

    /// A session is lost. A later session must have taken its owner, or another writer must have
    /// changed the owner.
    fn lose(&mut self, at: usize, known: &Known, to: Option<Fence>) -> Result<(), String> {
        let newer =
            self.stored().0 > known.acked || self.hot.truth.is_news_to(known, self.hot_epoch());
        let missed = self.servers.get(at).is_some_and(|server| server.missed);
        if to.is_some_and(|to| to < known.fence) && !missed {
            return Err("a live session is lost to an earlier one".to_owned());
        }
        // A session that missed a grace may lose to any session since, whatever the fences are,
        // because the clock may have been set back.
        if missed {
            self.set(at, At::Lost);
            return Ok(());
        }
        if to.is_none_or(|to| to < known.fence)
            && !newer
            && self.hot.truth.last.is_none_or(|last| last <= known.fence)
        {
            return Err(format!(
                "a session is lost to {to:?}, which is no later one"
            ));
        }
        self.set(at, At::Lost);
        Ok(())
    }
}
