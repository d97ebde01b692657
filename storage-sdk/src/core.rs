//! What every handle of a storage shares: the tiers, the limits, and the one way to write.

mod finish;
mod flights;
mod time;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::join_all;
use storage_config::Settings;
use storage_dirty::{HotError, Load, Mutated};
use storage_landing::LandingWorker;
use storage_model::{Attempt, Durability, Epoch, Ids, Limits, Mutation, Outcome, Owner, Partition};
use storage_tiers::Tiers;
use tokio::time::Instant;

use self::finish::Unfinished;
use self::flights::{Flight, Flights};
use self::time::HotTime;
use crate::background::{Background, Upkeep};
use crate::brake::Brake;
use crate::durability::{Defaults, at_once, check};
use crate::session::Holder;
use crate::touch::Touches;
use crate::{Ack, Error, Kind, Result};

/// The wait before a call is repeated whose answer was lost; it doubles up to [`REPEAT_MAX`].
pub(crate) const REPEAT_MIN: Duration = Duration::from_millis(5);
pub(crate) const REPEAT_MAX: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) tiers: Tiers,
    pub(crate) limits: Limits,
    /// `limits.value_bytes_max` of the settings; more than the limit above if the database takes
    /// less.
    value_bytes_configured: usize,
    pub(crate) ids: Arc<dyn Ids>,
    /// Until when a write is repeated, unless it says otherwise.
    pub(crate) deadline: Duration,
    /// What writes wait for, unless they say otherwise.
    pub(crate) durability: Defaults,
    /// R8: an owner without an exist marker is taken as absent, without asking the database.
    pub(crate) trust_absent: bool,
    pub(crate) brake: Arc<Brake>,
    pub(crate) touches: Arc<Touches>,
    /// Ends with this, which all handles share.
    pub(crate) background: Background,
    /// This process as a holder of sessions.
    pub(crate) holder: Holder,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    time: HotTime,
    flights: Flights,
}

/// A write that is about to be sent, or under way.
struct Sending<'a> {
    flight: Flight<'a>,
    /// As the hot tier takes it; what it builds on is loaded only if that asks for it.
    copy: [(Mutation, Option<Load>); 1],
    /// That of the hot tier when it is sent.
    generation: Epoch,
    /// That of an earlier call under its id.
    earlier: Option<Epoch>,
    within: Duration,
    until: Instant,
}

impl Sending<'_> {
    fn mutation(&self) -> &Mutation {
        let [(mutation, _)] = &self.copy;
        mutation
    }
}

/// The answer to a write that its first answer tells to be applied, and as safe as it asks for.
/// Otherwise that first answer.
fn acknowledged(
    mutation: &Mutation,
    first: Result<Mutated, HotError>,
) -> Result<Ack, Result<Mutated, HotError>> {
    match (first, at_once(mutation.durability)) {
        (Ok(Mutated::Applied(applied)), Some(safety)) => Ok(Ack { applied, safety }),
        (first, _) => Err(first),
    }
}

/// Whether a write is a repeat that waits for the database, of a process that does not know its
/// partition's epoch yet: an id is found whatever the epoch, but what follows tells by it whether
/// the hot tier has forgotten the write.
fn needs_epoch(mutation: &Mutation) -> bool {
    let waits = matches!(mutation.durability, Durability::Landed { .. });
    waits
        && mutation.attempt == Attempt::RetryNamed
        && mutation.epoch.unwrap_or_default() == Epoch(0)
}

fn for_reading_only() -> Error {
    Error::new(Kind::Invalid, "the storage is open for reading only")
}

/// A write that an engine, against its contract, gave no answer for.
fn no_answer<T>() -> Result<T> {
    Err(Error::new(Kind::Corrupt, "the hot tier gave no answer").with_outcome(Outcome::Unknown))
}

