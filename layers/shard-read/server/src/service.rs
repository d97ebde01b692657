//! One request: from its message to its reply.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use storage_shard_read::{
    FailureKind, GetReply, GetRequest, KeyAnswer, KeyFailure, Schema, ShardInfo,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::figures::Figures;
use crate::moment::MomentClock;
use crate::tenure::Tenure;
use crate::{Call, KeyOutcome, Shard};

/// The pause that a full server asks for.
const PUSHBACK: Duration = Duration::from_millis(100);

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceLimits {
    /// Keys of one request.
    pub(crate) keys_per_call: usize,
    /// Keys of all requests under way, over all connections.
    pub(crate) keys_under_way: usize,
    /// Bytes of the values of a reply.
    pub(crate) reply_bytes: usize,
    /// The longest call, also for callers that name no time.
    pub(crate) call: Duration,
}

/// Why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No server would answer it.
    Invalid(String),
    /// The values are too old.
    Stale(String),
    /// The server is full, and asks for a pause.
    Busy(String, Duration),
    /// The time was up.
    Late,
}

/// A service with what its server holds.
pub(crate) struct Service<S: Schema> {
    shard: Arc<dyn Shard<S>>,
    tenure: watch::Receiver<Tenure>,
    clock: Arc<dyn MomentClock>,
    limits: ServiceLimits,
    room: Arc<Semaphore>,
    figures: Arc<Figures>,
}

impl<S: Schema> Service<S> {
    pub(crate) fn new(
        shard: Arc<dyn Shard<S>>,
        tenure: watch::Receiver<Tenure>,
        clock: Arc<dyn MomentClock>,
        limits: ServiceLimits,
        figures: Arc<Figures>,
    ) -> Self {
        Self {
            shard,
            tenure,
            clock,
            limits,
            room: Arc::new(Semaphore::new(limits.keys_under_way)),
            figures,
        }
    }

    /// Answers a request within this time, and within the limit of the server.
    pub(crate) async fn get(
        &self,
        request: GetRequest,
        within: Option<Duration>,
    ) -> Result<GetReply, Refusal> {
        let within = within.map_or(self.limits.call, |within| within.min(self.limits.call));
        let until = Instant::now() + within;
        self.check(&request)?;
        if request.keys.is_empty() {
            return Ok(self.reply(Some(Vec::new())));
        }
        self.figures.calls.add(1);
        let answered = timeout_at(until, self.answer(&request, until)).await;
        let answered = answered.unwrap_or(Err(Refusal::Late));
        match &answered {
            Err(Refusal::Late) => self.figures.late.add(1),
            Err(Refusal::Stale(_)) => self.figures.stale.add(1),
            Err(Refusal::Busy(..)) => self.figures.refused.add(1),
            Ok(GetReply { answers: None, .. }) => self.figures.misdirected.add(1),
            Ok(_) => self.figures.keys.add(request.keys.len()),
            Err(Refusal::Invalid(_)) => {}
        }
        answered
    }

    fn check(&self, request: &GetRequest) -> Result<(), Refusal> {
        if request.schema != S::NAME {
            return Err(Refusal::Invalid(format!(
                "the request is for the schema {:?}, and this server has {:?}",
                request.schema,
                S::NAME
            )));
        }
        let (keys, limit) = (request.keys.len(), self.limits.keys_per_call);
        if keys > limit {
            return Err(Refusal::Invalid(format!(
                "the request has {keys} keys; the limit is {limit}, so split it"
            )));
        }
        Ok(())
    }

    /// What the server holds now, with answers.
    fn reply(&self, answers: Option<Vec<KeyAnswer>>) -> GetReply {
        let shard = self.tenure.borrow().shard.clone();
        GetReply::new(self.with_age(shard), answers)
    }

    fn with_age(&self, shard: ShardInfo) -> ShardInfo {
        let fresh_at = shard
            .state
            .answers()
            .then(|| self.shard.fresh_at())
            .flatten();
        shard.aged(fresh_at.map(|moment| self.clock.now().since(moment)))
    }

