//! The shared core of all handles of a storage: the tiers, the limits, and the only way to write.

mod flights;
mod flush;
mod handles;
mod patience;
mod retry;
mod time;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::join_all;
use storage_config::{DurabilitySettings, Settings};
use storage_dirty::{HotError, Load, Mutated};
use storage_landing::LandingWorker;
use storage_model::{
    Applied, Attempt, Durability, Epoch, Ids, Limits, Mutation, OpId, Outcome, Owner, Partition,
};
use storage_tiers::Tiers;
use tokio::time::Instant;

use self::flights::{Flight, Flights};
pub(crate) use self::handles::{Handles, Shared};
pub(crate) use self::patience::patiently;
use self::retry::UnfinishedMutation;
use self::time::HotTime;
use crate::background::{Background, Upkeep};
use crate::backpressure::Backpressure;
use crate::durability::{at_once, check};
use crate::feed::body_of;
use crate::refresh::Refreshes;
use crate::session::Holder;
use crate::{Ack, Error, Kind, Result};

/// The pause before a call with a lost answer is repeated. It doubles up to [`REPEAT_MAX`].
pub(crate) const REPEAT_MIN: Duration = Duration::from_millis(5);
pub(crate) const REPEAT_MAX: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) tiers: Tiers,
    pub(crate) limits: Limits,
    /// `limits.value_bytes_max` of the settings. Greater than the limit above if the database
    /// accepts less.
    value_bytes_configured: usize,
    pub(crate) ids: Arc<dyn Ids>,
    /// The time for retries of a write that sets none.
    pub(crate) deadline: Duration,
    /// The durability of writes that set none.
    pub(crate) durability: DurabilitySettings,
    /// Logic types of which every change leaves a note.
    every_change: BTreeSet<String>,
    /// R8: an owner without an exist marker counts as absent, without a call to the database.
    pub(crate) trust_absent: bool,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) refreshes: Arc<Refreshes>,
    /// Ends with this core, which all handles share.
    pub(crate) background: Background,
    /// This process as a holder of sessions.
    pub(crate) holder: Holder,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    time: HotTime,
    flights: Flights,
}

/// A write that is about to be sent, or is under way.
struct WriteUnderWay<'a> {
    flight: Flight<'a>,
    /// The mutation in the form of the hot tier. The load is filled only if the hot tier asks for
    /// it.
    copy: [(Mutation, Vec<Load>); 1],
    /// The hot tier's generation at the time of sending.
    generation: Epoch,
    /// The generation of an earlier call under the same id.
    earlier: Option<Epoch>,
    within: Duration,
    until: Instant,
}

impl WriteUnderWay<'_> {
    fn mutation(&self) -> &Mutation {
        let [(mutation, _)] = &self.copy;
        mutation
    }
}

/// The acknowledgement, if the first answer says that the write is applied at its durability.
/// Otherwise the first answer.
fn acknowledged(
    mutation: &Mutation,
    first: Result<Mutated, HotError>,
) -> Result<Ack, Result<Mutated, HotError>> {
    match (first, at_once(mutation.durability)) {
        (Ok(Mutated::Applied(applied)), Some(safety)) => Ok(Ack { applied, safety }),
        (first, _) => Err(first),
    }
}

/// The first owner that a write has changed, by its place, and its result.
fn first_changed(applied: &Applied) -> (usize, &Applied) {
    let further = applied.also.iter().enumerate();
    match further
        .map(|(at, one)| (at + 1, one))
        .find(|(_, one)| one.changed > 0)
    {
        Some(changed) if applied.changed == 0 => changed,
        _ => (0, applied),
    }
}

/// Whether the write is a retry that waits for the database, in a process that does not know the
/// partition's epoch yet. The hot tier finds an id in any epoch. But the wait needs the epoch to
/// tell whether the hot tier has forgotten the write.
fn needs_epoch(mutation: &Mutation) -> bool {
    let waits = matches!(mutation.durability, Durability::Landed { .. });
    waits && mutation.attempt == Attempt::Named && mutation.epoch.unwrap_or_default() == Epoch(0)
}

fn for_reading_only() -> Error {
    Error::new(Kind::Invalid, "the storage is open for reading only")
}