impl Core {
    pub(crate) async fn new(
        tiers: Tiers,
        limits: Limits,
        ids: Arc<dyn Ids>,
        settings: &Settings,
        worker: Option<LandingWorker>,
    ) -> Result<Self> {
        let asked = Instant::now();
        let time = HotTime::new(asked, tiers.hot().time().await?);
        let upkeep = Upkeep {
            tiers: tiers.clone(),
            brake: Arc::new(Brake::new(
                settings.backpressure.clone(),
                tiers.home().clone(),
            )),
            touches: Arc::new(Touches::new(settings.hot.touch_interval)),
            check_every: settings.hot.policy_check_interval,
        };
        // What the caller's runtime opens first, it drives: so the calls of several commands don't
        // go by way of another thread.
        upkeep.brake.look(tiers.hot().as_ref()).await;
        let holder = ids.next();
        let background = Background::start(&upkeep, worker);
        Ok(Self {
            tiers,
            limits,
            value_bytes_configured: settings.limits.value_bytes_max,
            ids,
            deadline: settings.hot.operation_deadline,
            durability: settings.durability.clone().into(),
            trust_absent: settings.hot.trust_absent,
            brake: upkeep.brake,
            touches: upkeep.touches,
            background,
            holder: Holder::new(&settings.sessions, holder),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            time,
            flights: Flights::default(),
        })
    }

    /// Applies one mutation: loads what it builds on, prepares its partition, and repeats it under
    /// the same id while its outcome is unknown, until `within` has passed. Then waits until it is
    /// as safe as it asks for.
    pub(crate) fn write(
        &self,
        mutation: Mutation,
        within: Duration,
    ) -> impl Future<Output = Result<Ack>> + Send {
        let mut begun = self.begin(mutation, within);
        // Not an async function, which holds its arguments twice, and what is made of them again:
        // each write asks for the room.
        async move {
            let sending = match &mut begun {
                Ok(sending) => sending,
                Err(error) => return Err(error.clone()),
            };
            if needs_epoch(sending.mutation()) {
                Box::pin(self.learn_epoch(sending)).await?;
            }
            self.note(sending)?;
            let first = self.tiers.hot().mutate(&sending.copy).await.pop();
            let ended = match first.map(|first| acknowledged(sending.mutation(), first)) {
                Some(Ok(ack)) => Ok(ack),
                Some(Err(first)) => self.go_on(sending, first).await,
                None => no_answer(),
            };
            sending.flight.ended();
            ended
        }
    }