    /// V1: the values are read while the range is held from before their first to after their last.
    async fn answer(&self, request: &GetRequest, until: Instant) -> Result<GetReply, Refusal> {
        let keys = decode::<S>(request)?;
        let places: Vec<u64> = keys.iter().map(S::sharding_key).collect();
        let tenure = self.tenure.borrow().clone();
        if !tenure.answers(&places) {
            return Ok(self.reply(None));
        }
        let _room = self.room_for(keys.len())?;
        if !request.after.is_empty() {
            let reached = self.shard.reach(&request.after).await;
            reached.map_err(|reason| Refusal::Stale(reason.to_string()))?;
        }
        let Some(_under_way) = tenure.begin_call() else {
            return Ok(self.reply(None));
        };
        if !self.still_answers(&tenure, &places) {
            return Ok(self.reply(None));
        }
        // ORDER: before the values are read (V6).
        let fresh_at = self.shard.fresh_at();
        let age = || fresh_at.map(|moment| self.clock.now().since(moment));
        self.check_age(age(), request.max_age)?;
        let call = Call {
            until,
            attempt: request.attempt,
        };
        let outcomes = self.values(&call, &keys).await;
        if !self.still_answers(&tenure, &places) {
            return Ok(self.reply(None));
        }
        let age = age();
        self.check_age(age, request.max_age)?;
        let shard = self.tenure.borrow().shard.clone();
        let answers = encode::<S>(outcomes, self.limits.reply_bytes);
        Ok(GetReply::new(shard.aged(age), Some(answers)))
    }

    /// Whether the server has held the range without a break, and still answers.
    fn still_answers(&self, before: &Tenure, keys: &[u64]) -> bool {
        let now = self.tenure.borrow();
        now.number == before.number && now.answers(keys)
    }

    fn room_for(&self, keys: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let room = u32::try_from(keys).ok();
        let room = room.and_then(|keys| Arc::clone(&self.room).try_acquire_many_owned(keys).ok());
        room.ok_or_else(|| {
            let limit = self.limits.keys_under_way;
            Refusal::Busy(
                format!("{limit} keys are under way, the limit of the server"),
                PUSHBACK,
            )
        })
    }

    fn check_age(&self, age: Option<Duration>, limit: Option<Duration>) -> Result<(), Refusal> {
        match (age, limit) {
            (_, None) => Ok(()),
            (Some(age), Some(limit)) if age <= limit => Ok(()),
            (Some(age), Some(limit)) => Err(Refusal::Stale(format!(
                "the values may be {age:?} old; the call asks for {limit:?} at most"
            ))),
            (None, Some(limit)) => Err(Refusal::Stale(format!(
                "the server does not know how old its values are; the call asks for {limit:?} at most"
            ))),
        }
    }

    /// Asks the service. If it panics, asks for each key alone.
    async fn values(&self, call: &Call, keys: &[S::Key]) -> Vec<KeyOutcome<S::Value>> {
        if let Some(outcomes) = self.values_without_panic(call, keys).await {
            return outcomes;
        }
        let mut outcomes = Vec::with_capacity(keys.len());
        for key in keys {
            let alone = if keys.len() > 1 {
                self.values_without_panic(call, std::slice::from_ref(key))
                    .await
            } else {
                None
            };
            outcomes.push(alone.and_then(|mut one| one.pop()).unwrap_or_else(|| {
                self.figures.panics.add(1);
                Err(KeyFailure::new(
                    FailureKind::Panic,
                    "the service panicked at this key",
                ))
            }));
        }
        outcomes
    }

    /// None: the service panicked, or gave another number of outcomes than keys.
    async fn values_without_panic(
        &self,
        call: &Call,
        keys: &[S::Key],
    ) -> Option<Vec<KeyOutcome<S::Value>>> {
        let asked = AssertUnwindSafe(self.shard.get(call, keys));
        let outcomes = asked.catch_unwind().await.ok()?;
        if outcomes.len() == keys.len() {
            return Some(outcomes);
        }
        let (outcomes, keys) = (outcomes.len(), keys.len());
        tracing::error!(
            outcomes,
            keys,
            "the service has another number of outcomes than keys"
        );
        None
    }
}

fn decode<S: Schema>(request: &GetRequest) -> Result<Vec<S::Key>, Refusal> {
    let keys = request.keys.iter().enumerate().map(|(at, bytes)| {
        S::decode_key(bytes)
            .map_err(|error| Refusal::Invalid(format!("key {at} can't be read: {error}")))
    });
    keys.collect()
}

/// The answers. Values above the limit are left for another request.
fn encode<S: Schema>(outcomes: Vec<KeyOutcome<S::Value>>, bytes_max: usize) -> Vec<KeyAnswer> {
    let mut bytes = 0_usize;
    let answer = |outcome: KeyOutcome<S::Value>| {
        let value = match outcome {
            Ok(value) => S::encode_value(&value),
            Err(failure) => return KeyAnswer::Failed(failure),
        };
        if value.len() > bytes_max {
            return KeyAnswer::Failed(KeyFailure::new(
                FailureKind::Invalid,
                format!(
                    "the value has {} bytes; a reply has {bytes_max} at most",
                    value.len()
                ),
            ));
        }
        if bytes.saturating_add(value.len()) > bytes_max {
            return KeyAnswer::Failed(KeyFailure::new(FailureKind::Full, "the reply is full"));
        }
        bytes += value.len();
        KeyAnswer::Value(value)
    };
    outcomes.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests;
