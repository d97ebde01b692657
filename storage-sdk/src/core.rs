//! What every handle of a storage shares: the tiers, the limits, and the one way to write.

mod flights;
mod time;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::join_all;
use storage_config::Settings;
use storage_dirty::{HotError, HotKind, Load, Mutated, Refusal};
use storage_landing::{TierError, Tiers};
use storage_model::sabotage::broken;
use storage_model::{Applied, Epoch, Field, Ids, Known, Limits, Mutation, Outcome, Partition};
use tokio::time::{Instant, sleep_until};

use self::flights::{Flight, Flights};
use self::time::HotTime;
use crate::brake::Brake;
use crate::durability::{Defaults, at_once, check};
use crate::touch::Touches;
use crate::{Ack, Error, Kind, Result};

/// The wait before a call is repeated whose answer was lost; it doubles up to [`REPEAT_MAX`].
pub(crate) const REPEAT_MIN: Duration = Duration::from_millis(5);
pub(crate) const REPEAT_MAX: Duration = Duration::from_millis(200);
/// Adoptions that one mutation meets, of which there is one at a time.
const MOVES_MAX: u32 = 16;
/// Loads for one mutation; each but the first is needed only if the owner changed during the one before.
const LOADS_MAX: u32 = 64;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) tiers: Tiers,
    pub(crate) limits: Limits,
    pub(crate) ids: Arc<dyn Ids>,
    /// Until when a write is repeated, unless it says otherwise.
    pub(crate) deadline: Duration,
    /// What writes wait for, unless they say otherwise.
    pub(crate) durability: Defaults,
    /// R8: an owner without an exist marker is taken as absent, without asking the database.
    pub(crate) trust_absent: bool,
    pub(crate) brake: Brake,
    pub(crate) touches: Touches,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    time: HotTime,
    flights: Flights,
}

/// The answer to a write that its first answer tells to be applied, and as safe as it asks for. Otherwise that first answer.
fn acknowledged(mutation: &Mutation, first: Result<Mutated, HotError>) -> Result<Ack, Result<Mutated, HotError>> {
    match (first, at_once(mutation.durability)) {
        (Ok(Mutated::Applied(applied)), Some(safety)) => Ok(Ack { applied, safety }),
        (first, _) => Err(first),
    }
}

/// A write that an engine, against its contract, gave no answer for.
fn no_answer<T>() -> Result<T> {
    Err(Error::new(Kind::Corrupt, "the hot tier gave no answer").with_outcome(Outcome::Unknown))
}

impl Core {
    pub(crate) async fn new(tiers: Tiers, limits: Limits, ids: Arc<dyn Ids>, settings: &Settings) -> Result<Self> {
        let asked = Instant::now();
        let time = HotTime::new(asked, tiers.hot().time().await?);
        Ok(Self {
            tiers,
            limits,
            ids,
            deadline: settings.hot.operation_deadline,
            durability: settings.durability.clone().into(),
            trust_absent: settings.hot.trust_absent,
            brake: Brake::new(settings.backpressure.clone()),
            touches: Touches::new(settings.hot.touch_interval),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            time,
            flights: Flights::default(),
        })
    }

    /// Applies one mutation: loads what it builds on, prepares its partition, and repeats it under the same id while its outcome
    /// is unknown, until `within` has passed. Then waits until it is as safe as it asks for.
    pub(crate) async fn write(&self, mutation: Mutation, within: Duration) -> Result<Ack> {
        let (_flight, mutation) = self.begin(mutation)?;
        let until = Instant::now() + within;
        let sent = [(mutation, None)];
        // ORDER: before the first copy is sent, so that whatever is found out later is later than it.
        let [(mutation, _)] = &sent;
        let generation = self.generation(mutation);
        let first = self.tiers.hot().mutate(&sent).await.pop();
        let [(mutation, _)] = sent;
        match first.map(|first| acknowledged(&mutation, first)) {
            Some(Ok(ack)) => Ok(ack),
            // Boxed, as few writes need it: the futures of all others are small.
            Some(Err(first)) => Box::pin(self.complete(mutation, generation, first, within, until)).await,
            None => no_answer(),
        }
    }