    /// A write that is under way from now on, as it can be sent.
    fn begin(&self, mutation: Mutation, within: Duration) -> Result<Sending<'_>> {
        let refused = |error: Error| {
            if mutation.attempt == Attempt::RetryNamed {
                error.with_outcome(Outcome::Unknown)
            } else {
                error
            }
        };
        // A repeat says nothing of an earlier call under its id.
        let flight = self
            .flight(mutation.fence.is_some())
            .map_err(|error| refused(error).of(&mutation.owner))?;
        let (copy, until) = ([(self.ready(mutation)?, None)], Instant::now() + within);
        Ok(Sending {
            flight,
            copy,
            generation: Epoch::default(),
            earlier: None,
            within,
            until,
        })
    }

    /// Prepares a write's partition, so that its epoch is known.
    async fn learn_epoch(&self, sending: &mut Sending<'_>) -> Result<()> {
        let [(mutation, _)] = &mut sending.copy;
        let partition = self.partition_of(mutation);
        let prepared = self.tiers.prepare(&[partition]).await;
        prepared.map_err(|error| {
            Error::from(error)
                .with_outcome(Outcome::Unknown)
                .of(&mutation.owner)
        })?;
        mutation.epoch = Some(self.tiers.epoch(partition));
        Ok(())
    }

    /// Notes under which generation a write is sent for the first time. An error if it repeats one
    /// of another.
    // ORDER: before the first copy is sent, so that whatever is found out later is later than it.
    fn note(&self, sending: &mut Sending<'_>) -> Result<()> {
        let [(mutation, _)] = &sending.copy;
        sending.generation = self.generation(mutation);
        sending.earlier = self.was_given_up(mutation);
        if let Some(earlier) = sending
            .earlier
            .filter(|earlier| *earlier != sending.generation)
        {
            return Err(self.forgotten(mutation, earlier).of(&mutation.owner));
        }
        sending
            .flight
            .sent(mutation, sending.earlier.unwrap_or(sending.generation));
        Ok(())
    }

    /// Goes on from a first answer that is not the last. Boxed, as few writes need it: the futures
    /// of all others are small.
    fn go_on(
        &self,
        sending: &Sending<'_>,
        first: Result<Mutated, HotError>,
    ) -> Pin<Box<impl Future<Output = Result<Ack>>>> {
        let mutation = sending.mutation().clone();
        let partition = self.partition_of(&mutation);
        let mut write = Unfinished::new(
            mutation,
            partition,
            sending.generation,
            sending.within,
            sending.until,
        );
        write.earlier = sending.earlier;
        Box::pin(self.complete(write, first))
    }

    /// Applies mutations, sent together; each as [`Core::write`]. What can't be sent has its error
    /// already.
    pub(crate) async fn write_many(
        &self,
        writes: impl ExactSizeIterator<Item = Result<Mutation>>,
        within: Duration,
    ) -> Vec<Result<Ack>> {
        let flight = self.flight(false);
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
        let generations: Vec<Epoch> = sent
            .iter()
            .map(|(mutation, _)| self.generation(mutation))
            .collect();
        let mut answered = self
            .tiers
            .hot()
            .mutate(&sent)
            .await
            .into_iter()
            .zip(sent)
            .zip(generations);
        let mut left = Vec::new();
        for (at, result) in results
            .iter_mut()
            .enumerate()
            .filter(|(_, result)| result.is_none())
        {
            let Some(((first, (mutation, _)), generation)) = answered.next() else {
                break;
            };
            match acknowledged(&mutation, first) {
                Ok(ack) => *result = Some(Ok(ack)),
                Err(first) => {
                    let partition = self.partition_of(&mutation);
                    let write = Unfinished::new(mutation, partition, generation, within, until);
                    left.push(async move { (at, self.complete(write, first).await) });
                }
            }
        }
        for (at, result) in join_all(left).await {
            if let Some(slot) = results.get_mut(at) {
                *slot = Some(result);
            }
        }
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(no_answer))
            .collect()
    }

    /// A mutation that can be sent, in the epoch that is known. None can while nothing would land
    /// it.
    fn ready(&self, mutation: Mutation) -> Result<Mutation> {
        if self.tiers.is_read_only() {
            return Err(for_reading_only().of(&mutation.owner));
        }
        if let Some(why) = self.tiers.refusal() {
            let outcome = if mutation.attempt == Attempt::RetryNamed {
                Outcome::Unknown
            } else {
                Outcome::NotApplied
            };
            return Err(Error::from(why).with_outcome(outcome).of(&mutation.owner));
        }
        let fits = self
            .limits
            .check(&mutation)
            .map_err(|error| error.named_by(self.value_bytes_configured));
        let possible = fits
            .map_err(Error::from)
            .and_then(|()| check(mutation.durability));
        possible.map_err(|error| error.of(&mutation.owner))?;
        let epoch = self.tiers.epoch(self.partition_of(&mutation));
        Ok(mutation.sent_in(epoch))
    }

    /// Refuses what would write where nothing may be written, or where nothing would land it.
    pub(crate) fn check_writable(&self, owner: &Owner) -> Result<()> {
        self.check_open()?;
        if self.tiers.is_read_only() {
            return Err(for_reading_only().of(owner));
        }
        self.tiers
            .refusal()
            .map_or(Ok(()), |why| Err(Error::from(why).of(owner)))
    }

    fn generation(&self, mutation: &Mutation) -> Epoch {
        self.tiers.generation(self.partition_of(mutation))
    }

    /// Goes on from the first answer of a mutation that is not done with it, until it is applied
    /// and as safe as it asks for.
    async fn complete(&self, write: Unfinished, first: Result<Mutated, HotError>) -> Result<Ack> {
        let (owner, durability) = (write.mutation.owner.clone(), write.mutation.durability);
        let (applied, epoch) = match first {
            Ok(Mutated::Applied(applied)) => (applied, write.mutation.epoch.unwrap_or_default()),
            first => Box::pin(self.finish(write, first))
                .await
                .map_err(|error| self.told(error).of(&owner))?,
        };
        let safety = self.secure(&owner, &applied, epoch, durability).await?;
        Ok(Ack { applied, safety })
    }

    fn partition_of(&self, mutation: &Mutation) -> Partition {
        mutation.owner.partition(self.tiers.hot().partition_count())
    }
}