/// An engine broke its contract and gave no answer for a write.
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
        let time = HotTime::new(asked, tiers.hot().tier.time().await?);
        let upkeep = Upkeep {
            tiers: tiers.clone(),
            backpressure: Arc::new(Backpressure::new(
                settings.backpressure.clone(),
                tiers.home().clone(),
            )),
            refreshes: Arc::new(Refreshes::new(settings.hot.refresh_interval)),
            check_every: settings.hot.policy_check_interval,
        };
        // The caller's runtime drives the connections that it opens first. So the calls of several
        // commands need no other thread.
        upkeep.backpressure.look(tiers.hot()).await;
        let holder = ids.next();
        let background = Background::start(&upkeep, worker);
        Ok(Self {
            tiers,
            limits,
            value_bytes_configured: settings.limits.value_bytes_max,
            ids,
            deadline: settings.hot.operation_deadline,
            durability: settings.durability.clone(),
            every_change: settings.feed.every_change.clone(),
            trust_absent: settings.hot.trust_absent,
            backpressure: upkeep.backpressure,
            refreshes: upkeep.refreshes,
            background,
            holder: Holder::new(&settings.sessions, holder),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            time,
            flights: Flights::default(),
        })
    }

    /// Applies one mutation. Loads its owner if needed, prepares its partition, and repeats it
    /// under the same id while its outcome is unknown, until `within` has passed. Then waits for
    /// its durability.
    pub(crate) fn write(
        &self,
        mutation: Mutation,
        within: Duration,
    ) -> impl Future<Output = Result<Ack>> + Send {
        let mut begun = self.begin(mutation, within);
        // Not an async function, whose future holds the arguments twice, and again all values made
        // of them. Every write allocates this future.
        async move {
            let sending = match &mut begun {
                Ok(sending) => sending,
                Err(error) => return Err(error.clone()),
            };
            if needs_epoch(sending.mutation()) {
                Box::pin(self.learn_epoch(sending)).await?;
            }
            self.note(sending)?;
            let first = self.tiers.hot().owners.mutate(&sending.copy).await.pop();
            let ended = match first.map(|first| acknowledged(sending.mutation(), first)) {
                Some(Ok(ack)) => Ok(ack),
                Some(Err(first)) => self.go_on(sending, first).await,
                None => no_answer(),
            };
            sending.flight.ended();
            ended
        }
    }

    /// A write that is under way from now on, ready to be sent.
    fn begin(&self, mutation: Mutation, within: Duration) -> Result<WriteUnderWay<'_>> {
        let refused = |error: Error| {
            if mutation.attempt == Attempt::Named {
                error.with_outcome(Outcome::Unknown)
            } else {
                error
            }
        };
        // The failure of a retry tells nothing about an earlier call under its id.
        let flight = self
            .flight(mutation.fence.is_some())
            .map_err(|error| refused(error).of(&mutation.owner))?;
        let (copy, until) = (
            [(self.ready(mutation)?, Vec::new())],
            Instant::now() + within,
        );
        Ok(WriteUnderWay {
            flight,
            copy,
            generation: Epoch::default(),
            earlier: None,
            within,
            until,
        })
    }

    /// Prepares the partition of a write, which makes its epoch known.
    async fn learn_epoch(&self, sending: &mut WriteUnderWay<'_>) -> Result<()> {
        let [(mutation, _)] = &mut sending.copy;
        let partition = self.partition_of(mutation);
        let partitions = [partition];
        let prepare = patiently(sending.until, || self.tiers.prepare(&partitions));
        let prepared = self.in_time(sending.within, prepare).await;
        prepared.map_err(|error| error.with_outcome(Outcome::Unknown).of(&mutation.owner))?;
        mutation.epoch = Some(self.tiers.epoch(partition));
        Ok(())
    }

    /// Notes the generation in which the write is first sent. An error if it retries a write of
    /// another generation.
    // ORDER: before the first copy is sent, so that all later findings are later than it.
    fn note(&self, sending: &mut WriteUnderWay<'_>) -> Result<()> {
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

    /// Continues from a first answer that is not final. Boxed, because few writes need it and the
    /// futures of all others stay small.
    fn go_on(
        &self,
        sending: &WriteUnderWay<'_>,
        first: Result<Mutated, HotError>,
    ) -> Pin<Box<impl Future<Output = Result<Ack>>>> {
        let mutation = sending.mutation().clone();
        let partition = self.partition_of(&mutation);
        let mut write = UnfinishedMutation::new(
            mutation,
            partition,
            sending.generation,
            sending.within,
            sending.until,
        );
        write.earlier = sending.earlier;
        Box::pin(self.complete(write, first))
    }

    /// Applies mutations that are sent together, each as [`Core::write`]. A mutation that can't be
    /// sent already has its error.
    pub(crate) async fn write_many(
        &self,
        writes: impl ExactSizeIterator<Item = Result<Mutation>>,
        within: Duration,
    ) -> Vec<Result<Ack>> {
        let flight = self.flight(false);
        let until = Instant::now() + within;
        let mut results: Vec<Option<Result<Ack>>> = Vec::with_capacity(writes.len());
        let mut sent: Vec<(Mutation, Vec<Load>)> = Vec::with_capacity(writes.len());
        for write in writes {
            let possible = write.and_then(|mutation| match &flight {
                Ok(_) => self.ready(mutation),
                Err(error) => Err(error.clone().of(&mutation.owner)),
            });
            match possible {
                Ok(mutation) => {
                    sent.push((mutation, Vec::new()));
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
            .owners
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
                    let write =
                        UnfinishedMutation::new(mutation, partition, generation, within, until);
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

    /// Waits under back-pressure, or rejects the write. Returns the rest of its deadline.
    pub(crate) async fn admit(&self, deadline: Duration, id: Option<OpId>) -> Result<Duration> {
        if self.check_open().is_err() {
            // The write fails just before it is sent, with the known outcome of an earlier call. A
            // back-pressure that nobody updates any more must not answer first.
            return Ok(deadline);
        }
        let admitted = self.backpressure.admit(deadline, id.is_some()).await;
        admitted.map_err(|error| match id {
            // An earlier call under the id may have been applied.
            Some(_) => error.with_outcome(Outcome::Unknown),
            None => error,
        })
    }

    /// The id of a write, and its first attempt. The hot tier must remember an id that the caller
    /// keeps.
    pub(crate) fn id_and_attempt(&self, kept: Option<OpId>) -> (OpId, Attempt) {
        match kept {
            Some(id) => (id, Attempt::Named),
            None => (self.ids.next(), Attempt::First),
        }
    }

    /// A mutation that is ready to be sent, with the known epoch. Fails while nothing would land
    /// it.
    fn ready(&self, mutation: Mutation) -> Result<Mutation> {
        if self.tiers.is_read_only() {
            return Err(for_reading_only().of(&mutation.owner));
        }
        if let Some(why) = self.tiers.refusal() {
            let outcome = if mutation.attempt == Attempt::Named {
                Outcome::Unknown
            } else {
                Outcome::NotApplied
            };
            return Err(Error::of_tiers(why)
                .with_outcome(outcome)
                .of(&mutation.owner));
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
        Ok(self.noted(mutation).sent_in(epoch))
    }

    /// The mutation with a note of each part whose logic type asks for one, unless the caller gave
    /// another.
    fn noted(&self, mut mutation: Mutation) -> Mutation {
        if self.every_change.is_empty() {
            return mutation;
        }
        let is_noted = |part: &Mutation| {
            part.note.is_none() && self.every_change.contains(part.owner.logic_type())
        };
        let body = |part: &Mutation| body_of(&part.changes, self.limits.value_bytes_max);
        if is_noted(&mutation) {
            mutation.note = Some(body(&mutation));
        }
        for part in &mut mutation.also {
            if is_noted(part) {
                part.note = Some(body(part));
            }
        }
        mutation
    }

    /// Rejects a write if the storage is read-only, or if nothing would land the write.
    pub(crate) fn check_writable(&self, owner: &Owner) -> Result<()> {
        self.check_open()?;
        if self.tiers.is_read_only() {
            return Err(for_reading_only().of(owner));
        }
        self.tiers
            .refusal()
            .map_or(Ok(()), |why| Err(Error::of_tiers(why).of(owner)))
    }

    fn generation(&self, mutation: &Mutation) -> Epoch {
        self.tiers.noted(self.partition_of(mutation)).generation
    }

    /// Continues from a first answer that is not final, until the mutation is applied at its
    /// durability.
    async fn complete(
        &self,
        write: UnfinishedMutation,
        first: Result<Mutated, HotError>,
    ) -> Result<Ack> {
        let sent = write.mutation.clone();
        let durability = sent.durability;
        let part = |at: usize| {
            let further = at.checked_sub(1).and_then(|at| sent.also.get(at));
            further.unwrap_or(&sent)
        };
        let (applied, epoch) = match first {
            Ok(Mutated::Applied(applied)) => (applied, write.mutation.epoch.unwrap_or_default()),
            first => Box::pin(self.finish(write, first)).await.map_err(|error| {
                let part = part(error.part());
                self.error_for_caller(error.explained(part)).of(&part.owner)
            })?,
        };
        // Its partners land with the first owner that has changed.
        let (at, changed) = first_changed(&applied);
        let safety = self
            .secure(&part(at).owner, changed, epoch, durability)
            .await?;
        Ok(Ack { applied, safety })
    }

    fn partition_of(&self, mutation: &Mutation) -> Partition {
        mutation
            .owner
            .partition(self.tiers.hot().partitions.partition_count())
    }
}