    /// A write that is under way from now on, as it can be sent. No future holds it meanwhile.
    fn begin(&self, mutation: Mutation) -> Result<(Flight<'_>, Mutation)> {
        let flight = self.flight().map_err(|error| error.of(&mutation.owner))?;
        Ok((flight, self.ready(mutation)?))
    }

    /// Applies mutations, sent together; each as [`Core::write`]. What can't be sent has its error already.
    pub(crate) async fn write_many(
        &self,
        writes: impl ExactSizeIterator<Item = Result<Mutation>>,
        within: Duration,
    ) -> Vec<Result<Ack>> {
        let flight = self.flight();
        let until = Instant::now() + within;
        let mut results: Vec<Option<Result<Ack>>> = Vec::with_capacity(writes.len());
        let mut sent: Vec<(Mutation, Option<Load>)> = Vec::with_capacity(writes.len());
        for write in writes {
            let possible = write.and_then(|mutation| match &flight {
                Ok(_) => self.ready(mutation),
                Err(error) => Err(error.clone().of(&mutation.owner)),
            });
            match possible {
                Ok(mutation) => {
                    sent.push((mutation, None));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        // ORDER: as in `write`.
        let generations: Vec<Epoch> = sent.iter().map(|(mutation, _)| self.generation(mutation)).collect();
        let mut answered = self.tiers.hot().mutate(&sent).await.into_iter().zip(sent).zip(generations);
        let mut left = Vec::new();
        for (at, result) in results.iter_mut().enumerate().filter(|(_, result)| result.is_none()) {
            let Some(((first, (mutation, _)), generation)) = answered.next() else { break };
            match acknowledged(&mutation, first) {
                Ok(ack) => *result = Some(Ok(ack)),
                Err(first) => {
                    left.push(async move { (at, self.complete(mutation, generation, first, within, until).await) });
                }
            }
        }
        for (at, result) in join_all(left).await {
            if let Some(slot) = results.get_mut(at) {
                *slot = Some(result);
            }
        }
        results.into_iter().map(|result| result.unwrap_or_else(no_answer)).collect()
    }

    /// A mutation that can be sent, in the epoch that is known.
    fn ready(&self, mutation: Mutation) -> Result<Mutation> {
        let possible = self.limits.check(&mutation).map_err(Error::from).and_then(|()| check(mutation.durability));
        possible.map_err(|error| error.of(&mutation.owner))?;
        let epoch = self.tiers.epoch(self.partition_of(&mutation));
        Ok(mutation.sent_in(epoch))
    }

    fn generation(&self, mutation: &Mutation) -> Epoch {
        self.tiers.generation(self.partition_of(mutation))
    }

    /// Goes on from the first answer of a mutation that is not done with it, until it is applied and as safe as it asks for.
    async fn complete(
        &self,
        mutation: Mutation,
        generation: Epoch,
        first: Result<Mutated, HotError>,
        within: Duration,
        until: Instant,
    ) -> Result<Ack> {
        let (owner, durability) = (mutation.owner.clone(), mutation.durability);
        let applied = match first {
            Ok(Mutated::Applied(applied)) => applied,
            first => Box::pin(self.finish(mutation, generation, first, within, until)).await.map_err(|error| error.of(&owner))?,
        };
        let safety = self.secure(&owner, durability).await?;
        Ok(Ack { applied, safety })
    }

    /// Goes on from a mutation's first answer until it is final.
    async fn finish(
        &self,
        mut mutation: Mutation,
        mut generation: Epoch,
        first: Result<Mutated, HotError>,
        within: Duration,
        until: Instant,
    ) -> Result<Applied> {
        let partition = self.partition_of(&mutation);
        let mut answer = first;
        let mut unknown = false;
        let mut timed = false;
        let (mut loads, mut moves) = (0, 0);
        let mut pause = REPEAT_MIN;
        let mut load = None;
        loop {
            if let Err(HotError { id: Some(given), .. }) = answer
                && !broken("R11-given")
            {
                mutation.id = given;
            }
            let trouble = match answer {
                Ok(Mutated::Applied(applied)) => return Ok(applied),
                Ok(Mutated::Refused(Refusal::Expired)) if !unknown && Instant::now() < until => {
                    // Nothing of it was applied, so our idea of the hot tier's time is wrong: its clock moved.
                    self.learn_time().await?;
                    mutation.deadline = self.expiry(within);
                    None
                }
                // No copy from before will be applied any more.
                Ok(Mutated::Refused(Refusal::Moved { epoch, generation: now })) if moves < MOVES_MAX => {
                    moves += 1;
                    self.tiers.note(partition, epoch, now);
                    None
                }
                Ok(Mutated::Refused(Refusal::Moved { epoch, .. })) => {
                    let text = format!("partition {partition} was adopted each time it was sent, last in epoch {epoch}");
                    return Err(self.given_up(&mutation, unknown, Error::new(Kind::Contended, text)));
                }
                // Final also after an unknown outcome: this copy did not find the id, so no earlier one was applied, and none
                // will be, since versions don't go back. A clock may: one that leapt ahead refuses this copy as too late, is set right,
                // and takes an earlier one that is still on its way.
                Ok(Mutated::Refused(refusal @ Refusal::Version(_))) => return Err(Error::refused(&refusal)),
                Ok(Mutated::Refused(refusal)) => return Err(self.given_up(&mutation, unknown, Error::refused(&refusal))),
                Ok(Mutated::Load(_)) if loads < LOADS_MAX => {
                    loads += 1;
                    match self.load_for(&mutation).await {
                        Ok(loaded) => {
                            load = Some(loaded);
                            None
                        }
                        Err(error) => return Err(self.given_up(&mutation, unknown, error.into())),
                    }
                }
                Ok(Mutated::Load(_)) => {
                    let error = Error::new(Kind::Contended, "others changed the owner each time it was loaded");
                    return Err(self.given_up(&mutation, unknown, error));
                }
                Err(error) => match error.kind {
                    HotKind::Unprepared(_) if Instant::now() >= until => {
                        return Err(self.given_up(&mutation, unknown, error.into()));
                    }
                    HotKind::Unprepared(partition) => match Box::pin(self.tiers.prepare_or_trust(partition)).await {
                        Ok(()) => None,
                        Err(error) => return Err(self.given_up(&mutation, unknown, error.into())),
                    },
                    // The deadline lay too far ahead: the hot tier's clock was set back, or another server has taken over.
                    HotKind::Settings if !unknown && !timed => {
                        timed = true;
                        self.learn_time().await?;
                        mutation.deadline = self.expiry(within);
                        None
                    }
                    HotKind::Interrupted | HotKind::Unavailable => {
                        unknown |= error.outcome != Outcome::NotApplied;
                        Some(error)
                    }
                    HotKind::NotReached => return Err(error.into()),
                    _ => {
                        unknown |= error.outcome != Outcome::NotApplied;
                        return Err(self.given_up(&mutation, unknown, error.into()));
                    }
                },
            };
            if let Some(error) = trouble {
                if Instant::now() + pause >= until {
                    return Err(self.given_up(&mutation, unknown, error.into()));
                }
                sleep_until(Instant::now() + pause).await;
                pause = (pause * 2).min(REPEAT_MAX);
            }
            mutation.epoch = Some(self.tiers.epoch(partition));
            mutation.known = Known::Sent;
            if !unknown {
                generation = self.tiers.generation(partition);
            } else if self.tiers.generation(partition) != generation && !broken("R11-forgotten") {
                // With what landed, the hot tier has forgotten ids: a repeat could be applied on top of the row that the first made.
                return Err(self.given_up(&mutation, true, Error::forgotten()).reread());
            }
            if broken("R11-new-id") {
                mutation.id = self.ids.next();
            }
            let repeat = [(mutation.clone(), load.take())];
            answer = match self.tiers.hot().mutate(&repeat).await.pop() {
                Some(answer) => answer,
                None => return no_answer(),
            };
        }
    }

    fn partition_of(&self, mutation: &Mutation) -> Partition {
        mutation.owner.partition(self.tiers.hot().partition_count())
    }

    /// Loads what a mutation builds on.
    async fn load_for(&self, mutation: &Mutation) -> Result<Load, TierError> {
        match self.tiers.load(&mutation.owner).await? {
            Some(full) => Ok(full.load.clone()),
            None => {
                self.tiers.heal(&mutation.owner).await?;
                let fields: Vec<Field> = mutation.changes.iter().map(|(field, _)| field.clone()).collect();
                Ok(self.tiers.load_fields(&mutation.owner, &fields).await?.load)
            }
        }
    }
}
